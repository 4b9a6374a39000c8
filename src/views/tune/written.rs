//! What `tune --write` prints.

use crate::args::overlay::Overlay;
use trainc_diag::FileLine;
use trainc_emit::quote;
use trainc_ops::written_layout::{NotWritten, Put};
use trainc_plan::Options;
use trainc_project::files::describe;
use trainc_tune::description::format_gpu_gib;

/// Formats what was done; `why` is the reason for a number that was chosen by default.
pub(crate) fn describe_put(put: Put, path: &str, number: usize, why: &str) -> String {
    match put {
        Put::Written => format!("wrote {path}: layout {number}{why}\n"),
        Put::Stood => format!("{path} already has layout {number}{why}: nothing to write\n"),
    }
}

/// Formats why nothing was done.
pub(crate) fn describe_not_written(why: &NotWritten, path: &str, options: &Options) -> String {
    match why {
        NotWritten::NoFile => {
            "error: a manifest from standard input is no file that can be written\n".to_owned()
        }
        NotWritten::Uneditable(error) => format!("error: `{path}` cannot be edited: {error}\n"),
        NotWritten::InFiles(edits) => describe_file_edits(edits, path),
        NotWritten::SetsRequired => describe_sets_required(path, options),
        NotWritten::LayerConflict => describe_layer_conflict(path),
        NotWritten::Unwritable(error) => {
            format!("error: `{path}` cannot be written: {}\n", describe(error))
        }
    }
}

/// Returns the error if files that are not manifests set values of the layout.
fn describe_file_edits(edits: &[FileLine], path: &str) -> String {
    let lines = edits.iter().fold(String::new(), |lines, edit| lines + &format!("help: edit {edit}\n"));
    format!(
        "error: `{path}` is left as it is: the layout changes values of files that are not manifests, which \
            trainc does not write\n{lines}"
    )
}

/// Formats the note on a layout that may not fit.
pub(crate) fn describe_tight_memory(high_bytes: f64, capacity_bytes: f64) -> String {
    let (high, has) = (high_bytes / f64::from(1 << 30), format_gpu_gib(capacity_bytes));
    format!("note: the layout may need up to {high:.1} GiB of {has}: try a few steps before the run\n")
}

/// Returns the error if the edited file gives the plan that was shown only with the values of `--set`.
fn describe_sets_required(path: &str, options: &Options) -> String {
    let sets: Vec<String> = options.choices.sets.iter().map(|set| format!("--set {}", quote(set))).collect();
    let env = Overlay { env: options.choices.env.clone(), ..Overlay::default() }.flags().join(" ");
    let words = [quote(path), env, "--write".to_owned()];
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    let again = words.join(" ");
    let (values, it) = if sets.len() == 1 { ("that value", "it") } else { ("those values", "them") };
    format!(
        "error: `{path}` is left as it is: edited, it would plan to what is shown only with \
            {}\nhelp: write {values} into the file first, or tune without {it}: `trainc tune {again}`\n",
        trainc_diag::text::backtick_list(&sets, "and")
    )
}

/// Returns the error if a layer or an environment overrides the values to write.
fn describe_layer_conflict(path: &str) -> String {
    format!(
        "error: `{path}` is left as it is: edited, it would plan to something else than what is \
            shown; `--env` or a layer says otherwise\n"
    )
}
