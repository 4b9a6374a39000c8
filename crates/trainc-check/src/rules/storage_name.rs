//! Names of storages, which become part of file names, tags and ID placeholders.

use crate::queries::spelling::nearest_spelling;
use crate::Context;
use crate::queries::file_system;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Storage;

declare_code!(T0509, "invalid-storage-name", Error, "a storage name that cannot be used as a file name");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0509];

/// Maximum length, the same as for channels (CreateTrainingJob, ChannelName).
const MAX_LENGTH: usize = 64;

/// Checks the format of each name, then for names that share a file on case-insensitive file systems.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let all = &context.plan.job.storage;
    for storage in all {
        check_format(storage, problems);
    }
    let created: Vec<&Storage> = all.iter().filter(|storage| file_system::is_created_lustre(storage)).collect();
    for (at, storage) in created.iter().enumerate() {
        let Some(name) = storage.name.val() else { continue };
        let same = created.iter().take(at).filter_map(|other| Some((other, other.name.val()?))).find(
            // Identical names are a duplicate node, which the parser reports.
            |(_, other)| other.value != name.value && other.value.eq_ignore_ascii_case(&name.value),
        );
        if let Some((other, first)) = same {
            problems.push(
                Diagnostic::new(
                    &T0509,
                    name.span_or(storage.span),
                    format!(
                        "the names `{}` and `{}` differ only in case",
                        name.value, first.value
                    ),
                )
                .label(first.span_or(other.span), "the other one")
                .help(format!("rename one of them, e.g. `name=\"{}-2\"`", name.value))
                .note("`trainc emit` writes `fsx/<name>.json`: on macOS and Windows both would be one file"),
            );
        }
    }
}

fn check_format(storage: &Storage, problems: &mut Problems) {
    let Some(name) = storage.name.val() else { return };
    let written = name.value.as_str();
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let length = written.chars().count();
    let odd = written.chars().find(|c| !is_word(*c));
    let here = match odd {
        _ if written.is_empty() => "is empty".to_owned(),
        Some(c) if c.is_control() => "contains a control character".to_owned(),
        Some(' ') => "contains a space".to_owned(),
        Some(c) => format!("contains `{c}`"),
        None if !written.starts_with(|c: char| c.is_ascii_alphanumeric()) => {
            "does not start with a letter or digit".to_owned()
        }
        None if length > MAX_LENGTH => format!("has {}", text::count(length as u64, "character")),
        None => return,
    };
    let near: String = nearest_spelling(written, '-').chars().take(MAX_LENGTH).collect();
    let near = near.trim_end_matches('-');
    let span = name.span_or(storage.span);
    let diagnostic = Diagnostic::new(&T0509, span, format!("`{written}` is not a valid storage name"))
        .primary_label(here)
        .note(format!(
            "a storage name has at most {MAX_LENGTH} letters, digits, `-` and `_`: it is used in \
                `fsx/<name>.json` and `${{fsx.<name>.id}}`"
        ));
    problems.push(if near.is_empty() {
        diagnostic.help("write a name, e.g. `name=\"corpus\"`")
    } else {
        diagnostic.write(format!("name=\"{near}\""))
    });
}
