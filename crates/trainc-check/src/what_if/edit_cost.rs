//! Time, cost and global batch of a job after edits that make it fit.

use crate::Context;
use crate::queries::prices::{describe_cost, instance_price};
use trainc_catalog::instances;
use trainc_predict::memory::remedies::{Edit, Remedy, changes_instance};
use trainc_predict::run::Terms;
use trainc_predict::speed::speed;
use trainc_predict::{Layout, Run};

/// Returns the layout that results from an edited manifest: a written global batch stays, so more ranks
/// accumulate fewer passes.
pub(crate) fn keep_global_batch(context: &Context, before: &Layout, new: &Layout) -> Layout {
    let mut new = new.clone();
    let more = new.work.global_sequences / before.work.global_sequences;
    if more > 1.0 && context.plan.job.train.global_batch.get().is_some() {
        new.work.global_sequences /= more;
        new.work.passes = (new.work.passes / more).max(1.0);
    }
    new
}

/// Returns whether a written global batch is a whole number of passes over the ranks of the new layout.
pub(crate) fn is_batch_divisible(context: &Context, before: &Layout, new: &Layout) -> bool {
    let more = new.work.global_sequences / before.work.global_sequences;
    let passes = new.work.passes / more;
    let is_whole = passes > 1.0 - 1e-9 && (passes - passes.round()).abs() < 1e-9;
    more <= 1.0 || is_whole || context.plan.job.train.global_batch.get().is_none()
}

/// Returns the steps of the edited run relative to those before: 1 if steps are written; else the sequences
/// stay.
fn step_count_ratio(context: &Context, before: &Layout, after: &Layout) -> f64 {
    let train = &context.plan.job.train;
    if train.steps.get().is_some() {
        return 1.0;
    }
    let ratio = before.work.global_sequences / after.work.global_sequences;
    let sequences = train.dataset.as_ref().and_then(|dataset| dataset.sequences.get());
    let (Some(epochs), Some(sequences)) = (train.epochs.get(), sequences) else { return ratio };
    // An epoch has whole steps.
    let steps = |layout: &Layout| (epochs * (sequences as f64 / layout.work.global_sequences).ceil()).ceil();
    if (ratio - 1.0).abs() < 1e-12 { 1.0 } else { steps(after) / steps(before) }
}

/// Returns the seconds of the edited training per step before the edit; `None` if its speed is unknown.
pub(crate) fn training_seconds(context: &Context, before: &Layout, new: &Layout) -> Option<f64> {
    let after = keep_global_batch(context, before, new);
    let speed = speed(&after, context.constants).ok()?;
    Some(speed.step_seconds * step_count_ratio(context, before, &after))
}

/// Returns the cost of the edited run in US dollars; `None` if its length or a price is unknown.
pub(crate) fn run_cost(context: &Context, before: &Layout, edited: (&Layout, &[Edit])) -> Option<f64> {
    edited_run(context, before, edited)?.cost_usd
}

/// Describes the same; an estimate is called that.
pub(crate) fn describe_run_cost(
    context: &Context,
    before: &Layout,
    edited: (&Layout, &[Edit]),
) -> Option<String> {
    let run = edited_run(context, before, edited)?;
    Some(describe_cost(&run, run.cost_usd?))
}

/// Returns how much longer the edited run takes, as a fraction.
fn run_slowdown(context: &Context, before: &Layout, edited: (&Layout, &[Edit])) -> Option<f64> {
    let seconds = |edited| Some(edited_run(context, before, edited)?.expected_seconds());
    Some(seconds(edited)? / seconds((before, &[]))? - 1.0)
}

fn edited_run(context: &Context, before: &Layout, (new, edits): (&Layout, &[Edit])) -> Option<Run> {
    let after = keep_global_batch(context, before, new);
    let mut terms = Terms::from_plan(context.plan, context.constants).ok()?;
    if let Some(name) = new_instance(edits) {
        let price = instance_price(context, name);
        terms = terms.on_instance(context.plan, &instances::get(name)?, price.as_ref());
    }
    let speed = speed(&after, context.constants).ok()?;
    Some(terms.with_steps_scaled(step_count_ratio(context, before, &after)).predict_run(&after, &speed))
}

/// Returns the instance type that the edits move the job to.
pub(crate) fn new_instance(edits: &[Edit]) -> Option<&'static str> {
    edits.iter().find_map(|edit| match edit {
        Edit::Instance(name) => Some(*name),
        _ => None,
    })
}

/// Returns the global batch after the edits, in sequences, if it differs: that is another training.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of sequences")]
pub(crate) fn new_global_batch(context: &Context, before: &Layout, remedy: &Remedy) -> Option<u64> {
    let after = keep_global_batch(context, before, &remedy.layout).work.global_sequences;
    ((after - before.work.global_sequences).abs() > 0.5).then(|| after.round() as u64)
}

/// Describes the slowdown: `, +24% time` of the training on the same machines, of the whole run on other
/// machines, whose cost is shown with it.
pub(crate) fn describe_slowdown(context: &Context, before: &Layout, remedy: &Remedy) -> String {
    let moves = remedy.layout.hardware.nodes > before.hardware.nodes || changes_instance(&remedy.edits);
    let of_run = run_slowdown(context, before, (&remedy.layout, &remedy.edits)).filter(|_| moves);
    let Some(slower) = of_run.or(remedy.slower) else { return String::new() };
    let percent = 100.0 * slower;
    let sign = if percent < 0.0 { "−" } else { "+" };
    let time = if of_run.is_some() { "run time" } else { "step time" };
    format!(", {sign}{:.0}% {time}", percent.abs())
}
