//! Arguments through the container's shell: it joins them with spaces and runs the line, so each value is
//! quoted here such that the script receives what was written (sagemaker-training-toolkit, `process.py`).

/// A value as it must stand on the line.
///
/// Untouched when nothing in it is special; in double quotes when only blanks are (as AWS's own examples
/// write `"full_shard auto_wrap"`); else in single quotes.
pub fn quoted(value: &str) -> String {
    if !value.is_empty() && value.chars().all(is_plain) {
        value.to_owned()
    } else if value.chars().all(|c| is_plain(c) || c == ' ') {
        format!("\"{value}\"")
    } else {
        format!("'{}'", value.replace('\'', "'\\''"))
    }
}

/// The value that [`quoted`] made this of; `None` for what it never makes.
pub fn unquoted(text: &str) -> Option<String> {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    let value = match (inner('"'), inner('\'')) {
        (Some(value), _) => value.to_owned(),
        (None, Some(value)) => value.replace("'\\''", "'"),
        (None, None) => text.to_owned(),
    };
    (quoted(&value) == text).then_some(value)
}

/// Whether a shell takes the character as it is.
pub fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '@' | '%' | '+' | '=' | ':' | ',' | '.' | '/' | '-')
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test asks a real shell")]
mod tests {
    use super::*;

    #[test]
    fn quotes_only_what_needs_it() {
        assert_eq!(quoted("/opt/ml/model"), "/opt/ml/model");
        assert_eq!(quoted("full_shard auto_wrap"), "\"full_shard auto_wrap\"");
        assert_eq!(quoted(""), "\"\"");
        assert_eq!(quoted("a$b; rm -rf"), "'a$b; rm -rf'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }

    #[test]
    fn what_was_quoted_comes_back() {
        for value in ["plain", "two words", "", "$HOME", "a'b", "a\"b", "'", "\"", "it's \"so\""] {
            assert_eq!(unquoted(&quoted(value)).as_deref(), Some(value));
        }
        assert_eq!(unquoted("two words"), None);
        assert_eq!(unquoted("'plain'"), None);
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
            let line = format!("printf %s {}", quoted(value));
            let out = std::process::Command::new("sh").arg("-c").arg(&line).output().unwrap();
            assert_eq!(String::from_utf8(out.stdout).unwrap(), value, "{line}");
        }
    }
}
