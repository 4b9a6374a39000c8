//! What programs do with paths: whether a call or an option takes S3 addresses.

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("path-uses", include_str!("data/path_uses.toml"));

#[derive(Clone, Deserialize)]
struct UseRow {
    uses: Uses,
    role: Option<PathRole>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// The paths that something takes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Uses {
    /// Local files alone.
    Local,
    /// S3 addresses too.
    Any,
}

/// What an option's directory is for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum PathRole {
    /// Checkpoints, from which a run goes on.
    Checkpoints,
    /// What the program leaves.
    Output,
    /// Logs.
    Logs,
    /// A model that is loaded.
    Model,
    /// Downloads.
    Cache,
}

/// What a call or an option does with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathUse {
    /// The paths that it takes.
    pub uses: Uses,
    /// What the path is for, if the name says it.
    pub role: Option<PathRole>,
    /// The source of the row.
    pub provenance: Provenance,
}

/// Returns what a call does with a path: its keyword, or its arguments without one.
pub fn of_call(function: &str, keyword: Option<&str>) -> Option<PathUse> {
    let of_keyword = keyword.and_then(|keyword| get(&format!("call/{function}#{keyword}")));
    of_keyword.or_else(|| get(&format!("call/{function}")))
}

/// Returns what a script usually does with the path in an option of this name.
pub fn of_option(name: &str) -> Option<PathUse> {
    get(&format!("option/{}", name.replace('-', "_")))
}

fn get(key: &str) -> Option<PathUse> {
    let row: UseRow = TABLE.row(key).cloned()?;
    Some(PathUse { uses: row.uses, role: row.role, provenance: row.provenance })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        for key in TABLE.keys() {
            let row = get(key).unwrap();
            assert_eq!(row.role.is_some(), key.starts_with("option/"), "{key}");
        }
        assert_eq!(of_call("save", Some("checkpoint_id")).unwrap().uses, Uses::Local);
        assert_eq!(of_call("save", None), None);
        assert_eq!(of_option("output-dir").unwrap().role, Some(PathRole::Output));
    }
}
