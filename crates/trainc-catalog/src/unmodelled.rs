//! What programs do in addition to training that the cost model does not have.

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("unmodelled", include_str!("data/unmodelled.toml"));

#[derive(Clone, Deserialize)]
struct WorkRow {
    what: String,
    memory: bool,
    time: bool,
    #[serde(default)]
    adapter: bool,
    #[serde(flatten)]
    provenance: Provenance,
}

/// Work of a program in addition to training.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherWork {
    /// What it is, as a phrase.
    pub what: String,
    /// Whether it takes memory of the GPUs.
    pub takes_memory: bool,
    /// Whether it takes time of each step.
    pub takes_time: bool,
    /// Whether it takes no memory where an adapter is trained, whose base is the reference.
    pub is_free_with_adapter: bool,
    /// The source of the row.
    pub provenance: Provenance,
}

/// What shows the work in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign<'a> {
    /// A class that it calls.
    Class(&'a str),
    /// A package that it imports.
    Package(&'a str),
    /// An option that is on.
    Switch(&'a str),
}

/// Returns the work that a sign shows.
pub fn get(sign: Sign) -> Option<OtherWork> {
    let key = match sign {
        Sign::Class(name) => format!("class/{name}"),
        Sign::Package(name) => format!("package/{name}"),
        Sign::Switch(name) => format!("option/{}", name.replace('-', "_")),
    };
    let row: WorkRow = TABLE.row(&key).cloned()?;
    Some(OtherWork {
        what: row.what,
        takes_memory: row.memory,
        takes_time: row.time,
        is_free_with_adapter: row.adapter,
        provenance: row.provenance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        for key in TABLE.keys() {
            let (kind, name) = key.split_once('/').unwrap();
            let sign = match kind {
                "class" => Sign::Class(name),
                "package" => Sign::Package(name),
                _ => Sign::Switch(name),
            };
            let row = get(sign).unwrap();
            assert!(row.takes_memory || row.takes_time, "{key}");
        }
        assert_eq!(get(Sign::Class("SFTTrainer")), None);
    }
}
