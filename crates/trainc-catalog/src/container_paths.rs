//! The directories of a training container under `/opt/ml`.

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("container-paths", include_str!("data/container_paths.toml"));

#[derive(Clone, Deserialize)]
struct DirectoryRow {
    statement: String,
    #[serde(flatten)]
    provenance: Provenance,
}

/// A directory under `/opt/ml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// What it is for, as a phrase.
    pub statement: String,
    /// The source of the row.
    pub provenance: Provenance,
}

/// The prefix of the keys of names that SageMaker does not use.
const NOT: &str = "not/";

#[derive(Deserialize)]
struct OtherRow {
    instead: String,
}

/// Returns the names of the directories.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.keys().filter(|key| !key.starts_with(NOT))
}

/// Returns the directory that is probably meant by a name that SageMaker does not use.
pub fn instead_of(name: &str) -> Option<String> {
    TABLE.row::<OtherRow>(&format!("{NOT}{name}")).map(|row| row.instead.clone())
}

/// Returns a directory by its name.
pub fn get(name: &str) -> Option<Directory> {
    let row: DirectoryRow = TABLE.row(name).cloned()?;
    Some(Directory { statement: row.statement, provenance: row.provenance })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_has_a_row_with_a_source() {
        for name in names() {
            let directory = get(name).unwrap();
            assert!(!directory.statement.is_empty() && !directory.provenance.source.is_empty(), "{name}");
        }
        assert_eq!(get("models"), None);
        for key in TABLE.keys().filter_map(|key| key.strip_prefix(NOT)) {
            assert!(instead_of(key).is_some_and(|instead| names().any(|name| name == instead)), "{key}");
        }
    }
}
