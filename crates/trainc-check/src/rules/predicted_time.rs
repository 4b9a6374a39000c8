//! The predicted time of the run compared with `max-run`.

use crate::Context;
use crate::queries::dimensions::exceeds_positions;
use crate::queries::memory::excess_states;
use crate::queries::prediction::{predicted_run, run_with_checkpoints, format_run_length};
use trainc_predict::round_to_u64;
use crate::queries::run_limits;
use trainc_catalog::limits;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{Cluster, CheckpointInterval, Plan};
use trainc_predict::{Layout, Run};
use trainc_predict::bills::max_cost;

declare_code!(
    T0338,
    "predicted-over-max-run",
    Warning,
    "the predicted run time exceeds `max-run`",
    allowable: Prediction,
    tags: [TimeOrCost],
    explains: [Time]
);

declare_code!(
    T0496,
    "interruptions-exceed-max-run",
    Warning,
    "a run that is expected to exceed `max-run` because of interruptions",
    allowable: Prediction,
    tags: [TimeOrCost],
    explains: [Wait]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0338, &T0496];

/// Reports an error if even the lower bound exceeds `max-run`, a warning if the upper bound does.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(cluster) = &plan.job.cluster else { return };
    let Some(limit) = run_limits::max_run(cluster) else { return };
    let Some((layout, run)) = predicted_run(context) else {
        check_peak(context, problems);
        return;
    };
    let most = limit.value as f64;
    let best = || run_with_checkpoints(context, &layout, CheckpointInterval::Optimal);
    let interrupted = interrupted_run_too_long((plan, cluster), &run, &best, limit.value);
    // An error outweighs the warning that the work alone may give.
    let is_surer = run.interval.low <= most
        && interrupted.as_ref().is_some_and(|found| found.severity == Severity::Error);
    if let Some(found) = interrupted.filter(|_| run.seconds <= most || is_surer) {
        problems.push(found);
    }
    if run.seconds > most && is_surer {
        return;
    }
    if run.interval.high <= most {
        return;
    }
    let severity = if run.interval.low > most { Severity::Error } else { Severity::Warning };
    let figures = [run.seconds, run.interval.low, run.interval.high].map(text::rounded_duration);
    let [about, low, high] = &figures;
    let limit_words = text::duration(limit.value);
    let message = if run.seconds > most {
        format!("the run is predicted to take {about}, between {low} and {high}; `max-run` is {limit_words}")
    } else {
        format!(
            "the run may exceed `max-run`, {limit_words}: {about} is predicted, between {low} and {high}"
        )
    };
    let mut diagnostic = Diagnostic::new(&T0338, limit.span_or(cluster.span), message)
        .severity(severity)
        .fact("seconds", run.seconds.round())
        .fact("low_seconds", run.interval.low.round())
        .fact("high_seconds", run.interval.high.round())
        .fact("max_run_seconds", limit.value);
    if let Some(span) = plan.run.steps.as_ref().and_then(|steps| steps.origin.span()) {
        diagnostic = diagnostic.label(span, format!("about {about}"));
    }
    let (seconds, longer) = sufficient_limit(run.interval.high);
    let fewer = run_length_within(plan, &run, most);
    if is_limit_affordable(plan, seconds) {
        diagnostic = diagnostic.write(format!("max-run \"{longer}\""));
        // Only a written value can be replaced.
        if limit.origin.span().is_some() {
            diagnostic = diagnostic.fix(limit.span_or(cluster.span), format!("\"{longer}\""));
        }
        if let Some(fewer) = fewer {
            diagnostic = diagnostic.note(format!("or {fewer}"));
        }
    } else if let Some(fewer) = fewer {
        diagnostic = diagnostic.help(format!("write {fewer}"));
    }
    problems.push(diagnostic.note("SageMaker stops the job at `max-run`, finished or not"));
}

/// Reports a run that cannot end before `max-run` even at the peak of its GPUs, where no time is predicted.
/// Each token takes 6 operations for a trained parameter and 4 for one below an adapter (Kaplan et al. 2020,
/// section 2.1; without the gradients of the weights).
fn check_peak(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some((cluster, limit)) = plan.job.cluster.as_ref().and_then(|cluster| Some((cluster, run_limits::max_run(cluster)?))) else { return };
    let (Some(model), Some(tokens), Some(instance)) = (&plan.model, &plan.run.tokens, &plan.instance) else { return };
    // A job that cannot run at all takes no time.
    let is_impossible = exceeds_positions(plan)
        || Layout::from_plan(plan).is_ok_and(|layout| excess_states(&layout).is_some());
    if is_impossible || model.architecture.as_ref().is_some_and(|architecture| architecture.experts > 0) {
        return;
    }
    let gpu = &instance.accelerator;
    let Some(peak) = gpu.peak_bf16_tflops.into_iter().chain(gpu.peak_fp16_tflops).reduce(f64::max) else { return };
    let gpus = f64::from(instance.accelerators) * cluster.nodes.get().unwrap_or(1) as f64;
    let operations = if plan.job.adapter.is_some() { 4.0 } else { 6.0 };
    let seconds = operations * model.parameters.value as f64 * tokens.value as f64 / (gpus * peak * 1e12);
    if seconds <= limit.value as f64 {
        return;
    }
    let mut diagnostic = Diagnostic::new(
        &T0338,
        limit.span_or(cluster.span),
        format!(
            "the run takes at least {}, at the peak of every GPU; `max-run` is {}",
            text::rounded_duration(seconds),
            text::duration(limit.value)
        ),
    )
    .severity(Severity::Error)
    .certain()
    .help("write fewer steps or tokens, or use more GPUs")
    .note(format!("{operations} operations for each of {} parameters and {} tokens, at {peak} TFLOP/s", text::group_digits(model.parameters.value), text::group_digits(tokens.value)))
    .fact("seconds", seconds.round())
    .fact("max_run_seconds", limit.value);
    if let Some(span) = tokens.origin.span() {
        diagnostic = diagnostic.label(span, "the run's length");
    }
    problems.push(diagnostic);
}

/// Reports the expected time with interruptions if it exceeds `max-run`: an error if even the lower bound
/// does, or if the run never ends.
fn interrupted_run_too_long(
    (plan, cluster): (&Plan, &Cluster),
    run: &Run,
    best: &dyn Fn() -> Option<Run>,
    max_run: u64,
) -> Option<Diagnostic> {
    cluster.node_losses_per_hour()?;
    let spot = cluster.spot.as_ref();
    let rate = spot.and_then(|spot| Some((spot.interruptions_per_hour.val()?, spot.span)));
    let failures = cluster.node_mtbf_seconds.val();
    let span = match (rate, failures) {
        (Some((rate, spot)), _) => rate.span_or(spot),
        (None, failures) => failures.map_or(cluster.span, |failures| failures.span_or(cluster.span)),
    };
    // The cause, and the help if no checkpoint interval or limit is enough.
    let (losses, last_help) =
        if rate.is_some() { ("interruptions", WITHOUT_SPOT) } else { ("failures of nodes", FEWER) };
    // A `max-wait` below `max-run` is reported elsewhere.
    let most = max_run;
    let written = text::duration(most);
    let Some(expected) = run.spot else {
        let message = match (rate, failures) {
            (None, Some(failures)) => {
                format!("the run never ends if a node fails every {}", text::duration(failures.value))
            }
            (rate, _) => {
                let rate = rate.map_or(0.0, |(rate, _)| rate.value);
                format!("the run never ends at {rate} interruptions per instance and hour")
            }
        };
        let diagnostic = Diagnostic::new(&T0496, span, message)
            .severity(if run.never_ends { Severity::Error } else { Severity::Warning })
            .note("more than a year is expected: hardly any interval between two checkpoints completes");
        let help = help_optimal_interval(plan, best, most, false).unwrap_or_else(|| last_help.to_owned());
        return Some(diagnostic.help(help));
    };
    let high = expected.interval.map_or(f64::INFINITY, |interval| interval.high);
    let is_over = expected.expected_seconds > most as f64;
    // If the work alone may take longer, T0338 reports that.
    if !is_over && (high <= most as f64 || run.interval.high > most as f64) {
        return None;
    }
    let severity = if expected.low_seconds > most as f64 { Severity::Error } else { Severity::Warning };
    let about = text::rounded_duration(expected.expected_seconds);
    let message = if is_over {
        format!("with the given {losses} the run is expected to take {about}; `max-run` is {written}")
    } else {
        let high = if high.is_finite() { text::rounded_duration(high) } else { "more than a year".to_owned() };
        format!(
            "with the given {losses} the run may exceed `max-run`, {written}: {about} is \
                expected, up to {high}"
        )
    };
    let mut diagnostic = Diagnostic::new(&T0496, span, message)
        .severity(severity)
        .fact("expected_seconds", expected.expected_seconds.round())
        .fact("low_seconds", expected.low_seconds.round())
        .fact("p90_seconds", expected.p90_seconds.round())
        .fact("limit_seconds", most)
        .note("SageMaker stops the job at `max-run`; work repeated after an interruption or failure \
            counts towards it");
    let (enough_for, which) = if is_over || !high.is_finite() {
        (expected.p90_seconds, "nine out of ten runs finish")
    } else {
        (high, "it is expected to end even at the upper bound of the prediction")
    };
    let (seconds, longer) = sufficient_limit(enough_for);
    let longer = is_limit_affordable(plan, seconds).then(|| {
        let short = spot.filter(|spot| spot.max_wait_seconds.get().is_none_or(|wait| wait < seconds));
        let wait = short.map_or_else(String::new, |_| format!(" and `max-wait=\"{longer}\"`"));
        format!("`max-run \"{longer}\"`{wait}, in which {which}")
    });
    diagnostic = match (help_optimal_interval(plan, best, most, !is_over), longer) {
        (Some(more_often), longer) => {
            let diagnostic = diagnostic.help(more_often);
            longer.into_iter().fold(diagnostic, |diagnostic, longer| diagnostic.note(format!("or {longer}")))
        }
        (None, Some(longer)) => diagnostic.help(format!("write {longer}")),
        (None, None) => diagnostic.help(last_help),
    };
    Some(diagnostic)
}

/// The help for spot instances if no checkpoint interval or limit is enough.
const WITHOUT_SPOT: &str = "remove `spot`: no checkpoint interval keeps this run within its time";

/// The help for failing nodes.
const FEWER: &str = "write fewer `steps`, in several jobs that continue each other: no checkpoint interval \
    keeps this run within its time";

/// Returns the help to use the optimal checkpoint interval, if it is not used yet and the run ends in time
/// with it: as expected, or with `surely` at the upper bound too.
fn help_optimal_interval(plan: &Plan, best: &dyn Fn() -> Option<Run>, most: u64, surely: bool) -> Option<String> {
    let checkpoint = plan.job.checkpoint.as_ref();
    let every = checkpoint.and_then(|checkpoint| checkpoint.every.get());
    let spot = best().filter(|_| every != Some(CheckpointInterval::Optimal))?.spot?;
    let expected = spot.expected_seconds;
    let high = if surely { spot.interval.map_or(f64::INFINITY, |interval| interval.high) } else { expected };
    (high <= most as f64).then(|| {
        let expected = text::rounded_duration(expected);
        let write = match checkpoint {
            Some(_) => "write `every=\"optimal\"` in `checkpoint`",
            None => "add `checkpoint s3=\"s3://…/{{ job.digest }}/checkpoints/\" every=\"optimal\"`, and \
                let the program resume from it",
        };
        format!("{write}: then {expected} is expected")
    })
}

/// Returns a sufficient limit in seconds and as text: in whole hours, below one hour in whole minutes.
fn sufficient_limit(high: f64) -> (u64, String) {
    let (unit, letter) = if high > 3_600.0 { (3_600, 'h') } else { (60, 'm') };
    let count = round_to_u64(high.ceil()).div_ceil(unit);
    (count.saturating_mul(unit), format!("{count}{letter}"))
}

/// Returns whether the service accepts such a limit and the budget, if any, pays for it.
fn is_limit_affordable(plan: &Plan, seconds: u64) -> bool {
    let budget = plan.job.budget.as_ref().and_then(|budget| budget.usd.val());
    let most = max_cost(plan, seconds as f64).most_usd();
    limits::get("job.max-runtime").is_none_or(|longest| seconds <= longest.value)
        && budget.zip(most).is_none_or(|(budget, most)| most <= budget.value)
}

/// Returns a run whose upper bound is within `limit` seconds; its start may take twice as long as predicted.
fn run_length_within(plan: &Plan, run: &Run, limit: f64) -> Option<String> {
    let start = 2.0 * run.parts.startup_seconds();
    let each = (run.interval.high - start) / plan.run.steps.as_ref()?.value as f64;
    format_run_length(plan, (limit - start) / each)
}
