//! Programs, options and scripts that divide a model into FSDP units by themselves, by the rows of
//! `wrapping.toml`.

use serde::Deserialize;
use std::path::Path;
use std::sync::LazyLock;
use trainc_ir::{Plan, Scalar};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeRow {
    names: Vec<String>,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionRow {
    name: String,
    contains: Option<String>,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WordRow {
    word: String,
    layers: bool,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    code: Vec<CodeRow>,
    option: Vec<OptionRow>,
    word: Vec<WordRow>,
}

fn table() -> &'static Table {
    static ONCE: LazyLock<Table> =
        LazyLock::new(|| toml::from_str(include_str!("wrapping.toml")).unwrap_or_default());
    &ONCE
}

/// Returns whether the program makes each layer a unit without `wrap`, or selects its units by an option.
pub(crate) fn wraps_layers(plan: &Plan) -> bool {
    let Some(program) = &plan.job.program else { return false };
    let by_code = program.code.value().is_some_and(|code| {
        let code = code.trim().to_ascii_lowercase();
        table().code.iter().any(|row| row.names.contains(&code))
    });
    let by_option = || {
        program.hyperparameters.iter().any(|one| {
            table().option.iter().filter(|row| row.name == one.name).any(|row| match &row.contains {
                None => true,
                Some(word) => {
                    matches!(one.value.value(), Some(Scalar::Text(text)) if text.contains(word.as_str()))
                }
            })
        })
    };
    by_code || by_option() || has_word(plan, |row| row.layers)
}

/// Returns whether a script of the program wraps the model for FSDP by itself, in whichever units.
pub fn script_wraps_model(plan: &Plan) -> bool {
    has_word(plan, |_| true)
}

fn has_word(plan: &Plan, counts: fn(&WordRow) -> bool) -> bool {
    let is_script = |path: &str| {
        Path::new(path).extension().is_some_and(|extension| extension == "py" || extension == "sh")
    };
    plan.source.iter().flat_map(|tree| &tree.files).filter(|file| is_script(&file.path)).any(|file| {
        let text = file.text();
        table().word.iter().any(|row| counts(row) && text.contains(&row.word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn every_code_that_wraps_is_known() {
        assert!(table().code.len() > 5 && table().option.len() > 3 && table().word.len() > 3);
        for name in table().code.iter().flat_map(|row| &row.names) {
            assert!(Code::parse(name).is_some(), "{name}");
        }
    }
}
