//! The predicted run of a plan: its time and cost.

use super::dimensions::exceeds_positions;
use super::memory::excess_states;
use crate::Context;
use trainc_diag::Note;
use trainc_diag::text;
use trainc_ir::{CheckpointInterval, Plan};
use trainc_predict::run::Terms;
use trainc_predict::{Layout, Run, Speed, round_to_u64, speed};

/// The share of a run's or a step's time below which a part is not worth a note.
pub(crate) const NEGLIGIBLE: f64 = 0.01;

/// Predicts the run of the plan; `None` if a part of it is unknown or the job cannot run.
pub(crate) fn predicted_run(context: &Context) -> Option<(Layout, Run)> {
    let plan = context.plan;
    if plan.on_sagemaker.is_none() || !plan.job.is_whole || exceeds_positions(plan) {
        return None;
    }
    let layout = Layout::from_plan(plan).ok().filter(|layout| excess_states(layout).is_none())?;
    let run = run_of_layout(context, &layout)?;
    Some((layout, run))
}

/// Predicts the run of another layout of the plan.
pub(crate) fn run_of_layout(context: &Context, layout: &Layout) -> Option<Run> {
    let speed = speed::speed(layout, context.constants).ok()?;
    Some(Terms::from_plan(context.plan, context.constants).ok()?.predict_run(layout, &speed))
}

/// Predicts the run of a layout with another checkpoint interval.
pub(crate) fn run_with_checkpoints(
    context: &Context,
    layout: &Layout,
    every: CheckpointInterval,
) -> Option<Run> {
    let speed = speed::speed(layout, context.constants).ok()?;
    let terms = Terms::from_plan(context.plan, context.constants).ok()?;
    Some(terms.with_checkpoints(every).predict_run(layout, &speed))
}

/// Describes the time of a part of each step and its cost: `0.8 s of each step's 4.1 s, $310 of the run`.
/// `None` if it is negligible.
pub(crate) fn describe_step_share(context: &Context, part: impl FnOnce(&Speed) -> f64) -> Option<Note> {
    let (layout, _) = predicted_run(context)?;
    let speed = speed::speed(&layout, context.constants).ok()?;
    let seconds = part(&speed);
    if seconds < speed.step_seconds * NEGLIGIBLE {
        return None;
    }
    let usd = run_cost_of_step_seconds(context, seconds);
    let note = format!(
        "{} s of each step's {} s{}",
        text::short_number(seconds),
        text::short_number(speed.step_seconds),
        usd.map_or_else(String::new, |usd| format!(", {} of the run", text::dollars(usd)))
    );
    Some(Note::from(note).with_cost_if(usd.is_some()))
}

/// Returns the cost, in US dollars, of `seconds` in each step of the run.
pub(crate) fn run_cost_of_step_seconds(context: &Context, seconds: f64) -> Option<f64> {
    let steps = context.plan.run.steps.as_ref()?.value as f64;
    Some(steps * seconds / 3_600.0 * context.plan.cost_per_hour().exact()?)
}

/// Returns the manifest value of a run of at most `steps` steps, in the unit that the manifest uses: ``
/// `tokens 2_000_000` ``.
pub(crate) fn format_run_length(plan: &Plan, steps: f64) -> Option<String> {
    let steps = steps.floor();
    if steps < 1.0 {
        return None;
    }
    let train = &plan.job.train;
    let two_digits = |n: f64| {
        let grain = 10_f64.powf((n.log10().floor() - 1.0).max(0.0));
        text::group_digits(round_to_u64((n / grain).floor() * grain)).replace(',', "_")
    };
    if !train.steps.is_absent() {
        return Some(format!("`steps {}`", two_digits(steps)));
    }
    let tokens = plan.batch.as_ref()?.global_tokens? as f64;
    (!train.tokens.is_absent()).then(|| format!("`tokens {}`", two_digits(steps * tokens)))
}
