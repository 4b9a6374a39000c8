//! Shell quoting of script arguments: the container joins them with spaces and runs them through a shell
//! (sagemaker-training-toolkit, `process.py`).

/// Quotes a value for the shell.
///
/// A value without special characters is unchanged; one with spaces gets double quotes (as AWS's examples
/// write `"full_shard auto_wrap"`), any other single quotes.
pub fn quote(value: &str) -> String {
    if !value.is_empty() && value.chars().all(is_shell_safe) {
        value.to_owned()
    } else if value.chars().all(|c| is_shell_safe(c) || c == ' ') {
        format!("\"{value}\"")
    } else {
        format!("'{}'", value.replace('\'', "'\\''"))
    }
}

/// Reverses [`quote`]; `None` for a text that it never returns.
pub fn unquote(text: &str) -> Option<String> {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    let value = match (inner('"'), inner('\'')) {
        (Some(value), _) => value.to_owned(),
        (None, Some(value)) => value.replace("'\\''", "'"),
        (None, None) => text.to_owned(),
    };
    (quote(&value) == text).then_some(value)
}

/// Returns whether a character needs no quoting.
pub fn is_shell_safe(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '@' | '%' | '+' | '=' | ':' | ',' | '.' | '/' | '-')
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test asks a real shell")]
mod tests {
    use super::*;

    #[test]
    fn quotes_only_what_needs_it() {
        assert_eq!(quote("/opt/ml/model"), "/opt/ml/model");
        assert_eq!(quote("full_shard auto_wrap"), "\"full_shard auto_wrap\"");
        assert_eq!(quote(""), "\"\"");
        assert_eq!(quote("a$b; rm -rf"), "'a$b; rm -rf'");
        assert_eq!(quote("it's"), "'it'\\''s'");
    }

    #[test]
    fn unquoting_reverses_quoting() {
        for value in ["plain", "two words", "", "$HOME", "a'b", "a\"b", "'", "\"", "it's \"so\""] {
            assert_eq!(unquote(&quote(value)).as_deref(), Some(value));
        }
        assert_eq!(unquote("two words"), None);
        assert_eq!(unquote("'plain'"), None);
    }

    #[test]
    fn a_real_shell_gives_the_value_back() {
        for value in [
            "plain",
            "two words",
            "",
            "$HOME",
            "`id`",
            "a'b",
            "a\"b",
            "\\",
            "*",
            "é",
            "a;b|c&d",
            "~",
            "#x",
            "!y",
            "{a,b}",
        ] {
            let line = format!("printf %s {}", quote(value));
            let out = std::process::Command::new("sh").arg("-c").arg(&line).output().unwrap();
            assert_eq!(String::from_utf8(out.stdout).unwrap(), value, "{line}");
        }
    }
}
