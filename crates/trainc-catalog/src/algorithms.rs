//! What the built-in algorithms read.

use serde::Deserialize;
use std::collections::BTreeMap;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("algorithms", include_str!("data/algorithms.toml"));

#[derive(Clone, Deserialize)]
struct AlgorithmRow {
    required: Vec<String>,
    optional: Vec<String>,
    content_types: Vec<String>,
    processors: Vec<String>,
    parameters: Vec<String>,
    single: bool,
    #[serde(default)]
    others: Vec<String>,
    #[serde(default)]
    needed_by: BTreeMap<String, String>,
    #[serde(default)]
    values: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    ranges: BTreeMap<String, Vec<f64>>,
    #[serde(default)]
    renamed: BTreeMap<String, String>,
    #[serde(default)]
    gpu_values: Vec<String>,
    #[serde(default)]
    gpu_by: Vec<String>,
    #[serde(default)]
    checkpoints: Vec<String>,
    several_by: Option<String>,
    extra: Option<String>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// A built-in algorithm.
#[derive(Debug, Clone, PartialEq)]
pub struct Algorithm {
    /// Channels without which it does not start.
    pub required: Vec<String>,
    /// Channels that it reads if they exist.
    pub optional: Vec<String>,
    /// Content types that it reads.
    pub content_types: Vec<String>,
    /// Processors that it runs on, as the SageMaker SDK writes them.
    pub processors: Vec<String>,
    /// Hyperparameters without which it stops.
    pub parameters: Vec<String>,
    /// Whether it trains on one instance only.
    pub is_single: bool,
    /// Further hyperparameters; empty if they are not listed.
    pub others: Vec<String>,
    /// The hyperparameter that a value, `name=value`, requires.
    pub needed_by: BTreeMap<String, String>,
    /// The values of a hyperparameter, for those that are words.
    pub values: BTreeMap<String, Vec<String>>,
    /// The smallest value of a hyperparameter, and the largest if there is one, for those that are numbers.
    pub ranges: BTreeMap<String, Vec<f64>>,
    /// The hyperparameters that other libraries call otherwise.
    pub renamed: BTreeMap<String, String>,
    /// Values that require a GPU.
    pub gpu_values: Vec<String>,
    /// Values without which it leaves a GPU idle.
    pub gpu_by: Vec<String>,
    /// Repositories whose images write checkpoints and resume from them.
    pub checkpoints: Vec<String>,
    /// The value with which several instances train together, if only that one does.
    pub several_by: Option<String>,
    /// The source of these.
    pub extra: String,
    /// The source of the row.
    pub provenance: Provenance,
}

/// Returns an algorithm by its image family: `blazingtext`.
pub fn get(family: &str) -> Option<Algorithm> {
    let row: AlgorithmRow = TABLE.row(family).cloned()?;
    Some(Algorithm {
        required: row.required,
        optional: row.optional,
        content_types: row.content_types,
        processors: row.processors,
        parameters: row.parameters,
        is_single: row.single,
        others: row.others,
        needed_by: row.needed_by,
        values: row.values,
        ranges: row.ranges,
        renamed: row.renamed,
        gpu_values: row.gpu_values,
        gpu_by: row.gpu_by,
        checkpoints: row.checkpoints,
        several_by: row.several_by,
        extra: row.extra.unwrap_or_default(),
        provenance: row.provenance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images;

    #[test]
    fn every_algorithm_has_an_image() {
        for family in TABLE.keys() {
            let row = get(family).unwrap();
            assert!(images::is_algorithm_family(family), "{family}");
            assert!(row.required.contains(&"train".to_owned()) && !row.processors.is_empty(), "{family}");
            let has_extra = !(row.others.is_empty() && row.needed_by.is_empty());
            assert_eq!(has_extra, !row.extra.is_empty(), "{family}");
            let mut pairs =
                row.needed_by.keys().chain(&row.gpu_values).chain(&row.gpu_by).chain(&row.several_by);
            assert!(pairs.all(|pair| pair.contains('=')), "{family}");
            let known = |name: &String| {
                row.others.is_empty() || row.others.contains(name) || row.parameters.contains(name)
            };
            assert!(
                row.values.keys().chain(row.ranges.keys()).chain(row.renamed.values()).all(known),
                "{family}"
            );
            assert!(
                row.ranges.values().all(|range| matches!(range.len(), 1 | 2) && range.is_sorted()),
                "{family}"
            );
            assert!(row.renamed.keys().all(|name| !row.others.contains(name)), "{family}");
        }
        for family in
            images::other_families().into_iter().filter(|family| images::is_algorithm_family(family))
        {
            assert!(get(family).is_some(), "{family}");
        }
        assert_eq!(get("sklearn"), None);
    }
}
