//! Options of training scripts whose meaning is a value of the plan.

use serde::Deserialize;
use std::collections::BTreeMap;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("vocabulary", include_str!("data/vocabulary.toml"));

/// The unit of an option whose value in the plan has one of two.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Optimizer steps.
    Steps,
    /// A fraction of the run, below 1.
    Fraction,
}

fn is_usual() -> bool {
    true
}

/// An option with a known meaning.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct OptionMeaning {
    /// The value of the plan, as a phrase.
    pub meaning: String,
    /// The paths of placeholders that may have this value; the first one is the usual meaning.
    pub paths: Vec<String>,
    /// For a switch: the value of the plan while it is on.
    pub equals: Option<String>,
    /// For a word: the values of the plan by what scripts write.
    pub words: Option<BTreeMap<String, String>>,
    /// Whether the value is a list of names.
    #[serde(default, rename = "names")]
    pub is_names: bool,
    /// The path of a placeholder whose value is the highest that has an effect.
    pub at_most: Option<String>,
    /// Whether zero is a value; otherwise scripts use it for "not set".
    #[serde(default, rename = "zero")]
    pub has_zero: bool,
    /// The compute capability that a GPU must have, by value; `true` for a switch that is on.
    #[serde(default)]
    pub capability: BTreeMap<String, String>,
    /// The first PyTorch that supports it, by value; `true` for a switch that is on.
    #[serde(default)]
    pub pytorch: BTreeMap<String, String>,
    /// The engines that the option is for.
    pub engines: Option<Vec<String>>,
    /// The path of a placeholder that says the same in another way, unless another option has its value.
    pub instead_of: Option<String>,
    /// What is written for a word of the plan; empty if the value is written as it is.
    #[serde(default)]
    pub writes: BTreeMap<String, String>,
    /// Its unit, where the plan has a count or a fraction.
    pub unit: Option<Unit>,
    /// Other keywords, calls and texts of a program that may set it, so that its default is not known.
    #[serde(default)]
    pub also_by: Vec<String>,
    /// Whether trainc writes it: false for a second name of another option.
    #[serde(default = "is_usual", rename = "written")]
    pub is_written: bool,
    /// Whether values in the source of a script are compared: those that are the same in every script, and no
    /// defaults of the plan.
    #[serde(default)]
    pub in_scripts: bool,
    /// Whether it is the type in which weights are loaded.
    #[serde(default, rename = "weights")]
    pub is_type_of_weights: bool,
    /// The source of the row.
    #[serde(flatten)]
    pub provenance: Provenance,
}

impl OptionMeaning {
    /// Returns whether a value of the plan, of hardware or of software is compared with the option.
    pub fn is_compared(&self) -> bool {
        let of_plan = !self.paths.is_empty() || self.engines.is_some() || self.instead_of.is_some();
        of_plan || !self.capability.is_empty() || !self.pytorch.is_empty()
    }
}

/// Returns the options of all names that a program with one of these classes may have: of each, its name.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.keys()
}

/// Returns an option of a class by its name, or that of any program.
pub fn of_class(class: &str, name: &str) -> Option<&'static OptionMeaning> {
    get(&format!("{class}/{name}")).or_else(|| get(name))
}

/// Returns an option by its name; `-` and `_` are the same.
pub fn get(name: &str) -> Option<&'static OptionMeaning> {
    if name.contains('-') { TABLE.row(&name.replace('-', "_")) } else { TABLE.row(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_paths_and_a_source() {
        for name in TABLE.keys() {
            let row = get(name).unwrap();
            assert!(row.is_compared(), "{name}");
            assert!(
                row.capability
                    .values()
                    .chain(row.pytorch.values())
                    .all(|least| least.split('.').count() == 2),
                "{name}"
            );
        }
        assert_eq!(get("per-device-train-batch-size"), get("per_device_train_batch_size"));
        assert_eq!(get("batch_size"), None);
    }
}
