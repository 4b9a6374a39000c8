//! Detection of credentials by pattern, name and file name.

use std::sync::{LazyLock, OnceLock};

use regex::Regex;
use serde::Deserialize;

use super::table::{Sourced, Table};
use trainc_diag::placeholder_value::{is_placeholder_value, secret_part};

pub(crate) const TABLE: Table = Table::new("credentials", include_str!("data/credentials.toml"));

#[derive(Clone, Deserialize)]
struct CredentialRow {
    /// Every match contains one of these.
    contains: Vec<String>,
    regex: String,
    /// Length of the shortest match in bytes.
    shortest: usize,
    statement: String,
    /// True if a match in a program file is reported.
    #[serde(default = "is_token_by_default")]
    is_token: bool,
    #[serde(flatten)]
    #[expect(dead_code, reason = "the source is for readers of the file only")]
    sourced: Sourced,
}

fn is_token_by_default() -> bool {
    true
}

/// A pattern, compiled for the first text that could match. Most manifests contain none, and compiling all patterns
/// takes a fifth of a cold `check`.
struct CredentialPattern {
    row: CredentialRow,
    compiled: OnceLock<Option<Regex>>,
}

impl CredentialPattern {
    /// Returns the expression if the text could match it.
    fn regex_for_text(&self, text: &str) -> Option<&Regex> {
        let could =
            text.len() >= self.row.shortest && self.row.contains.iter().any(|word| text.contains(word));
        could.then(|| self.compiled.get_or_init(|| Regex::new(&self.row.regex).ok()).as_ref())?
    }
}

static PATTERNS: LazyLock<Vec<CredentialPattern>> = LazyLock::new(|| {
    let rows = TABLE.keys().filter_map(|key| TABLE.row::<CredentialRow>(key));
    rows.map(|row| CredentialPattern { row, compiled: OnceLock::new() }).collect()
});

/// Returns the matches that are not placeholders of a credential.
fn matches<'a>(regex: &'a Regex, text: &'a str) -> impl Iterator<Item = regex::Match<'a>> {
    regex.find_iter(text).filter(|found| !is_placeholder_value(secret_part(found.as_str())))
}

/// Returns the kind of credential in the text, as a phrase: `an AWS access key id`.
pub fn find(text: &str) -> Option<&'static str> {
    PATTERNS
        .iter()
        .find(|form| form.regex_for_text(text).is_some_and(|regex| matches(regex, text).next().is_some()))
        .map(|form| form.row.statement.as_str())
}

/// Returns the kind of token in the content of a program file. Passwords in URLs do not count, because documentation
/// contains placeholders of that form; nor do matches without a digit, such as the CSS class `sk-…` of an HTML page.
pub fn find_token(content: &str) -> Option<&'static str> {
    let has_token = |regex: &Regex| {
        matches(regex, content).any(|token| token.as_str().bytes().any(|byte| byte.is_ascii_digit()))
    };
    let tokens = PATTERNS.iter().filter(|form| form.row.is_token);
    tokens
        .filter(|form| form.regex_for_text(content).is_some_and(has_token))
        .map(|form| form.row.statement.as_str())
        .next()
}

/// Returns the byte range and kind of every credential in a text.
pub fn credential_ranges(text: &str) -> Vec<(usize, usize, &'static str)> {
    let mut out: Vec<(usize, usize, &'static str)> = Vec::new();
    for form in PATTERNS.iter() {
        let Some(regex) = form.regex_for_text(text) else { continue };
        out.extend(
            matches(regex, text).map(|found| (found.start(), found.end(), form.row.statement.as_str())),
        );
    }
    out.sort_unstable();
    // Overlapping matches count once.
    out.dedup_by(|later, earlier| later.0 < earlier.1);
    out
}

pub(crate) const NAMES: Table = Table::new("credential-names", include_str!("data/credential-names.toml"));

/// The class of a value by the last word of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamedCredential {
    /// A password, for any value.
    Password,
    /// A credential, unless the value is clearly a setting.
    Credential,
    /// A credential or a setting: `token`, `key`.
    Perhaps,
    /// A digest or an ID, which looks as random as a key: `commit`, `id`.
    Digest,
}

#[derive(Clone, Deserialize)]
struct CredentialNameRow {
    kind: NamedCredential,
    #[serde(flatten)]
    #[expect(dead_code, reason = "the source is for readers of the file only")]
    sourced: Sourced,
}

/// Classifies a name by its last word: `db-password`, `WANDB_API_KEY`.
pub fn classify_name(name: &str) -> Option<NamedCredential> {
    let name = name.to_lowercase().replace(['-', '.'], "_");
    let last = name.rsplit('_').next()?;
    NAMES.row::<CredentialNameRow>(last).map(|row| row.kind)
}

pub(crate) const FILES: Table = Table::new("credential-files", include_str!("data/credential-files.toml"));

#[derive(Clone, Deserialize)]
struct CredentialFileRow {
    statement: String,
    #[serde(flatten)]
    #[expect(dead_code, reason = "the source is for readers of the file only")]
    sourced: Sourced,
}

/// Returns the kind of credentials in a file by its path, as a phrase: `an SSH private key`.
pub fn credential_kind_of_file(path: &str) -> Option<String> {
    let is_of = |key: &str| match (key.strip_prefix('*'), key.strip_suffix('/')) {
        (Some(ending), _) => path.ends_with(ending),
        (None, Some(directory)) => path
            .rsplit_once('/')
            .is_some_and(|(parents, _)| parents.split('/').any(|parent| parent == directory)),
        (None, None) => path.strip_suffix(key).is_some_and(|dir| dir.is_empty() || dir.ends_with('/')),
    };
    FILES.row::<CredentialFileRow>(FILES.keys().find(|key| is_of(key))?).map(|row| row.statement)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::string::string_regex;
    use proptest::test_runner::TestRunner;

    #[test]
    fn the_shortest_is_what_the_expression_needs() {
        for form in PATTERNS.iter() {
            let parsed = regex_syntax::parse(&form.row.regex).unwrap();
            assert_eq!(parsed.properties().minimum_len(), Some(form.row.shortest), "{}", form.row.regex);
        }
    }

    /// `contains` misses nothing: every text that matches the expression is found.
    #[test]
    fn what_the_expression_makes_is_found() {
        let mut runner = TestRunner::deterministic();
        for form in PATTERNS.iter() {
            let made = string_regex(&form.row.regex.replace(r"\b", "")).unwrap();
            for _ in 0..256 {
                let text = made.new_tree(&mut runner).unwrap().current();
                assert!(form.regex_for_text(&text).is_some_and(|regex| regex.is_match(&text)), "{text}");
            }
        }
    }

    #[test]
    fn every_form_compiles_and_finds() {
        assert_eq!(PATTERNS.len(), TABLE.keys().count());
        assert_eq!(find("id AKIAIOSFODNN7EXAMPLE"), Some("an AWS access key id"));
        assert_eq!(find("hf_abcdefghijklmnopqrstuvwx"), Some("a Hugging Face token"));
        assert_eq!(find("https://user:pass@github.com/a/b.git"), Some("a password in a URL"));
        for fine in [
            "s3://bucket/a:b@c/",
            "huggyllama/llama-7b",
            "git@github.com:a/b.git",
            "https://github.com/a/b.git",
            "arn:aws:iam::111122223333:role/x",
        ] {
            assert_eq!(find(fine), None, "{fine}");
        }
    }

    #[test]
    fn a_file_tells_by_the_end_of_its_path() {
        assert!(FILES.keys().all(|key| FILES.row::<CredentialFileRow>(key).is_some()));
        for path in [
            ".env",
            "a/.env",
            "deploy.pem",
            "keys/id_rsa",
            ".aws/credentials",
            "home/.aws/credentials",
            ".npmrc",
            "infra/terraform.tfstate",
            "a/.gnupg/private-keys-v1.d/1.key",
        ] {
            assert!(credential_kind_of_file(path).is_some(), "{path}");
        }
        for path in [
            "train.env",
            ".env.example",
            "env",
            "id_rsa.pub",
            "aws/credentials",
            "credentials",
            "my_id_rsa",
            "pem",
            ".gnupg",
            "gnupg/pubring.kbx",
        ] {
            assert_eq!(credential_kind_of_file(path), None, "{path}");
        }
    }

    #[test]
    fn tokens_in_the_content_of_a_file_are_found() {
        assert_eq!(find_token("login(token='hf_abcdefghijklmnopqrstuvwx0')\n"), Some("a Hugging Face token"));
        for fine in ["sk-toggleable__content-arrow", "https://user:pass@example.com/", "hf_transfer"] {
            assert_eq!(find_token(fine), None, "{fine}");
        }
    }

    #[test]
    fn a_name_tells_by_its_last_word() {
        for (name, kind) in [
            ("db-password", Some(NamedCredential::Password)),
            ("DB.PASSWD", Some(NamedCredential::Password)),
            ("client_secret", Some(NamedCredential::Credential)),
            ("WANDB_API_KEY", Some(NamedCredential::Perhaps)),
            ("secret_name", None),
            ("max_tokens", None),
            ("", None),
        ] {
            assert_eq!(classify_name(name), kind, "{name}");
        }
        assert!(NAMES.keys().all(|key| classify_name(key).is_some()));
    }
}
