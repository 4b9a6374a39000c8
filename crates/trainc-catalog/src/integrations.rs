//! Services that a program uses only with a key: trackers of experiments and the Hugging Face Hub.

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("integrations", include_str!("data/integrations.toml"));

/// A service.
#[derive(Debug, Deserialize)]
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
    #[serde(default)]
    pub addresses: Vec<String>,
    /// The source of the row.
    #[serde(flatten)]
    pub provenance: Provenance,
}

/// The key of the Hugging Face Hub in the table.
pub const HUB: &str = "hub";

/// Returns a service by its key in the table.
pub fn get(key: &str) -> Option<&'static Integration> {
    TABLE.row(key)
}

/// Returns all services, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Integration> {
    TABLE.rows().map(|(_, row)| row)
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
