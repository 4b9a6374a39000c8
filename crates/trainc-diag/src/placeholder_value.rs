//! Placeholders in place of credentials: `YOUR_TOKEN`, `<password>`, `hf_xxxxxxxx`.

/// Words of which one says that a value is to be replaced.
const MARKERS: &[&str] = &[
    "change",
    "dummy",
    "enter",
    "fill",
    "fixme",
    "here",
    "insert",
    "placeholder",
    "redacted",
    "replace",
    "todo",
    "your",
];

/// Words that name what is to be put in place of such a value.
const NOUNS: &[&str] = &[
    "a",
    "access",
    "account",
    "actual",
    "api",
    "auth",
    "aws",
    "bearer",
    "credential",
    "credentials",
    "database",
    "db",
    "face",
    "ghp",
    "github",
    "hf",
    "hub",
    "hugging",
    "id",
    "in",
    "it",
    "key",
    "me",
    "mlflow",
    "my",
    "name",
    "on",
    "openai",
    "own",
    "pass",
    "passphrase",
    "password",
    "passwd",
    "pat",
    "pwd",
    "real",
    "secret",
    "service",
    "sk",
    "the",
    "this",
    "token",
    "user",
    "username",
    "value",
    "wandb",
    "with",
];

/// Brackets of templates.
const BRACKETS: &[(&str, &str)] =
    &[("<", ">"), ("[", "]"), ("{", "}"), ("$", ""), ("%", "%"), ("@", "@"), ("__", "__")];

/// Returns whether a value is a placeholder: it has the brackets of a template, is made of words such as
/// `your` and `token`, or mostly repeats one letter.
pub fn is_placeholder_value(text: &str) -> bool {
    is_template(text) || is_masked(text) || is_made_of_words(text)
}

/// Returns the part of a match that is secret: the password of a URL, or all of it.
pub fn secret_part(found: &str) -> &str {
    let user_info = found.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
    user_info.map_or(found, |(info, _)| info.split_once(':').map_or(info, |(_, password)| password))
}

fn is_template(text: &str) -> bool {
    BRACKETS.iter().any(|(open, close)| {
        text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)).is_some_and(|inside| {
            inside.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '{' | '_'))
                && inside.chars().all(|c| c.is_ascii_alphanumeric() || "_- .{}".contains(c))
                // A name, not a random string that happens to start with the sign.
                && !inside.chars().any(|c| c.is_ascii_digit())
        })
    })
}

/// Returns whether at least half of the value, and three places, repeat a letter that masks others.
fn is_masked(text: &str) -> bool {
    ['x', 'X', '*', '.', '?', '#'].iter().any(|mask| {
        let longest = text.split(|c| c != *mask).map(str::len).max().unwrap_or(0);
        longest >= 3 && longest * 2 >= text.len()
    })
}

fn is_made_of_words(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let is_number = |part: &str| part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut has_marker = false;
    let all = lower.split(|c: char| !c.is_ascii_alphanumeric()).all(|part| {
        is_number(part)
            || words_of(part).is_some_and(|marked| {
                has_marker |= marked;
                true
            })
    });
    all && has_marker
}

/// Returns whether the part consists of known words without gaps, and if so, whether one of them is a marker.
fn words_of(part: &str) -> Option<bool> {
    // For each length of the part's beginning: whether words make it up, with and without a marker.
    let mut reached: Vec<[bool; 2]> = vec![[false; 2]; part.len() + 1];
    *reached.first_mut()? = [true, false];
    for start in 0..part.len() {
        let Some(&[plain, marked]) = reached.get(start) else { continue };
        let Some(rest) = part.get(start..).filter(|_| plain || marked) else { continue };
        let words = NOUNS.iter().map(|word| (word, false)).chain(MARKERS.iter().map(|word| (word, true)));
        for (word, is_marker) in words.filter(|(word, _)| rest.starts_with(**word)) {
            if let Some(end) = reached.get_mut(start + word.len()) {
                let [end_plain, end_marked] = end;
                *end_plain |= plain && !is_marker;
                *end_marked |= marked || (plain && is_marker);
            }
        }
    }
    match reached.last()? {
        [_, true] => Some(true),
        [true, false] => Some(false),
        [false, false] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_told_from_credentials() {
        for placeholder in [
            "<password>",
            "[password]",
            "{password}",
            "${DB_PASSWORD}",
            "$DB_PASSWORD",
            "%HF_TOKEN%",
            "@DB_PASSWORD@",
            "__DB_PASSWORD__",
            "YOUR_PASSWORD",
            "your-wandb-api-key-123",
            "hf_yourtokenhereyourtokenhere",
            "YourTokenHere",
            "changeme",
            "CHANGE_ME",
            "REPLACE_ME",
            "replace-with-your-token",
            "TODO",
            "dummy",
            "********",
            "xxxx",
            "hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "AKIAXXXXXXXXXXXXXXXX",
            "sk-...",
        ] {
            assert!(is_placeholder_value(placeholder), "{placeholder}");
        }
        for credential in [
            "hunter2",
            "password",
            "secret",
            "a",
            "12",
            "$ecr3tPa55",
            "$tr0ng!",
            "yourmom123x",
            "Your-Dog-Rex",
            "AKIAIOSFODNN7EXAMPLE",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "hf_abcdefghijklmnopqrstuvwxyz012345",
            "hf_xxyourAbCdEf0123456789",
            "",
        ] {
            assert!(!is_placeholder_value(credential), "{credential}");
        }
    }

    #[test]
    fn the_secret_of_a_url_is_its_password() {
        for (found, secret) in [
            ("https://me:pa:ss@", "pa:ss"),
            ("https://token@", "token"),
            ("ghp_0123", "ghp_0123"),
            ("git+https://<user>:<token>@", "<token>"),
        ] {
            assert_eq!(secret_part(found), secret);
        }
    }
}
