//! Calls of Python scripts that write or load checkpoints.

use serde::Deserialize;
use std::sync::LazyLock;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("checkpoint-calls", include_str!("data/checkpoint_calls.toml"));

/// What a call does.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointCallKind {
    /// It writes checkpoints.
    Writes,
    /// It writes them while it trains, and loads one only with a keyword.
    Trains,
    /// It loads something else.
    Other,
}

/// A call that writes checkpoints, or does not load one.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct CheckpointCall {
    /// What it does.
    pub kind: CheckpointCallKind,
    /// Without one, its key is the name of a function or a full name.
    function: Option<String>,
    /// The package that must be imported.
    package: Option<String>,
    /// The keywords with which it loads a checkpoint.
    #[serde(default)]
    pub keywords: Vec<String>,
    /// Why it cannot resume.
    pub says: Option<String>,
    /// The source of the row.
    #[serde(flatten)]
    pub provenance: Provenance,
}

/// Returns the row of a call by the name of its function, or by its full name: `torch.save`. `imports` says
/// whether the program imports a package.
pub fn get(
    function: &str,
    full_name: &str,
    imports: impl Fn(&str) -> bool,
) -> Option<&'static CheckpointCall> {
    // Asked for each call of a program.
    static ALL: LazyLock<Vec<(&str, &CheckpointCall)>> = LazyLock::new(|| TABLE.rows().collect());
    let mut all = ALL.iter();
    let found = all.find(|(key, row)| {
        let is_it = match &row.function {
            Some(name) => name == function,
            None => *key == function || *key == full_name,
        };
        is_it && row.package.as_deref().is_none_or(&imports)
    });
    found.map(|(_, row)| *row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_known_by_what_is_imported() {
        let found = |package: &'static str| get("fit", "model.fit", move |name| name == package);
        assert_eq!(found("sentence_transformers").map(|row| row.kind), Some(CheckpointCallKind::Trains));
        assert_eq!(found("lightning").map(|row| &row.keywords[..]), Some(&["ckpt_path".to_owned()][..]));
        assert_eq!(found("sklearn"), None);
        assert!(get("save", "torch.save", |_| false).is_some());
        assert_eq!(get("save", "image.save", |_| false), None);
    }

    #[test]
    fn what_trains_says_how_it_resumes() {
        for (key, row) in TABLE.rows::<CheckpointCall>() {
            assert_eq!(row.says.is_some(), row.kind == CheckpointCallKind::Trains, "{key}");
            assert_eq!(row.keywords.is_empty(), row.kind != CheckpointCallKind::Trains, "{key}");
        }
    }
}
