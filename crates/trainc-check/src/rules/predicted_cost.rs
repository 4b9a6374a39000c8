//! The budget against what the run is predicted to cost, and what would bring it under.

use crate::Context;
use crate::queries::memory::surely_fits;
use crate::queries::prediction::{predicted_run, run_of_layout, shorter_run};
use crate::queries::prices::describe_later_price;
use crate::queries::run_limits;
use crate::what_if::edit_text;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::Plan;
use trainc_plan::plan::divisors::divisors;
use trainc_predict::bills::at_most;
use trainc_predict::{Layout, Recompute, Run};

declare_code!(T0329, "predicted-over-budget", Warning, "the predicted cost exceeds the budget");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0329];

/// An error where even the low end is above the budget, and of a hard budget wherever the run may cost more; else a
/// warning. What `max-run` ends before the budget is spent costs no more than it: that the time does not suffice is told of
/// the time.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(budget) = &context.plan.job.budget else { return };
    let Some(usd) = budget.usd.val() else { return };
    let Some((layout, run)) = predicted_run(context) else { return };
    let (Some(cost), Some(interval)) = (run.least_usd, run.least_interval()) else { return };
    let max_run = context.plan.job.cluster.as_ref().and_then(run_limits::max_run);
    let max_run = max_run.map(|run| run.value as f64);
    let most = max_run.and_then(|seconds| at_most(context.plan, seconds).least_usd());
    if most.is_some_and(|most| most <= usd.value) || interval.high <= usd.value {
        return;
    }
    let hard = budget.hard.get() == Some(true);
    let severity = if hard || interval.low > usd.value { Severity::Error } else { Severity::Warning };
    // Of a file system without a price `T0257` speaks.
    let least = if run.cost_usd.is_none() { "at least " } else { "" };
    let verb = if cost > usd.value { "is predicted to cost" } else { "may cost more than" };
    let message = if cost > usd.value {
        format!(
            "the run {verb} {least}{}, between {} and {}; the budget is {}",
            text::dollars(cost),
            text::dollars(interval.low),
            text::dollars(interval.high),
            text::dollars(usd.value)
        )
    } else {
        format!(
            "the run {verb} the budget of {}: {least}{} is predicted, between {} and {}",
            text::dollars(usd.value),
            text::dollars(cost),
            text::dollars(interval.low),
            text::dollars(interval.high)
        )
    };
    let mut diagnostic = Diagnostic::new(&T0329, usd.span_or(budget.span), message)
        .severity(severity)
        .fact("cost_usd", cost)
        .fact("low_usd", interval.low)
        .fact("high_usd", interval.high)
        .fact("budget_usd", usd.value);
    if let Some(span) = context.plan.run.steps.as_ref().and_then(|steps| steps.origin.span()) {
        diagnostic = diagnostic.label(span, format!("about {}", text::about(run.expected_seconds())));
    }
    let mut ways: Vec<String> = Vec::new();
    let thrift = thrift(context, &layout, cost);
    // What a hard budget asks is that the high end keeps it.
    let within = if hard { usd.value * cost / interval.high } else { usd.value };
    if let Some((words, after)) = &thrift
        && *after <= within
    {
        ways.push(format!("write {words}: predicted {}", text::dollars(*after)));
    }
    if cost > within {
        ways.extend(affordable(context.plan, &run, (within / cost, hard)));
    }
    let mut ways = ways.into_iter();
    if let Some(first) = ways.next() {
        diagnostic = diagnostic.help(first);
    }
    for way in ways {
        diagnostic = diagnostic.note(format!("or {way}"));
    }
    if let Some((words, after)) = thrift.filter(|(_, after)| *after > within) {
        let high = text::dollars(after * interval.high / cost);
        let high = if hard { format!(", up to {high}") } else { String::new() };
        diagnostic = diagnostic
            .note(format!("{words} costs less, but not enough: predicted {}{high}", text::dollars(after)));
    }
    if context.plan.job.cluster.as_ref().is_some_and(|cluster| cluster.spot.is_none()) {
        diagnostic = diagnostic.note(
            "spot instances cost less, how much is not known beforehand: `--discount 0.6` tries a price",
        );
    }
    if let Some(words) = describe_later_price(context.plan) {
        diagnostic = diagnostic.note(words);
    }
    problems.push(diagnostic.note(format!(
        "other layouts and instance types: `trainc tune --max-usd {}`",
        text::short(usd.value)
    )));
}

/// A layout of the same steps that fits and costs less: what to write, and US dollars. Tried are a larger micro-batch at
/// the same global batch, and no recomputation: they need neither other instances nor another batch.
fn thrift(context: &Context, layout: &Layout, cost: f64) -> Option<(String, f64)> {
    let plan = context.plan;
    let batch = plan.batch.as_ref()?;
    let factors = if layout.degrees.pipeline > 1.0 { vec![1] } else { divisors(batch.accumulation.value) };
    let recomputes = [layout.recompute, Recompute::None];
    let mut best: Option<(String, f64)> = None;
    for factor in factors {
        for recompute in recomputes {
            let mut other = layout.clone();
            other.work.micro_batch_size *= factor as f64;
            other.work.passes /= factor as f64;
            other.recompute = recompute;
            if other == *layout || !surely_fits(context, &other) {
                continue;
            }
            let Some(usd) = run_of_layout(context, &other).and_then(|run| run.least_usd) else { continue };
            if usd < cost * 0.99 && best.as_ref().is_none_or(|(_, least)| usd < *least) {
                let mut lines = Vec::new();
                if factor > 1 {
                    lines.extend(edit_text::batch_lines(plan, batch.micro_batch_size.value * factor));
                }
                if recompute != layout.recompute {
                    lines.push("activation-checkpointing #false".to_owned());
                }
                best = Some((text::ticked(&lines, "and"), usd));
            }
        }
    }
    best
}

/// A shorter run that the budget pays for, of which it is that `share` of the cost; of a hard budget at the high end, whose
/// start takes up to twice as long as predicted.
fn affordable(plan: &Plan, run: &Run, (share, hard): (f64, bool)) -> Option<String> {
    let steps = plan.run.steps.as_ref()?.value as f64;
    let (seconds, start) =
        if hard { (run.interval.high, 2.0 * run.parts.start()) } else { (run.seconds, run.parts.start()) };
    let each = (seconds - start) / steps;
    let left = seconds * share - start;
    if left <= 0.0 {
        return Some(format!(
            "its start alone takes {}: take fewer or smaller instances",
            text::about(start)
        ));
    }
    shorter_run(plan, left / each).map(|written| format!("write {written}: the budget pays for no more"))
}
