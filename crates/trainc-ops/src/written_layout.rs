//! A layout that `tune` found, written into the manifest.

use std::io;
use std::path::Path;
use trainc_diag::FileLine;
use trainc_diag::source::is_file;
use trainc_ir::Axis;
use trainc_plan::{Compiled, Options, edit_manifest};
use trainc_project::files::write_in_root;
use trainc_project::loaded_manifest::LoadedManifest;
use trainc_tune::{Choice, Space};

/// What was done to the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The file was changed.
    Written,
    /// The file already had this exact text.
    Stood,
}

/// Why the manifest was left as it is.
#[derive(Debug)]
pub enum NotWritten {
    /// It is standard input.
    NoFile,
    /// Its text cannot be edited; the reason.
    Uneditable(String),
    /// Files that are not manifests set values of the layout: the lines to edit.
    InFiles(Vec<FileLine>),
    /// Edited, it would give the plan only with the values of `--set`.
    SetsRequired,
    /// Edited, it would give another plan: an environment or a layer sets other values.
    LayerConflict,
    /// The file cannot be written.
    Unwritable(io::Error),
}

/// Edits the manifest to a layout, and writes it if the edited text gives the same plan as `shown`.
pub fn write_layout(
    held: &mut LoadedManifest,
    options: &Options,
    space: &Space,
    choice: &Choice,
    shown: &Compiled,
) -> Result<Put, NotWritten> {
    if !is_file(&held.path) {
        return Err(NotWritten::NoFile);
    }
    let edits = space.values_to_set(choice);
    let in_files: Vec<FileLine> = edits.iter().filter_map(|edit| edit.file.clone()).collect();
    if !in_files.is_empty() {
        return Err(NotWritten::InFiles(in_files));
    }
    let text = edit_manifest(space.plan, &held.text, &edits)
        .map_err(|error| NotWritten::Uneditable(error.to_string()))?;
    // The next command reads the file without `--set`, so the file alone must give the plan that was shown.
    let plain = without_sets(options);
    if !compiles_to_same(held, &text, &plain, shown) {
        let with_sets = !options.choices.sets.is_empty() && compiles_to_same(held, &text, options, shown);
        return Err(if with_sets { NotWritten::SetsRequired } else { NotWritten::LayerConflict });
    }
    if text == held.text {
        return Ok(Put::Stood);
    }
    write_in_root(Path::new(&held.path), &text).map_err(NotWritten::Unwritable)?;
    Ok(Put::Written)
}

/// Returns the options of a command without `--set`.
fn without_sets(options: &Options) -> Options {
    let mut options = options.clone();
    options.choices.sets.clear();
    options
}

/// Returns true if the manifest with this text gives the plan that was shown.
fn compiles_to_same(held: &mut LoadedManifest, text: &str, options: &Options, shown: &Compiled) -> bool {
    let set = held.compile_as(text, options);
    set.manifests.first().is_some_and(|new| is_same_plan(&new.compiled, shown))
}

/// Returns true if both have the same prediction, mesh and batch, and the new one has no errors.
fn is_same_plan(new: &Compiled, shown: &Compiled) -> bool {
    let figures = |compiled: &Compiled| {
        let plan = compiled.plan.as_ref();
        plan.map(|plan| {
            let mesh = plan.mesh.as_ref().map(|mesh| (mesh.nodes, Axis::ALL.map(|axis| mesh.degree(axis))));
            let batch = plan.batch.as_ref().map(|batch| {
                (
                    batch.micro_batch_size.value,
                    batch.num_micro_batches,
                    batch.accumulation.value,
                    batch.global_sequences.value,
                )
            });
            (plan.instance.clone(), mesh, batch)
        })
    };
    new.problems.errors() == 0 && new.prediction == shown.prediction && figures(new) == figures(shown)
}
