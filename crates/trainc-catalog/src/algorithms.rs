//! What the built-in algorithms read.

use serde::Deserialize;

use super::table::{Sourced, Table};
use trainc_ir::hardware::Provenance;

pub(crate) const TABLE: Table = Table::new("algorithms", include_str!("data/algorithms.toml"));

#[derive(Clone, Deserialize)]
struct AlgorithmRow {
    required: Vec<String>,
    optional: Vec<String>,
    content_types: Vec<String>,
    processors: Vec<String>,
    parameters: Vec<String>,
    single: bool,
    #[serde(flatten)]
    sourced: Sourced,
}

/// A built-in algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The source of the row.
    pub provenance: Provenance,
}

/// Returns an algorithm by its image family: `blazingtext`.
pub fn get(family: &str) -> Option<Algorithm> {
    let row: AlgorithmRow = TABLE.row(family)?;
    Some(Algorithm {
        required: row.required,
        optional: row.optional,
        content_types: row.content_types,
        processors: row.processors,
        parameters: row.parameters,
        is_single: row.single,
        provenance: row.sourced.into(),
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
        }
        for family in
            images::other_families().into_iter().filter(|family| images::is_algorithm_family(family))
        {
            assert!(get(family).is_some(), "{family}");
        }
        assert_eq!(get("sklearn"), None);
    }
}
