//! Names of storages: each becomes a file's name in the artefacts, a part of tags and of what stands for ids.

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

/// The longest name: as long as a channel's (CreateTrainingJob, ChannelName).
const LONGEST: usize = 64;

/// The form of each, then those that would share a file.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let all = &context.plan.job.storage;
    for storage in all {
        form(storage, problems);
    }
    let made: Vec<&Storage> = all.iter().filter(|storage| file_system::is_made(storage)).collect();
    for (at, storage) in made.iter().enumerate() {
        let Some(name) = storage.name.val() else { continue };
        let same = made.iter().take(at).filter_map(|other| Some((other, other.name.val()?))).find(
            // The same name to the letter is one node written twice, which the reader reports.
            |(_, other)| other.value != name.value && other.value.eq_ignore_ascii_case(&name.value),
        );
        if let Some((other, first)) = same {
            problems.push(
                Diagnostic::new(
                    &T0509,
                    name.span_or(storage.span),
                    format!(
                        "`{}` and `{}` are one file where capitals do not count",
                        name.value, first.value
                    ),
                )
                .label(first.span_or(other.span), "the other")
                .help(format!("give one of them another name, as `name=\"{}-2\"`", name.value))
                .note("`fsx/<name>.json` is what `trainc emit` writes"),
            );
        }
    }
}

fn form(storage: &Storage, problems: &mut Problems) {
    let Some(name) = storage.name.val() else { return };
    let written = name.value.as_str();
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let length = written.chars().count();
    let odd = written.chars().find(|c| !is_word(*c));
    let here = match odd {
        _ if written.is_empty() => "is empty".to_owned(),
        Some(c) if c.is_control() => "has a control character".to_owned(),
        Some(' ') => "has a blank".to_owned(),
        Some(c) => format!("has `{c}`"),
        None if !written.starts_with(|c: char| c.is_ascii_alphanumeric()) => {
            "does not begin with a letter or digit".to_owned()
        }
        None if length > LONGEST => format!("has {}", text::count(length as u64, "character")),
        None => return,
    };
    let near: String = nearest_spelling(written, '-').chars().take(LONGEST).collect();
    let near = near.trim_end_matches('-');
    let span = name.span_or(storage.span);
    let diagnostic = Diagnostic::new(&T0509, span, format!("`{written}` cannot name a storage"))
        .here(here)
        .note(format!(
            "letters, digits, `-` and `_`, at most {LONGEST}: the name becomes `fsx/<name>.json` and `${{fsx.<name>.id}}`"
        ));
    problems.push(if near.is_empty() {
        diagnostic.help("write a name, as `name=\"corpus\"`")
    } else {
        diagnostic.help(format!("write `name=\"{near}\"`"))
    });
}
