//! Where the rules come from, and since when they stand: by the codes of their pages.

use serde::Deserialize;

use super::table::Table;

const TABLE: Table = Table::new("rules", include_str!("data/rules.toml"));

/// Where a rule comes from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RuleRow {
    /// The source, where the rule's page has no sentence that names it.
    pub source: Option<String>,
    /// The day on which the rule was taken down from it.
    pub date: String,
}

/// The row of a code.
pub fn get(code: &str) -> Option<RuleRow> {
    TABLE.row(code)
}

/// All codes that have a row.
pub fn codes() -> impl Iterator<Item = &'static str> {
    TABLE.keys()
}
