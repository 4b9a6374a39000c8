//! How credentials look.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::table::{Sourced, Table};

pub(crate) const TABLE: Table = Table::new("credentials", include_str!("data/credentials.toml"));

#[derive(Clone, Deserialize)]
struct Row {
    regex: String,
    statement: String,
    #[serde(flatten)]
    #[expect(dead_code, reason = "every row says where it comes from; the look-up does not need it")]
    sourced: Sourced,
}

static FORMS: LazyLock<Vec<(Regex, String)>> = LazyLock::new(|| {
    TABLE
        .keys()
        .filter_map(|key| TABLE.row::<Row>(key))
        .filter_map(|row| Some((Regex::new(&row.regex).ok()?, row.statement)))
        .collect()
});

/// What credential stands in the text, as a phrase: `an AWS access key id`.
pub fn find(text: &str) -> Option<&'static str> {
    FORMS.iter().find(|(regex, _)| regex.is_match(text)).map(|(_, statement)| statement.as_str())
}

/// Every credential in a text: from which byte to which, and what it is.
pub fn places(text: &str) -> Vec<(usize, usize, &'static str)> {
    let mut out: Vec<(usize, usize, &'static str)> = FORMS
        .iter()
        .flat_map(|(regex, statement)| {
            regex.find_iter(text).map(|found| (found.start(), found.end(), statement.as_str()))
        })
        .collect();
    out.sort_unstable();
    // One that two forms know is one.
    out.dedup_by(|later, earlier| later.0 < earlier.1);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_compiles_and_finds() {
        assert_eq!(FORMS.len(), TABLE.keys().count());
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
}
