//! What a file is that contains no training job.

use serde::Deserialize;
use std::sync::LazyLock;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("other-documents", include_str!("data/other_documents.toml"));

#[derive(Clone, Deserialize)]
struct DocumentRow {
    how: Sign,
    sign: String,
    is: String,
    help: String,
    #[serde(flatten)]
    provenance: Provenance,
}

/// How a file is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sign {
    /// Its first bytes, in hexadecimal digits.
    Bytes,
    /// The beginning of one of its lines.
    Line,
    /// Its beginning.
    Start,
    /// A text in it.
    Text,
    /// The end of its name.
    Name,
    /// Members of the whole document.
    Top,
    /// Members at any depth.
    Member,
    /// A text in a Python script, or in its error.
    Script,
}

/// A kind of file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherDocument {
    /// How it is recognised.
    pub how: Sign,
    /// By what.
    pub sign: String,
    /// What it is, with its article.
    pub is: String,
    /// What to do instead.
    pub help: String,
    /// The source of the row.
    pub provenance: Provenance,
}

/// Returns all kinds; the first one that matches counts.
pub fn all() -> &'static [OtherDocument] {
    static ALL: LazyLock<Vec<OtherDocument>> = LazyLock::new(|| {
        let row = |key| {
            let row: DocumentRow = TABLE.row(key).cloned()?;
            let provenance = row.provenance;
            Some(OtherDocument { how: row.how, sign: row.sign, is: row.is, help: row.help, provenance })
        };
        TABLE.keys().filter_map(row).collect()
    });
    &ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        assert_eq!(all().len(), TABLE.keys().count());
    }
}
