//! Calls of Python scripts that download from the internet.

use serde::Deserialize;

use super::table::Table;

pub(crate) static TABLE: Table = Table::new("network-calls", include_str!("data/network_calls.toml"));

#[derive(Clone, Deserialize)]
struct CallRow {
    #[serde(default)]
    argument: String,
    #[serde(default)]
    position: usize,
    #[serde(default)]
    hub: bool,
    #[serde(default)]
    alone: bool,
    #[serde(default)]
    local: Vec<String>,
    service: Option<String>,
}

/// A call that downloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkCall {
    /// The keyword of what is downloaded; empty if the call does not name it.
    pub argument: String,
    /// Its position without the keyword.
    pub position: usize,
    /// Whether it is a name on the Hugging Face Hub.
    pub is_hub: bool,
    /// Whether names without an owner are usual.
    pub is_alone: bool,
    /// Names that are no download.
    pub local: Vec<String>,
    /// The service of `integrations.toml` that it uses, if it is one.
    pub service: Option<String>,
}

/// Returns the row of a call by the name of its function, or by its full name: `wandb.init`.
pub fn get(function: &str, full_name: &str) -> Option<NetworkCall> {
    let key = TABLE.keys().find(|key| *key == full_name || *key == function)?;
    let row: CallRow = TABLE.row(key).cloned()?;
    Some(NetworkCall {
        argument: row.argument,
        position: row.position,
        is_hub: row.hub,
        is_alone: row.alone,
        local: row.local,
        service: row.service,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrations;

    #[test]
    fn every_row_says_what_is_downloaded() {
        for key in TABLE.keys() {
            let row = get(key, key).unwrap();
            assert_ne!(row.argument.is_empty(), row.is_hub, "{key}");
            assert!(
                row.is_hub || row.service.is_some_and(|name| integrations::get(&name).is_some()),
                "{key}"
            );
        }
        assert!(get("init", "wandb.init").is_some());
        assert_eq!(get("init", "smp.init"), None);
    }
}
