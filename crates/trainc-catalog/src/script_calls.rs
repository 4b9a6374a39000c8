//! Calls of Python scripts whose keywords are options with a known meaning.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::table::Table;
use super::vocabulary;

pub(crate) static TABLE: Table = Table::new("script-calls", include_str!("data/script_calls.toml"));

#[derive(Deserialize)]
struct CallRow {
    /// Whether other keywords have no meaning here.
    only: bool,
    options: BTreeMap<String, String>,
}

/// Returns the names of the calls.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.keys()
}

/// Returns whether the keywords of a call are options.
pub fn is_known(call: &str) -> bool {
    static CALLS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| TABLE.keys().collect());
    CALLS.contains(call)
}

/// Returns the option that a keyword of a call means, as in `vocabulary::get`.
pub fn option_of(call: &str, keyword: &str) -> Option<&'static str> {
    let row: &CallRow = TABLE.row(call)?;
    match row.options.get(keyword) {
        Some(option) => Some(option),
        None if row.only => None,
        None => vocabulary::TABLE.key(keyword),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_options_of_the_table() {
        for call in names() {
            let row: &CallRow = TABLE.row(call).unwrap();
            assert!(!row.only || !row.options.is_empty(), "{call}");
            for option in row.options.values() {
                assert!(vocabulary::get(option).is_some(), "{call}: {option}");
            }
        }
        assert_eq!(option_of("LoraConfig", "r"), Some("lora_r"));
        assert_eq!(option_of("LoraConfig", "bf16"), None);
        assert_eq!(option_of("TrainingArguments", "bf16"), Some("bf16"));
        assert_eq!(option_of("TrainingArguments", "output_dir"), None);
    }
}
