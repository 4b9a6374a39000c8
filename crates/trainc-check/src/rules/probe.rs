//! `probe` and an enforced budget: both need a script that trainc starts before the program, and rates to
//! compare with.

use crate::Context;
use crate::queries::prediction::predicted_run;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Help, Problems, Severity};
use trainc_ir::{Budget, Plan};
use trainc_predict::speed;

declare_code!(T0570, "no-start-script", Error, "a job in which trainc cannot start its own script");
declare_code!(
    T0571,
    "budget-enforces-nothing",
    Error,
    "an enforced budget without a limit to enforce",
    explains: [Budget]
);
declare_code!(
    T0572,
    "no-planned-rate",
    Warning,
    "a rate that cannot be compared with the plan",
    explains: [Probe]
);
declare_code!(
    T0720,
    "slowest-within-interval",
    Warning,
    "a budget whose lowest rate the plan itself considers possible",
    explains: [Budget]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0570, &T0571, &T0572, &T0720];

/// The least value of `slowest`.
const LEAST: f64 = 0.01;

/// Checks that the probe and the budget can do what the manifest asks of them.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let probe = plan.job.probe.as_ref();
    let budget = plan.enforced_budget();
    if let Some(budget) = budget
        && budget.hard.get() != Some(true)
        && budget.slowest.is_absent()
        && !budget.hard.is_bad()
    {
        let span = budget.enforce.span().unwrap_or(budget.span);
        problems.push(
            Diagnostic::new(
                &T0571,
                span,
                "`enforce` has nothing to enforce: the budget is not hard, and `slowest` is not set",
            )
            .help("add `hard=#true` to stop a run that would exceed the budget, or `slowest=0.7` to \
                stop one that is too slow"),
        );
    }
    let subjects = [probe.map(|probe| (probe.span, "probe")), budget.map(|budget| (budget.span, "enforce"))];
    for (span, what) in subjects.into_iter().flatten() {
        if let Some(problem) = cannot_start(plan, span, what) {
            problems.push(problem);
        }
    }
    // Without a script of trainc's nothing is compared in the container.
    if reason_without_script(plan).is_some() || plan.mesh.is_none() {
        return;
    }
    let has_speed = plan.expectation.as_ref().is_some_and(|planned| planned.speed.is_some());
    if let Some(span) = probe.and_then(|probe| probe.minimum.span()).filter(|_| !has_speed) {
        problems.push(
            Diagnostic::new(
                &T0572,
                span,
                "`minimum` has no planned rate to compare with: the plan predicts no speed; \
                    nodes are still compared with each other",
            )
            .remove("minimum").or_else("state what the prediction lacks: `plan -v` names it"),
        );
    }
    if let Some(problem) = budget.and_then(|budget| slowest_within_interval(context, budget)) {
        problems.push(problem);
    }
}

/// Reports a lowest rate inside the plan's own interval: a run that is as slow as predicted would be too
/// slow.
fn slowest_within_interval(context: &Context, budget: &Budget) -> Option<Diagnostic> {
    let slowest = budget.slowest.val()?;
    let (layout, _) = predicted_run(context)?;
    let speed = speed::speed(&layout, context.constants).ok()?;
    // The lowest rate of the interval, a share of the predicted one.
    let lowest = speed.step_seconds / speed.interval.high;
    if !lowest.is_finite() || slowest.value <= lowest {
        return None;
    }
    let percent = |share: f64| text::short_number((100.0 * share).floor());
    let (what, then) = if speed.is_measured() {
        ("stop a run that is only as slow as predicted", "the interval comes from measured errors of this \
            setting, so the run is compared with the plan")
    } else {
        ("report a run that is only as slow as predicted", "no run of this setting was measured, so the run \
            is stopped by comparison with its own first steps, and only reported by comparison with the plan")
    };
    let diagnostic = Diagnostic::new(
        &T0720,
        slowest.span_or(budget.span),
        format!(
            "`slowest={}` may {what}: the plan's interval reaches down to {} % of its rate",
            text::short_number(slowest.value),
            percent(lowest),
        ),
    )
    .note(format!(
        "predicted: {} s a step, at most {} s",
        text::short_number(speed.step_seconds),
        text::short_number(speed.interval.high)
    ))
    .note(then);
    // Rounded down, so that it is outside of the interval.
    let outside = (lowest * 100.0).floor() / 100.0;
    Some(if outside >= LEAST { diagnostic.write(format!("slowest={outside}")) } else { diagnostic.remove("slowest") })
}

/// Reports a job whose containers start nothing of trainc's.
fn cannot_start(plan: &Plan, span: Span, what: &str) -> Option<Diagnostic> {
    let why = reason_without_script(plan)?;
    let (severity, help) = if what == "probe" {
        (Severity::Error, Help::remove("probe"))
    } else {
        (Severity::Warning, Help::from("follow the job with `trainc watch --enforce`, which stops it from \
            outside"))
    };
    Some(
        Diagnostic::new(&T0570, span, format!("`{what}` needs a script that trainc starts before the \
            program: {why}"))
            .severity(severity)
            .help(help)
            .note("trainc adds the script to the source archive; the container starts it, and it \
                starts the program"),
    )
}

/// Returns why trainc cannot start a script in the job's containers, or why the script could not measure
/// them.
fn reason_without_script(plan: &Plan) -> Option<&'static str> {
    if plan.job.serverless_member().is_some() {
        return Some("SageMaker provides the container of a serverless job");
    }
    // Another rule reports a missing program.
    let is_missing = !plan.is_worker() && plan.job.program.is_none();
    if is_missing || plan.payload.can_start_script() {
        return plan
            .machine
            .as_ref()
            .is_some_and(|machine| machine.ranks_per_gpu > 1)
            .then_some("it measures GPUs with PyTorch, and the instances have Neuron devices");
    }
    let program = plan.job.program.as_ref()?;
    Some(if plan.payload.has_other_hosts() {
        "the program also runs on instance groups without ranks"
    } else if !program.entrypoint.is_empty() {
        "the container starts `entrypoint`"
    } else if program.s3.value().is_some() {
        "the archive in `s3` is used as it is"
    } else {
        "the image starts its own program"
    })
}
