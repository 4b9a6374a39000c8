//! Sources and dates of the rules, by code.

use serde::Deserialize;

use super::table::Table;

static TABLE: Table = Table::new("rules", include_str!("data/rules.toml"));

/// The source of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RuleRow {
    /// The source, unless the rule's page states it.
    pub source: Option<String>,
    /// The day on which the source was read.
    pub date: String,
}

/// Returns the row of a code.
pub fn get(code: &str) -> Option<&'static RuleRow> {
    TABLE.row(code)
}

/// Returns all codes with a row.
pub fn codes() -> impl Iterator<Item = &'static str> {
    TABLE.keys()
}
