//! Documented limits that are not in a service shape, or that messages use.

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("limits", include_str!("data/limits.toml"));

/// A documented limit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "LimitRow")]
pub struct Limit {
    /// Value, in `unit`.
    pub value: u64,
    /// `seconds`, `characters`, …
    pub unit: String,
    /// The limited quantity, as a phrase.
    pub statement: String,
    /// True if no source was read for the value.
    pub recalled: bool,
    /// The source of the row.
    pub provenance: Provenance,
}

#[derive(Deserialize)]
struct LimitRow {
    value: u64,
    unit: String,
    statement: String,
    recalled: bool,
    #[serde(flatten)]
    provenance: Provenance,
}

impl From<LimitRow> for Limit {
    fn from(row: LimitRow) -> Self {
        Self {
            value: row.value,
            unit: row.unit,
            statement: row.statement,
            recalled: row.recalled,
            provenance: row.provenance,
        }
    }
}

/// Returns a limit by key: `job.max-runtime`, `iam.inline-policies`, `fsx.associations`,
/// `vpc.addresses-per-efa-instance`, …
pub fn get(key: &str) -> Option<&'static Limit> {
    TABLE.row(key)
}

/// Returns the keys of [`get`], in the order of the file.
pub fn keys() -> impl Iterator<Item = &'static str> {
    TABLE.keys()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes;

    #[test]
    fn limits_that_shapes_hold_too_are_the_same() {
        for (key, operation, path) in [
            ("job.keep-alive", "CreateTrainingJob", "ResourceConfig.KeepAlivePeriodInSeconds"),
            ("job.channels", "CreateTrainingJob", "InputDataConfig"),
            ("job.tags", "CreateTrainingJob", "Tags"),
            ("job.mp-parameters", "CreateTrainingJob", "HyperParameters[]"),
            ("iam.role-name", "CreateRole", "RoleName"),
            ("iam.role-path", "CreateRole", "Path"),
            ("iam.role-description", "CreateRole", "Description"),
            ("iam.role-tags", "CreateRole", "Tags"),
            ("iam.session-max", "CreateRole", "MaxSessionDuration"),
            ("fsx.client-token", "CreateFileSystem", "ClientRequestToken"),
            ("fsx.tags", "CreateFileSystem", "Tags"),
        ] {
            let shape =
                shapes::member_at_path(operation, path).unwrap_or_else(|| panic!("{operation} {path}"));
            assert_eq!(shape.max, get(key).map(|limit| limit.value as f64), "{key}");
        }
        assert_eq!(keys().filter_map(get).count(), keys().count());
        assert!(get("iam.inline-policies").unwrap().recalled);
    }
}
