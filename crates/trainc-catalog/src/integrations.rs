//! Services that a program uses only with a key: trackers of experiments and the Hugging Face Hub.

use serde::Deserialize;

use super::table::{Sourced, Table};
use trainc_ir::hardware::Provenance;

pub(crate) const TABLE: Table = Table::new("integrations", include_str!("data/integrations.toml"));

#[derive(Clone, Deserialize)]
struct IntegrationRow {
    name: String,
    report_to: Vec<String>,
    variables: Vec<String>,
    options: Vec<String>,
    keys: Vec<String>,
    switch: String,
    off: Vec<String>,
    needs: Option<String>,
    help: Option<String>,
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(flatten)]
    sourced: Sourced,
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integration {
    /// Its name, as a phrase.
    pub name: String,
    /// Words of `report_to` that select it.
    pub report_to: Vec<String>,
    /// Environment variables that say that the program uses it.
    pub variables: Vec<String>,
    /// Hyperparameters that say so.
    pub options: Vec<String>,
    /// Environment variables of which one must be set; the first is the usual one.
    pub keys: Vec<String>,
    /// The variable that turns it off, or an empty text.
    pub switch: String,
    /// Its values that do.
    pub off: Vec<String>,
    /// What it needs if that is no key, as a phrase.
    pub needs: Option<String>,
    /// What to write then.
    pub help: Option<String>,
    /// The variables with the address of its server.
    pub addresses: Vec<String>,
    /// The source of the row.
    pub provenance: Provenance,
}

/// The key of the Hugging Face Hub in the table.
pub const HUB: &str = "hub";

/// Returns a service by its key in the table.
pub fn get(key: &str) -> Option<Integration> {
    let row: IntegrationRow = TABLE.row(key)?;
    Some(Integration {
        name: row.name,
        report_to: row.report_to,
        variables: row.variables,
        options: row.options,
        keys: row.keys,
        switch: row.switch,
        off: row.off,
        needs: row.needs,
        help: row.help,
        addresses: row.addresses,
        provenance: row.sourced.into(),
    })
}

/// Returns all services, in the order of the table.
pub fn all() -> impl Iterator<Item = Integration> {
    TABLE.keys().filter_map(get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_has_a_key_and_a_sign() {
        for service in all() {
            assert!(!service.keys.is_empty(), "{}", service.name);
            let signs = [&service.report_to, &service.variables, &service.options];
            assert!(signs.iter().any(|signs| !signs.is_empty()), "{}", service.name);
            assert_eq!(service.switch.is_empty(), service.off.is_empty(), "{}", service.name);
        }
        assert_eq!(get(HUB).map(|hub| hub.keys[0].clone()).as_deref(), Some("HF_TOKEN"));
    }
}
