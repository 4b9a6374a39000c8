//! The versions of transformers that lack a model.

use serde::Deserialize;

use super::images::version_key;
use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("model-libraries", include_str!("data/model_libraries.toml"));

#[derive(Clone, Deserialize)]
struct LibraryRow {
    absent: String,
    since: Option<String>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// A model that a version of transformers cannot load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingModel {
    /// The model type, or the start of the model's id.
    pub what: String,
    /// The newest version in a container that lacks it.
    pub absent: String,
    /// The first version that has it, if known; otherwise later containers have it.
    pub since: Option<String>,
    /// The source of the row.
    pub provenance: Provenance,
}

impl MissingModel {
    /// Returns the versions that have it, as a phrase.
    pub fn needed(&self) -> String {
        match &self.since {
            Some(since) => format!("{since} or newer"),
            None => format!("newer than {}", self.absent),
        }
    }
}

/// Returns what a version of transformers lacks of a model, by its type (`qwen3`) and its id.
pub fn missing_model(model_type: &str, id: &str, transformers: &str) -> Option<MissingModel> {
    let id = format!("id/{}", id.to_lowercase());
    let by_id = TABLE.keys_under("id/").find(|key| id.starts_with(key));
    [Some(model_type), by_id].into_iter().flatten().find_map(|key| {
        let row: LibraryRow = TABLE.row(key).cloned()?;
        let is_absent = match &row.since {
            Some(since) => version_key(transformers) < version_key(since),
            None => version_key(transformers) <= version_key(&row.absent),
        };
        is_absent.then(|| MissingModel {
            what: key.trim_start_matches("id/").to_owned(),
            absent: row.absent,
            since: row.since,
            provenance: row.provenance,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_lack_later_models() {
        let lacks = |model_type, id, version| missing_model(model_type, id, version).map(|found| found.what);
        assert_eq!(lacks("qwen3", "Qwen/Qwen3-8B", "4.49.0").as_deref(), Some("qwen3"));
        assert_eq!(lacks("qwen3", "Qwen/Qwen3-8B", "4.50.3").as_deref(), Some("qwen3"));
        assert_eq!(lacks("qwen3", "Qwen/Qwen3-8B", "4.51.0"), None);
        assert!(lacks("llama", "meta-llama/Llama-3.1-8B", "4.42.4").is_some());
        assert_eq!(lacks("llama", "meta-llama/Llama-3.1-8B", "4.43.0"), None);
        assert_eq!(lacks("llama", "huggyllama/llama-7b", "4.36.0"), None);
        assert_eq!(
            lacks("llama", "meta-llama/Llama-3.1-8B", "4.36.0").as_deref(),
            Some("meta-llama/llama-3.1")
        );
        assert_eq!(lacks("bert", "bert-base-uncased", "4.17.0"), None);
    }
}
