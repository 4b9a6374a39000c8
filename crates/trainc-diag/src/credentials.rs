//! Detection of credentials by pattern, name and randomness.
//!
//! It is here, below all stages, because every output masks what it finds
//! ([`crate::source::SourceMap::mask`]).

use crate::placeholder_value::{is_placeholder_value, secret_part};
use regex::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

/// The patterns of credentials, as a table of the catalogue.
pub const PATTERNS_TOML: &str = include_str!("data/credentials.toml");

/// The last words of the names of credentials, as a table of the catalogue.
pub const NAMES_TOML: &str = include_str!("data/credential-names.toml");

#[derive(Clone, Deserialize)]
struct CredentialRow {
    /// Every match contains one of these.
    contains: Vec<String>,
    /// Every match also contains this.
    also: Option<String>,
    regex: String,
    /// Length of the shortest match in bytes.
    shortest: usize,
    statement: String,
    /// True if a match in a program file is reported.
    #[serde(default = "is_token_by_default")]
    is_token: bool,
}

fn is_token_by_default() -> bool {
    true
}

/// A pattern, compiled for the first text that could match. Most manifests contain none, and compiling all
/// patterns takes a fifth of a cold `check`.
struct CredentialPattern {
    row: CredentialRow,
    compiled: OnceLock<Option<Regex>>,
}

impl CredentialPattern {
    /// Returns the expression if the text could match it.
    fn regex_for_text(&self, text: &str) -> Option<&Regex> {
        let could = text.len() >= self.row.shortest
            && self.row.contains.iter().any(|word| text.contains(word))
            && self.row.also.as_ref().is_none_or(|also| text.contains(also));
        could.then(|| self.compiled.get_or_init(|| Regex::new(&self.row.regex).ok()).as_ref())?
    }
}

static PATTERNS: LazyLock<Vec<CredentialPattern>> = LazyLock::new(|| {
    let rows: BTreeMap<String, CredentialRow> = toml::from_str(PATTERNS_TOML).unwrap_or_default();
    // In the order of the file: the first that matches names the credential.
    let keys = PATTERNS_TOML.lines().filter_map(|line| line.strip_prefix("[\"")?.strip_suffix("\"]"));
    let rows = keys.filter_map(|key| rows.get(key).cloned());
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

/// Returns the kind of token in the content of a program file. Passwords in URLs do not count, because
/// documentation contains placeholders of that form; nor do matches without a digit, such as the CSS class
/// `sk-…` of an HTML page.
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
}

static NAMES: LazyLock<BTreeMap<String, CredentialNameRow>> =
    LazyLock::new(|| toml::from_str(NAMES_TOML).unwrap_or_default());

/// Classifies a name by its last word: `db-password`, `WANDB_API_KEY`.
pub fn classify_name(name: &str) -> Option<NamedCredential> {
    let last = name.rsplit(['_', '-', '.']).next()?;
    if last.bytes().any(|byte| byte.is_ascii_uppercase()) || !last.is_ascii() {
        return NAMES.get(last.to_lowercase().as_str()).map(|row| row.kind);
    }
    NAMES.get(last).map(|row| row.kind)
}

/// The place of a value, which decides how hexadecimal digits are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An environment variable or a hyperparameter: hexadecimal digits are a key unless the name indicates a
    /// digest.
    Variable,
    /// Any other value, which may be a digest.
    Other,
}

/// Returns the kind of credential that a value is, as a phrase: by its format, by its name, or by its
/// randomness. This is the finder: T0252 reports what it finds, and no output shows it.
pub fn classify(name: &str, value: &str, place: Place) -> Option<&'static str> {
    find(value).or_else(|| classify_whole([(classify_name(name), place)], value))
}

/// Like [`classify`], by names and randomness alone: the value as a whole is the credential.
pub(crate) fn classify_whole(
    names: impl IntoIterator<Item = (Option<NamedCredential>, Place)>,
    value: &str,
) -> Option<&'static str> {
    let mut is_digits = false;
    for (name, place) in names {
        if let Some(kind) = credential_kind_by_name(name, value) {
            return Some(kind);
        }
        is_digits |= place == Place::Variable && is_hexadecimal(name, value);
    }
    let random = looks_random(value).then_some("a random string, like an access key");
    random.or_else(|| is_digits.then_some(HEXADECIMAL))
}

/// Returns the kind of credential that the name of a value indicates.
fn credential_kind_by_name(name: Option<NamedCredential>, text: &str) -> Option<&'static str> {
    let kind = name.filter(|kind| *kind != NamedCredential::Digest)?;
    let harmless = text.is_empty()
        || is_placeholder_value(text)
        || text.starts_with(['/', '.', '<', '$', '~'])
        || text.contains("://")
        || text.starts_with("arn:")
        || text.contains(' ')
        || matches!(text.to_lowercase().as_str(), "true" | "false" | "none" | "null" | "0" | "1");
    if harmless {
        return None;
    }
    if kind == NamedCredential::Password {
        return Some("a password");
    }
    let long = text.len() >= 16 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=_-.~".contains(&b));
    let mixed = text.bytes().any(|b| b.is_ascii_digit()) && text.bytes().any(|b| b.is_ascii_alphabetic());
    (long && mixed && entropy(text) > 3.0).then_some("a key or token, judging by its name")
}

/// Length of the shortest generated key that is recognised, in bytes.
const LEAST_RANDOM: usize = 24;

/// Returns whether the text contains a generated key: at least [`LEAST_RANDOM`] letters and digits, mixed
/// unlike words.
///
/// Random letters and digits change their class (case, digit) at 62 of 100 places, words in camel case at
/// fewer than 40; hexadecimal digests have a single case and pass. Keys with punctuation or hyphenated groups
/// are tested again without it; at least half of the places must then change, since names of models and runs
/// also have short parts (35 of 100 in the worst case seen).
fn looks_random(text: &str) -> bool {
    if text.len() < LEAST_RANDOM
        || text.contains("://")
        || text.starts_with(['/', '.'])
        || text.starts_with("arn:")
    {
        return false;
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    let joins = |c: char| c.is_ascii_alphanumeric() || "-_.~@!#$%^&*+/?".contains(c);
    text.split(|c| !is_plain(c)).any(|run| has_mixed_characters(run, 0.4))
        || text.split(|c| !joins(c)).any(|run| {
            let left: String = run.chars().filter(char::is_ascii_alphanumeric).collect();
            has_mixed_characters(&left, 0.5)
        })
}

/// Returns whether a run is long, has both cases and digits, and changes class at `least_changes` of its
/// places.
fn has_mixed_characters(run: &str, least_changes: f64) -> bool {
    let class = |b: u8| (b.is_ascii_lowercase(), b.is_ascii_uppercase(), b.is_ascii_digit());
    let bytes = run.as_bytes();
    let changes = bytes.windows(2).filter(|pair| matches!(pair, [a, b] if class(*a) != class(*b))).count();
    bytes.len() >= LEAST_RANDOM
        && bytes.iter().any(u8::is_ascii_lowercase)
        && bytes.iter().any(u8::is_ascii_uppercase)
        && bytes.iter().any(u8::is_ascii_digit)
        && changes as f64 >= bytes.len() as f64 * least_changes
        && entropy(run) >= 3.8
}

/// The kind of a value of hexadecimal digits, which may be a digest or an ID.
pub const HEXADECIMAL: &str = "random hexadecimal digits, like an access key";

/// Returns whether the value consists of 32 to 64 hexadecimal digits, like a key, under a name that does not
/// indicate a digest or an ID: a commit looks the same.
fn is_hexadecimal(name: Option<NamedCredential>, text: &str) -> bool {
    (32..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_hexdigit())
        && text.bytes().any(|b| b.is_ascii_digit())
        && text.bytes().any(|b| b.is_ascii_alphabetic())
        && entropy(text) >= 3.0
        && name != Some(NamedCredential::Digest)
}

/// Returns the Shannon entropy of the text, in bits per character.
fn entropy(text: &str) -> f64 {
    let mut counts: BTreeMap<char, u32> = BTreeMap::new();
    for c in text.chars() {
        *counts.entry(c).or_default() += 1;
    }
    let n = text.chars().count() as f64;
    counts.values().map(|count| f64::from(*count) / n).map(|p| -p * p.log2()).sum()
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
        assert_eq!(PATTERNS.len(), PATTERNS_TOML.matches("\n[\"").count());
        assert!(
            PATTERNS
                .iter()
                .all(|form| form.compiled.get_or_init(|| Regex::new(&form.row.regex).ok()).is_some())
        );
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
        assert_eq!(NAMES.len(), NAMES_TOML.matches("\n[\"").count());
    }

    #[test]
    fn tells_random_strings_from_ordinary_ones() {
        for random in ["wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "Zm9vYmFyQmF6UXV4MTIzNDU2Nzg5MEFCQ0RFRg"] {
            assert!(looks_random(random), "{random}");
        }
        for fine in [
            "togethercomputer/GPT-NeoXT-Chat-Base-20B",
            "s3://bucket/AbCd1234EfGh5678IjKl9012/",
            "/opt/ml/input/data/train/checkpointdir-job2",
            "0123456789abcdef0123456789abcdef01234567",
            "bert-large-uncased-whole-word-masking",
            "GPTNeoXLayer,GPTNeoXForCausalLMHead2Layer3",
            "query_key_value,dense,dense_h_to_4h,dense_4h_to_h",
            "arn:aws:secretsmanager:us-west-2:111122223333:secret:wandb-AbCdEf",
            "6F9619FF-8B86-D011-B42D-00CF4FC964FF",
            "meta-llama/Llama-3.1-8B-Instruct",
            "openai/clip-ViT-L-14-336px-RN50x64-B32",
            "run-2026-01-05T12-30-45Z-a100x8-BF16",
            "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04",
            "loss=([0-9.eE+-]+) lr=([0-9.eE+-]+) step=([0-9]+)",
            "q4_K_M-8B-Qwen2.5-1M-GGUF-IQ3_XXS-v0.3",
            "NCCL_ALGO=Ring,NCCL_PROTO=LL128,FI_EFA_USE_DEVICE_RDMA=1",
        ] {
            assert!(!looks_random(fine), "{fine}");
        }
        for random in ["Xk9vQ2mZ7pLw@4RtY8uBn3CsD6fGh1JaE", "Xk9v-Q2mZ-7pLw-4RtY-8uBn-3CsD-6fGh"] {
            assert!(looks_random(random), "{random}");
        }
    }

    #[test]
    fn judges_hexadecimal_digits_by_name() {
        let (md5, sha1) = ("9e107d9d372bb6826bd81d3542a419d6", "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12");
        for name in ["FOO", "WANDB", "datadog", "secret_value"] {
            assert!(
                is_hexadecimal(classify_name(name), md5) && is_hexadecimal(classify_name(name), sha1),
                "{name}"
            );
        }
        for name in
            ["COMMIT", "GIT_SHA", "WANDB_RUN_ID", "model-revision", "data.md5", "RUN_UUID", "DATA_SHA256"]
        {
            assert!(
                !is_hexadecimal(classify_name(name), md5) && !is_hexadecimal(classify_name(name), sha1),
                "{name}"
            );
        }
        for fine in ["9e107d9d", "20261122173600000000000000000000", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"] {
            assert!(!is_hexadecimal(classify_name("FOO"), fine), "{fine}");
        }
    }

    #[test]
    fn recognises_credentials_by_name() {
        assert!(
            credential_kind_by_name(
                classify_name("WANDB_API_KEY"),
                "0123456789abcdef0123456789abcdef01234567"
            )
            .is_some()
        );
        for short in ["hunter2", "a", "12", "x=y"] {
            assert!(credential_kind_by_name(classify_name("db-password"), short).is_some(), "{short}");
            assert!(credential_kind_by_name(classify_name("passphrase"), short).is_some(), "{short}");
        }
        for (name, fine) in [
            ("pad_token", "<pad>"),
            ("max_tokens", "20000000000000000"),
            ("token_file", "tokens12345678901"),
            ("key", "short"),
            ("use_auth_token", "true"),
            ("label_key", "label"),
            ("hf_token", "/run/secrets/token12345"),
        ] {
            assert!(credential_kind_by_name(classify_name(name), fine).is_none(), "{name}");
        }
    }
}
