//! Effects of an edit: the run before and after it, and the problems that it would add.

pub(crate) mod alternatives;
pub(crate) mod edit_cost;
pub(crate) mod edit_rank;
pub(crate) mod edit_text;

use crate::Context;
use crate::queries::memory::predicted_memory;
use crate::queries::prediction::{NEGLIGIBLE, predicted_run, run_of_layout};
use crate::queries::prices::describe_cost;
use crate::{rules, superseded};
use std::collections::BTreeSet;
use trainc_diag::{Diagnostic, Note, Problems, text};
use trainc_ir::Plan;
use trainc_predict::{Layout, Run, speed};

/// Returns the codes of the problems of another plan that `counts` accepts.
pub(crate) fn codes_of_plan(
    context: &Context,
    plan: &Plan,
    counts: impl Fn(&Diagnostic) -> bool,
) -> BTreeSet<&'static str> {
    let context = Context { plan, ..*context };
    let mut problems = Problems::default();
    rules::run(context.what_if_rules, &context, &mut problems);
    superseded::remove(&mut problems);
    problems.iter().filter(|problem| counts(problem)).map(|problem| problem.code.id).collect()
}

/// The reason why an edit gains nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoGain {
    /// The step would not be faster.
    NotFaster,
    /// Even the lower bound of its memory exceeds the GPU's.
    DoesNotFit,
}

impl NoGain {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::NotFaster => "predicted: this would not make a step faster",
            Self::DoesNotFit => "predicted: this would not fit",
        }
    }
}

/// The cost model's view of an edit.
pub(crate) struct Assessment {
    /// The reason why it gains nothing, if that is known.
    pub(crate) no_gain: Option<NoGain>,
    /// Whether the upper bound of its memory fits.
    pub(crate) fits: bool,
    /// The share of a step's time that it saves, if the times are predicted.
    pub(crate) saving: Option<f64>,
    /// The seconds of the run that it saves, if they are predicted.
    pub(crate) saved_seconds: Option<f64>,
    /// Time and cost of both runs, if they are known and differ.
    pub(crate) comparison: Option<Note>,
}

/// Assesses a change of the layout by its memory and by the time of a step.
pub(crate) fn assess(context: &Context, change: impl Fn(&mut Layout)) -> Assessment {
    let mut out =
        Assessment { no_gain: None, fits: false, saving: None, saved_seconds: None, comparison: None };
    let Ok(before) = Layout::from_plan(context.plan) else { return out };
    let mut after = before.clone();
    change(&mut after);
    let step = |layout: &Layout| speed::speed(layout, context.constants).ok().map(|speed| speed.step_seconds);
    if let (Some(before), Some(after)) = (step(&before), step(&after)) {
        let saving = 1.0 - after / before;
        out.saving = Some(saving);
        out.no_gain = (saving < NEGLIGIBLE).then_some(NoGain::NotFaster);
    }
    let memory = predicted_memory(context, &after);
    if let Some(capacity) = memory.capacity_bytes {
        out.fits = memory.interval.high <= capacity;
        if memory.interval.low > capacity {
            out.no_gain = Some(NoGain::DoesNotFit);
        }
    }
    if let Some((before, after)) = predict_runs(context, change) {
        out.saved_seconds = Some(before.seconds - after.seconds);
        out.comparison = differ(&before, &after).then(|| describe_runs(&before, &after)).flatten();
    }
    out
}

/// Returns whether two runs take different times.
fn differ(before: &Run, after: &Run) -> bool {
    (after.seconds - before.seconds).abs() >= before.seconds * NEGLIGIBLE
}

/// Describes time and cost before and after a change of the layout that makes the run faster.
pub(crate) fn describe_gain(context: &Context, change: impl FnOnce(&mut Layout)) -> Option<Note> {
    let (before, after) = predict_runs(context, change)?;
    if after.seconds > before.seconds * (1.0 - NEGLIGIBLE) { None } else { describe_runs(&before, &after) }
}

/// Describes time and cost before and after a change of the layout, faster or slower.
pub(crate) fn describe_difference(context: &Context, change: impl FnOnce(&mut Layout)) -> Option<Note> {
    let (before, after) = predict_runs(context, change)?;
    if differ(&before, &after) { describe_runs(&before, &after) } else { None }
}

/// Describes time and cost of the run as written and of the run after an edit.
pub(crate) fn describe_runs(before: &Run, after: &Run) -> Option<Note> {
    let states_cost = before.least_usd.or(after.least_usd).is_some();
    let (before, after) = (time_and_cost(before)?, time_and_cost(after)?);
    let note = format!("predicted: {before} as written; {after} with this edit");
    Some(Note::from(note).with_cost_if(states_cost))
}

fn predict_runs(context: &Context, change: impl FnOnce(&mut Layout)) -> Option<(Run, Run)> {
    let (mut layout, before) = predicted_run(context)?;
    change(&mut layout);
    Some((before, run_of_layout(context, &layout)?))
}

/// Formats a run's time, and its cost if that is known: `36m 50s, $495`.
fn time_and_cost(run: &Run) -> Option<String> {
    let seconds = run.expected_seconds();
    if !(0.0..1e12).contains(&seconds) {
        return None;
    }
    let time = text::rounded_duration(seconds);
    Some(run.least_usd.map_or_else(|| time.clone(), |usd| format!("{time}, {}", describe_cost(run, usd))))
}
