//! Writes a selected layout into the manifest.

use crate::args::overlay::Overlay;
use crate::exit;
use crate::terminal::io::Io;
use std::path::Path;
use trainc_diag::source::is_file;
use trainc_emit::quote;
use trainc_ops::checked_layouts::CheckedLayouts;
use trainc_plan::Compiled;
use trainc_plan::Options;
use trainc_project::files::{describe, write_in_root};
use trainc_project::loaded_manifest::LoadedManifest;
use trainc_tune::description::format_gpu_gib;
use trainc_tune::write::{BaseValues, set_manifest_values};
use trainc_tune::{Choice, Point, Space};

/// Writes the layout of that number, or the default choice, into the manifest, if the edited text gives the same plan
/// as shown.
pub(super) fn write(
    io: &mut Io,
    held: &mut LoadedManifest,
    options: &Options,
    space: &Space,
    judged: &CheckedLayouts,
    number: Option<usize>,
) -> u8 {
    let asked = number.is_some();
    let number = number.unwrap_or_else(|| judged.first_choice());
    let chosen = number.checked_sub(1).and_then(|at| judged.front.get(at));
    let Some((sound, point)) = chosen.and_then(|sound| Some((sound, judged.points.get(sound.at)?))) else {
        io.note(&format!("error: there is no layout {number}: {} are shown\n", judged.front.len()));
        return exit::USAGE;
    };
    let put = match edit_and_write(io, held, options, space, &point.choice, &sound.compiled) {
        Ok(put) => put,
        Err(code) => return code,
    };
    // A faster layout that certainly fits is only passed over for lack of a price.
    let before = judged.front.iter().take(number.saturating_sub(1));
    let passed_over = before.filter_map(|sound| judged.points.get(sound.at)).any(Point::surely_fits);
    let why = match (asked, point.surely_fits()) {
        (true, _) => "",
        (false, true) if passed_over => ", the fastest that surely fits and has a price",
        (false, true) => ", the fastest that surely fits",
        (false, false) => ", the fastest; none surely fits",
    };
    io.note(&put.describe(&held.path, number, why));
    if let Some(high) = sound.high_memory_if_tight() {
        io.note(&describe_tight_memory(high, point.capacity_bytes));
    }
    exit::DONE
}

/// Result of writing a layout into the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// The file was changed.
    Written,
    /// The file already had this exact text.
    Stood,
}

impl Put {
    /// Formats the result; `why` is the reason for a number that was chosen by default.
    pub(super) fn describe(self, path: &str, number: usize, why: &str) -> String {
        match self {
            Self::Written => format!("wrote {path}: layout {number}{why}\n"),
            Self::Stood => format!("{path} already has layout {number}{why}: nothing to write\n"),
        }
    }
}

/// Formats the note on a layout that may not fit.
pub(super) fn describe_tight_memory(high_bytes: f64, capacity_bytes: f64) -> String {
    let (high, has) = (high_bytes / f64::from(1 << 30), format_gpu_gib(capacity_bytes));
    format!("note: the layout may need up to {high:.1} GiB of {has}: try a few steps before the run\n")
}

/// Edits the manifest to a layout, and writes it if the edited text gives the same plan as shown; otherwise reports the
/// reason.
pub(super) fn edit_and_write(
    io: &mut Io,
    held: &mut LoadedManifest,
    options: &Options,
    space: &Space,
    choice: &Choice,
    shown: &Compiled,
) -> Result<Put, u8> {
    if !is_file(&held.path) {
        io.note("error: a manifest from standard input is no file that can be written\n");
        return Err(exit::USAGE);
    }
    let plan = shown.plan.as_ref();
    let engine = plan.and_then(|plan| plan.engine).map_or("", trainc_ir::Engine::name);
    let base = BaseValues {
        job: plan.and_then(|plan| plan.job.name.value()).map_or("", String::as_str),
        instance: space.instance_name(choice.site),
        engine,
    };
    let text = match set_manifest_values(&held.text, base, &space.values_to_set(choice)) {
        Ok(text) => text,
        Err(error) => {
            io.note(&format!("error: `{}` cannot be edited: {error}\n", held.path));
            return Err(exit::MANIFEST);
        }
    };
    // The next command reads the file without `--set`, so the file alone must give the plan that was shown.
    let plain = without_sets(options);
    if !compiles_to_same(held, &text, &plain, shown) {
        let with_sets = !options.choices.sets.is_empty() && compiles_to_same(held, &text, options, shown);
        io.note(&if with_sets {
            describe_sets_required(&held.path, options)
        } else {
            describe_layer_conflict(&held.path)
        });
        return Err(exit::MANIFEST);
    }
    if text == held.text {
        return Ok(Put::Stood);
    }
    if let Err(error) = write_in_root(Path::new(&held.path), &text) {
        io.note(&format!("error: `{}` cannot be written: {}\n", held.path, describe(&error)));
        return Err(exit::USAGE);
    }
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

/// Returns the error if the edited file gives the plan that was shown only with the values of `--set`.
fn describe_sets_required(path: &str, options: &Options) -> String {
    let sets: Vec<String> = options.choices.sets.iter().map(|set| format!("--set {}", quote(set))).collect();
    let env = Overlay { env: options.choices.env.clone(), ..Overlay::default() }.flags().join(" ");
    let words = [quote(path), env, "--write".to_owned()];
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    let again = words.join(" ");
    let (values, it) = if sets.len() == 1 { ("that value", "it") } else { ("those values", "them") };
    format!(
        "error: `{path}` is left as it is: edited, it would plan to what is shown only with {}\nhelp: write {values} into the file first, or tune without {it}: `trainc tune {again}`\n",
        trainc_diag::text::backtick_list(&sets, "and")
    )
}

/// Returns the error if a layer or an environment overrides the values to write.
fn describe_layer_conflict(path: &str) -> String {
    format!(
        "error: `{path}` is left as it is: edited, it would plan to something else than what is shown; `--env` or a layer says otherwise\n"
    )
}

/// Returns true if both have the same prediction, mesh and batch, and the new one has no errors.
fn is_same_plan(new: &Compiled, shown: &Compiled) -> bool {
    let figures = |compiled: &Compiled| {
        let plan = compiled.plan.as_ref();
        plan.map(|plan| {
            let mesh = plan.mesh.as_ref().map(|mesh| {
                let degrees =
                    [&mesh.replicas, &mesh.shard_degree, &mesh.tensor_degree, &mesh.pipeline_degree];
                (mesh.nodes, degrees.map(|degree| degree.value))
            });
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
