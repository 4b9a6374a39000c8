//! The budget against what the run is predicted to cost, and what would bring it under.

use super::divisibility::is_beyond_positions;
use super::too_large::too_large;
use crate::Context;
use crate::queries::run_limits;
use crate::remedy;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{Every, Plan};
use trainc_plan::plan::divisors::divisors;
use trainc_predict::bills::at_most;
use trainc_predict::{Layout, Recompute, Run, run, speed};

declare_code!(T0329, "predicted-over-budget", Warning, "the predicted cost exceeds the budget");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0329];

/// What the run is predicted to cost, where that is known and there can be one.
pub(super) fn predicted(context: &Context) -> Option<(Layout, Run)> {
    let plan = context.plan;
    if !plan.deployable || !plan.job.is_whole || is_beyond_positions(plan) {
        return None;
    }
    let layout = Layout::of_plan(plan).ok().filter(|layout| too_large(layout).is_none())?;
    let run = run_of(context, &layout)?;
    Some((layout, run))
}

/// The run of a layout with other checkpoints.
pub(super) fn with_checkpoints(context: &Context, layout: &Layout, every: Every) -> Option<Run> {
    let speed = speed::speed(layout, context.constants).ok()?;
    let terms = run::Terms::of(context.plan, context.constants).ok()?;
    Some(terms.with_checkpoints(every).run(layout, &speed))
}

fn run_of(context: &Context, layout: &Layout) -> Option<Run> {
    let speed = speed::speed(layout, context.constants).ok()?;
    Some(run::Terms::of(context.plan, context.constants).ok()?.run(layout, &speed))
}

/// An error where even the low end is above the budget, and of a hard budget wherever the run may cost more; else a
/// warning. What `max-run` ends before the budget is spent costs no more than it: that the time does not suffice is told of
/// the time.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(budget) = &context.plan.job.budget else { return };
    let Some(usd) = budget.usd.val() else { return };
    let Some((layout, run)) = predicted(context) else { return };
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
    if let Some(words) = super::budget::newer_elsewhere(context.plan) {
        diagnostic = diagnostic.note(words);
    }
    problems.push(diagnostic.note(format!(
        "other layouts and instance types: `trainc tune --max-usd {}`",
        text::short(usd.value)
    )));
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds, held above zero")]
pub(super) fn whole(seconds: f64) -> u64 {
    seconds.max(0.0).round() as u64
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
            let Some(usd) = run_of(context, &other).and_then(|run| run.least_usd) else { continue };
            if usd < cost * 0.99 && best.as_ref().is_none_or(|(_, least)| usd < *least) {
                let mut lines = Vec::new();
                if factor > 1 {
                    lines.extend(remedy::batch_lines(plan, batch.micro_batch_size.value * factor));
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

fn surely_fits(context: &Context, layout: &Layout) -> bool {
    let memory = super::memory::needed(context, layout);
    memory.capacity_bytes.is_some_and(|capacity| memory.interval.high <= capacity)
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
    shorter(plan, left / each).map(|written| format!("write {written}: the budget pays for no more"))
}

/// A run of that many steps at most, in the word that the manifest says it in.
pub(super) fn shorter(plan: &Plan, steps: f64) -> Option<String> {
    let steps = steps.floor();
    if steps < 1.0 {
        return None;
    }
    let train = &plan.job.train;
    let rounded = |n: f64| {
        let grain = 10_f64.powf((n.log10().floor() - 1.0).max(0.0));
        text::group(whole((n / grain).floor() * grain)).replace(',', "_")
    };
    if !train.steps.is_absent() {
        return Some(format!("`steps {}`", rounded(steps)));
    }
    let tokens = plan.batch.as_ref()?.global_tokens? as f64;
    (!train.tokens.is_absent()).then(|| format!("`tokens {}`", rounded(steps * tokens)))
}
