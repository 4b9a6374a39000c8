//! Options of training scripts whose meaning is a value of the plan.

use serde::Deserialize;
use std::collections::BTreeMap;

use super::table::{Sourced, Table};
use trainc_ir::hardware::Provenance;

pub(crate) const TABLE: Table = Table::new("script-options", include_str!("data/script_options.toml"));

#[derive(Clone, Deserialize)]
struct OptionRow {
    meaning: String,
    paths: Vec<String>,
    equals: Option<String>,
    words: Option<BTreeMap<String, String>>,
    at_most: Option<String>,
    #[serde(default)]
    zero: bool,
    #[serde(default)]
    capability: BTreeMap<String, String>,
    #[serde(flatten)]
    sourced: Sourced,
}

/// An option with a known meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptOption {
    /// The value of the plan, as a phrase.
    pub meaning: String,
    /// The paths of placeholders that may have this value; the first one is the usual meaning.
    pub paths: Vec<String>,
    /// For a switch: the value of the plan while it is on.
    pub equals: Option<String>,
    /// For a word: the values of the plan by what scripts write.
    pub words: Option<BTreeMap<String, String>>,
    /// The path of a placeholder whose value is the highest that has an effect.
    pub at_most: Option<String>,
    /// Whether zero is a value; otherwise scripts use it for "not set".
    pub has_zero: bool,
    /// The compute capability that a GPU must have, by value; `true` for a switch that is on.
    pub capability: BTreeMap<String, String>,
    /// The source of the row.
    pub provenance: Provenance,
}

/// Returns an option by its name; `-` and `_` are the same.
pub fn get(name: &str) -> Option<ScriptOption> {
    let row: OptionRow = TABLE.row(&name.replace('-', "_"))?;
    Some(ScriptOption {
        meaning: row.meaning,
        paths: row.paths,
        equals: row.equals,
        words: row.words,
        at_most: row.at_most,
        has_zero: row.zero,
        capability: row.capability,
        provenance: row.sourced.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_paths_and_a_source() {
        for name in TABLE.keys() {
            let row = get(name).unwrap();
            assert!(!row.paths.is_empty() || !row.capability.is_empty(), "{name}");
            assert!(row.capability.values().all(|least| least.split('.').count() == 2), "{name}");
        }
        assert_eq!(get("per-device-train-batch-size"), get("per_device_train_batch_size"));
        assert_eq!(get("batch_size"), None);
    }
}
