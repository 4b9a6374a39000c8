//! Seconds, dollars and batch of a job that does not fit its GPUs, once edits that make it fit are written.

use super::elsewhere;
use crate::Context;
use trainc_catalog::instances;
use trainc_predict::memory::remedies::{Edit, Remedy, is_elsewhere};
use trainc_predict::run::Terms;
use trainc_predict::speed::speed;
use trainc_predict::{Layout, Run};

/// A layout as the manifest comes to it once its edits are written: where the global batch is written it stays, and
/// more ranks take fewer passes.
pub(super) fn as_written(context: &Context, before: &Layout, new: &Layout) -> Layout {
    let mut new = new.clone();
    let more = new.work.global_sequences / before.work.global_sequences;
    if more > 1.0 && context.plan.job.train.global_batch.get().is_some() {
        new.work.global_sequences /= more;
        new.work.passes = (new.work.passes / more).max(1.0);
    }
    new
}

/// Whether the global batch, where it is written, divides over the ranks of a layout in whole passes.
pub(super) fn divides(context: &Context, before: &Layout, new: &Layout) -> bool {
    let more = new.work.global_sequences / before.work.global_sequences;
    let passes = new.work.passes / more;
    let is_whole = passes > 1.0 - 1e-9 && (passes - passes.round()).abs() < 1e-9;
    more <= 1.0 || is_whole || context.plan.job.train.global_batch.get().is_none()
}

/// How many times the steps of before a run takes: as many where steps are written; else the same sequences.
fn steps(context: &Context, before: &Layout, written: &Layout) -> f64 {
    let train = &context.plan.job.train;
    if train.steps.get().is_some() {
        return 1.0;
    }
    let ratio = before.work.global_sequences / written.work.global_sequences;
    let sequences = train.dataset.as_ref().and_then(|dataset| dataset.sequences.get());
    let (Some(epochs), Some(sequences)) = (train.epochs.get(), sequences) else { return ratio };
    // An epoch is of whole steps.
    let steps = |of: &Layout| (epochs * (sequences as f64 / of.work.global_sequences).ceil()).ceil();
    if (ratio - 1.0).abs() < 1e-12 { 1.0 } else { steps(written) / steps(before) }
}

/// Seconds of the training as it is written, in steps of the layout before; none where speed is not known.
pub(super) fn training_seconds(context: &Context, before: &Layout, new: &Layout) -> Option<f64> {
    let written = as_written(context, before, new);
    let speed = speed(&written, context.constants).ok()?;
    Some(speed.step_seconds * steps(context, before, &written))
}

/// US dollars of the run as it is written; none where its length or a price is not known.
pub(super) fn dollars(context: &Context, before: &Layout, edited: (&Layout, &[Edit])) -> Option<f64> {
    run(context, before, edited)?.cost_usd
}

/// How much longer the whole run takes as it is written, a fraction; none where its length is not known.
fn longer(context: &Context, before: &Layout, edited: (&Layout, &[Edit])) -> Option<f64> {
    let seconds = |edited| Some(run(context, before, edited)?.expected_seconds());
    Some(seconds(edited)? / seconds((before, &[]))? - 1.0)
}

/// The run as it is written.
fn run(context: &Context, before: &Layout, (new, edits): (&Layout, &[Edit])) -> Option<Run> {
    let written = as_written(context, before, new);
    let mut terms = Terms::of(context.plan, context.constants).ok()?;
    if let Some(name) = other_instance(edits) {
        let price = elsewhere::price(context, name);
        terms = terms.on(context.plan, &instances::get(name)?, price.as_ref());
    }
    let speed = speed(&written, context.constants).ok()?;
    Some(terms.times(steps(context, before, &written)).run(&written, &speed))
}

/// The instance type that edits move the job to.
pub(super) fn other_instance(edits: &[Edit]) -> Option<&'static str> {
    edits.iter().find_map(|edit| match edit {
        Edit::Instance(name) => Some(*name),
        _ => None,
    })
}

/// Sequences of a step after the edits, where they are not those of before: another training.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of sequences")]
pub(super) fn other_batch(context: &Context, before: &Layout, remedy: &Remedy) -> Option<u64> {
    let after = as_written(context, before, &remedy.layout).work.global_sequences;
    ((after - before.work.global_sequences).abs() > 0.5).then(|| after.round() as u64)
}

/// `, +24% time` of the training on these machines; on others of the whole run, which the dollars beside it are of.
pub(super) fn longer_by(context: &Context, before: &Layout, remedy: &Remedy) -> String {
    let moves = remedy.layout.hardware.nodes > before.hardware.nodes || is_elsewhere(&remedy.edits);
    let of_run = longer(context, before, (&remedy.layout, &remedy.edits)).filter(|_| moves);
    let Some(longer) = of_run.or(remedy.slower) else { return String::new() };
    let percent = 100.0 * longer;
    let sign = if percent < 0.0 { "−" } else { "+" };
    let of = if of_run.is_some() { " of the run" } else { "" };
    format!(", {sign}{:.0}% time{of}", percent.abs())
}
