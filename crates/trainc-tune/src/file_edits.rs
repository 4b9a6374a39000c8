//! Values of a layout that a file of the engine or the program sets: trainc does not write such files, and
//! shows the lines to edit.

use trainc_catalog::engine_files::{self, KeyRow, Syntax};
use trainc_diag::{Edit, FileLine};
use trainc_engine::files::Names;
use trainc_ir::{FileSetting, FileValue, ForeignFile, Plan, Scalar};

/// Returns the line to edit, if a file of the plan sets the value of an edit.
pub(super) fn file_line(plan: &Plan, edit: &Edit) -> Option<FileLine> {
    let word = edit.path().replacen('.', "/", 1);
    plan.files.iter().find_map(|file| line_in_file(file, &word, edit.value()))
}

fn line_in_file(file: &ForeignFile, word: &str, value: &str) -> Option<FileLine> {
    let table = engine_files::keys(file.table)?;
    let rows = table.rows.iter().filter(|row| row.word.as_deref() == Some(word));
    let found: Vec<(&KeyRow, &FileSetting)> =
        rows.filter_map(|row| Some((row, file.setting(&row.key)?))).collect();
    // Of several keys the one whose value changes.
    let changed = found.iter().find_map(|(row, setting)| {
        let new = written(row, word, value)?;
        let old = match &setting.value {
            FileValue::Scalar(old) => old.as_variable(),
            _ => return None,
        };
        (new != old).then_some((*row, *setting, Some(new)))
    });
    let (row, setting, new) =
        changed.or_else(|| found.first().map(|(row, setting)| (*row, *setting, None)))?;
    let before = file.text.get(..usize::try_from(setting.value_span.start).ok()?)?;
    let key = row.key.rsplit('.').next().unwrap_or(&row.key);
    Some(FileLine {
        path: file.path.clone(),
        line: before.matches('\n').count() + 1,
        text: match new {
            Some(new) => shown(table.syntax, key, &new),
            None => format!("`{key}`"),
        },
    })
}

/// Returns what a file has for a value of the manifest: by the expression with which trainc writes such
/// files, or by what its values mean.
fn written(row: &KeyRow, word: &str, value: &str) -> Option<String> {
    let name = word.rsplit('/').next()?.replace('-', "_");
    let names = Names::default().with("plan", [(name, engine_files::scalar(value.trim_start_matches('#')))]);
    let by_expression = row.write.as_deref().and_then(|expression| names.value(expression));
    let meant = row.values.iter().find(|(_, meant)| *meant == value).map(|(written, _)| written.clone());
    let is_same = row.values.is_empty() && row.gives.is_none();
    let by_expression = by_expression.filter(|new| *new != Scalar::Null).map(|new| new.as_variable());
    by_expression.or(meant).or_else(|| is_same.then(|| value.to_owned()))
}

/// Returns a key and its value in the syntax of a file.
fn shown(syntax: Syntax, key: &str, value: &str) -> String {
    let value = value.strip_prefix('#').unwrap_or(value);
    let is_bare = value.parse::<f64>().is_ok() || matches!(value, "true" | "false");
    match syntax {
        Syntax::Yaml => format!("`{key}: {value}`"),
        Syntax::Json if is_bare => format!("`\"{key}\": {value}`"),
        Syntax::Json => format!("`\"{key}\": \"{value}\"`"),
        Syntax::Toml if is_bare => format!("`{key} = {value}`"),
        Syntax::Toml => format!("`{key} = \"{value}\"`"),
    }
}
