//! `probe` and an enforced budget: both need a script that trainc starts before the program.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Help, Problems, Severity};
use trainc_emit as emit;
use trainc_ir::Plan;

declare_code!(T0570, "no-start-script", Error, "a job in which trainc cannot start its own script");
declare_code!(T0571, "budget-enforces-nothing", Error, "an enforced budget without a limit to enforce");
declare_code!(T0572, "no-planned-rate", Warning, "a rate that cannot be compared with the plan");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0570, &T0571, &T0572];

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
            .help("add `hard=#true` to stop a run that would exceed the budget, or `slowest=0.7` to stop one that is too slow"),
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
    let compared = [
        probe.and_then(|probe| Some(("minimum", probe.minimum.span()?))),
        budget.and_then(|budget| Some(("slowest", budget.slowest.span()?))),
    ];
    for (name, span) in compared.into_iter().flatten().filter(|_| !has_speed) {
        let also = if name == "minimum" { "; nodes are still compared with each other" } else { "" };
        problems.push(
            Diagnostic::new(
                &T0572,
                span,
                format!("`{name}` has no planned rate to compare with: the plan predicts no speed{also}"),
            )
            .remove(name).or_else("state what the prediction lacks: `plan -v` names it"),
        );
    }
}

/// Reports a job whose containers start nothing of trainc's.
fn cannot_start(plan: &Plan, span: Span, what: &str) -> Option<Diagnostic> {
    let why = reason_without_script(plan)?;
    let (severity, help) = if what == "probe" {
        (Severity::Error, Help::remove("probe"))
    } else {
        (Severity::Warning, Help::from("follow the job with `trainc watch --enforce`, which stops it from outside"))
    };
    Some(
        Diagnostic::new(&T0570, span, format!("`{what}` needs a script that trainc starts before the program: {why}"))
            .severity(severity)
            .help(help)
            .note("trainc adds the script to the source archive; the container starts it, and it starts the program"),
    )
}

/// Returns why trainc cannot start a script in the job's containers, or why the script could not measure them.
fn reason_without_script(plan: &Plan) -> Option<&'static str> {
    if plan.job.serverless_member().is_some() {
        return Some("SageMaker provides the container of a serverless job");
    }
    // Another rule reports a missing program.
    let is_missing = !plan.is_worker() && plan.job.program.is_none();
    if is_missing || emit::can_start(plan) {
        return plan
            .machine
            .as_ref()
            .is_some_and(|machine| machine.ranks_per_gpu > 1)
            .then_some("it measures GPUs with PyTorch, and the instances have Neuron devices");
    }
    let program = plan.job.program.as_ref()?;
    Some(if emit::has_other_hosts(plan) {
        "the program also runs on instance groups without ranks"
    } else if !program.entrypoint.is_empty() {
        "the container starts `entrypoint`"
    } else if program.s3.value().is_some() {
        "the archive in `s3` is used as it is"
    } else {
        "the image starts its own program"
    })
}
