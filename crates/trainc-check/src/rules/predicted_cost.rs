//! The predicted cost of the run compared with the budget, and edits that reduce it.

use crate::Context;
use crate::queries::memory::fits_at_upper_bound;
use crate::queries::prediction::{predicted_run, run_of_layout, format_run_length};
use crate::queries::run_limits;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Edit, Note, Prices, Problems, Severity};
use trainc_ir::Plan;
use trainc_predict::bills::max_cost;
use trainc_predict::{Layout, Recompute, Run};
use trainc_tune::space::is_searchable;
use trainc_tune::{Choice, Space};

declare_code!(
    T0329,
    "predicted-over-budget",
    Warning,
    "the predicted cost exceeds the budget",
    allowable: Prediction,
    tags: [TimeOrCost],
    explains: [Budget]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0329];

/// Reports an error if even the lower bound exceeds the budget, or if the upper bound exceeds a hard budget;
/// else a warning. A run that `max-run` ends within the budget is reported by the rule on time.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(budget) = &context.plan.job.budget else { return };
    let Some(usd) = budget.usd.val() else { return };
    let Some((layout, mut run)) = predicted_run(context) else { return };
    let hard = budget.hard.get() == Some(true);
    // A file that anyone may add to must not lower what a hard budget is compared with.
    let mut is_without_runs = false;
    if hard && let Some(plain) = run_without_own_runs(context, &layout)
        && let Some(dear) = run.cost_parts.total().at_least()
        && let Some(dearer) = plain.cost_parts.total().at_least()
        && plain.interval_of_cost(dearer).high > run.interval_of_cost(dear).high
    {
        (run, is_without_runs) = (plain, true);
    }
    // The known part of the cost is a lower bound, and decides if it exceeds the budget alone.
    let total = run.cost_parts.total();
    let Some(cost) = total.at_least() else { return };
    let interval = run.interval_of_cost(cost);
    let max_run = context.plan.job.cluster.as_ref().and_then(run_limits::max_run);
    let max_run = max_run.map(|run| run.value as f64);
    let most = max_run.and_then(|seconds| {
        let most = max_cost(context.plan, seconds).total();
        most.at_least().map(|_| most.high_usd)
    });
    if most.is_some_and(|most| most <= usd.value) || interval.high <= usd.value {
        return;
    }
    // An estimated price is no certainty for a hard budget either.
    let strict = hard && !total.is_estimate();
    let severity = if strict || interval.low > usd.value { Severity::Error } else { Severity::Warning };
    // T0257 reports what has no price.
    let least = total.bound();
    let verb = if cost > usd.value { "is predicted to cost" } else { "may cost more than" };
    let message = if cost > usd.value {
        format!(
            "the run {verb} {least}{} ({} to {}); the budget is {}",
            text::dollars(cost),
            text::dollars(interval.low),
            text::dollars(interval.high),
            text::dollars(usd.value)
        )
    } else {
        format!(
            "the run {verb} the budget of {}: {least}{} ({} to {}) is predicted",
            text::dollars(usd.value),
            text::dollars(cost),
            text::dollars(interval.low),
            text::dollars(interval.high)
        )
    };
    let mut diagnostic = Diagnostic::new(&T0329, usd.span_or(budget.span), message)
        .prices(Prices::OfInstances)
        .severity(severity)
        .fact("cost_usd", cost)
        .fact("low_usd", interval.low)
        .fact("high_usd", interval.high)
        .fact("budget_usd", usd.value);
    // A hard budget is a limit of the manifest's own.
    if hard {
        diagnostic = diagnostic.certain();
    }
    if let Some(runs) = context.constants.evidence().filter(|_| is_without_runs) {
        diagnostic = diagnostic.note(format!(
            "without the measured runs in `{}`: a hard budget is compared with the dearer of both \
                predictions",
            runs.file
        ));
    }
    if let Some(span) = context.plan.run.steps.as_ref().and_then(|steps| steps.origin.span()) {
        diagnostic = diagnostic.label(span, format!("about {}", text::rounded_duration(run.expected_seconds())));
    }
    // Other machines come before a shorter training.
    let tune = format!(
        "find cheaper machines and layouts with `trainc tune --max-usd {}`",
        text::short_number(usd.value)
    );
    let mut ways: Vec<Note> = Vec::new();
    let cheaper = cheaper_layout(context, cost);
    // A hard budget limits the upper bound.
    let within = if hard { usd.value * cost / interval.high } else { usd.value };
    if let Some((words, after)) = &cheaper
        && *after <= within
    {
        ways.push(Note::cost(format!("write {words}: predicted {}", text::dollars(*after))));
    }
    if is_searchable(context.plan) {
        ways.push(Note::from(tune));
    }
    if cost > within {
        ways.extend(affordable_run_length(context.plan, &run, (within / cost, hard)).map(Note::from));
    }
    let mut ways = ways.into_iter();
    if let Some(first) = ways.next() {
        diagnostic = diagnostic.help(first.as_str());
    }
    for way in ways {
        diagnostic = diagnostic.note(way.map_text(|way| format!("or {way}")));
    }
    if let Some((words, after)) = cheaper.filter(|(_, after)| *after > within) {
        let high = text::dollars(after * interval.high / cost);
        let high = if hard { format!(", up to {high}") } else { String::new() };
        diagnostic = diagnostic
            .note(Note::cost(format!("{words} costs less, but not enough: predicted {}{high}", text::dollars(after))));
    }
    if context.plan.job.cluster.as_ref().is_some_and(|cluster| cluster.spot.is_none()) {
        diagnostic = diagnostic.note(
            "spot instances cost less, but their price is not known in advance; to assume 60 % \
                off, add `--discount 0.6`",
        );
    }
    problems.push(diagnostic);
}

/// Predicts the run without measured runs of the user; `None` if there are none.
fn run_without_own_runs(context: &Context, layout: &Layout) -> Option<Run> {
    context.constants.evidence()?;
    let constants = context.constants.without_runs();
    run_of_layout(&Context { constants: &constants, ..*context }, layout)
}

/// Returns a layout of the same steps that fits and costs less, as text to write and US dollars: one of the
/// written mesh, with a larger micro-batch of the same global batch or without recomputation.
fn cheaper_layout(context: &Context, cost: f64) -> Option<(String, f64)> {
    let space = Space::around(context.plan, &[], context.constants)?;
    let written = space.as_written()?;
    let mut best: Option<(Choice, f64)> = None;
    space.visit_batches(|choice, layout| {
        let lighter = choice.recompute == written.recompute || choice.recompute == Recompute::None;
        let is_other = choice != written && choice.micro_batch_size >= written.micro_batch_size;
        if !lighter || !is_other || !fits_at_upper_bound(context, layout) {
            return;
        }
        let Some(usd) = run_of_layout(context, layout).and_then(|run| run.least_usd) else { return };
        if usd < cost * 0.99 && best.is_none_or(|(_, least)| usd < least) {
            best = Some((*choice, usd));
        }
    });
    let (choice, usd) = best?;
    Some((text::backtick_list(&Edit::lines(&space.values_to_set(&choice)), "and"), usd))
}

/// Returns a shorter run within the budget, which is `share` of the cost; for a hard budget at the upper
/// bound, where the start takes up to twice as long as predicted.
fn affordable_run_length(plan: &Plan, run: &Run, (share, hard): (f64, bool)) -> Option<String> {
    let steps = plan.run.steps.as_ref()?.value as f64;
    let (seconds, start) =
        if hard { (run.interval.high, 2.0 * run.parts.startup_seconds()) } else { (run.seconds, run.parts.startup_seconds()) };
    let each = (seconds - start) / steps;
    let left = seconds * share - start;
    if left <= 0.0 {
        return Some(format!(
            "use fewer or smaller instances: starting alone takes {}",
            text::rounded_duration(start)
        ));
    }
    format_run_length(plan, left / each).map(|written| format!("write {written}, which the budget allows"))
}
