//! Plans of a job on its further preferred instance types.

use crate::queries::memory::format_bytes;
use crate::queries::prices::describe_cost;
use serde_json::Value;
use std::collections::BTreeSet;
use trainc_diag::source::{Span, Spanned};
use trainc_diag::{Code, Diagnostic, Severity, declare_code, text};
use trainc_ir::{ExpectedType, Launcher, Plan};
use trainc_plan::resolve::Merged;
use trainc_plan::{Choice, Choices, Compiled};
use trainc_predict::prediction::Prediction;

declare_code!(T0564, "preferred-type", Note, "memory, time and cost with a further preferred instance type");

declare_code!(
    T0710,
    "request-of-another-type",
    Warning,
    "a preferred instance type that needs another request than the first"
);

/// The codes of this file.
pub(crate) static CODES: &[&Code] = &[&T0564, &T0710];

/// Compiles the job for each preferred type after the first, and reports what differs.
pub(crate) fn check(
    compiled: &mut Compiled,
    types: Vec<(Spanned<String>, Merged)>,
    compile: &mut dyn FnMut(Merged) -> Compiled,
) {
    let Some(first) = compiled.plan.as_deref().filter(|plan| plan.job.is_instance_preferred()) else {
        return;
    };
    let of_first = first.job.cluster.as_ref().and_then(|cluster| cluster.instance.span());
    compiled.problems.sort();
    let mut choices = Choices { problems_of_first: compiled.problems.clone(), further: Vec::new() };
    for (Spanned { value: instance, span }, merged) in types {
        let other = compile(merged);
        if other.plan.is_none() {
            continue;
        }
        for one in other.problems.iter().filter(|one| one.severity != Severity::Note || one.is_allowed()) {
            // A problem at the type is at the other type of the first plan.
            let is_same = |reported: &Diagnostic| {
                one.is_same_problem(reported)
                    || one.span == span && Some(reported.span) == of_first && one.has_same_words(reported)
            };
            if !compiled.problems.iter().any(is_same) {
                compiled.problems.push(with_type(one, &instance, span));
            }
        }
        compiled.problems.push(planned_type(&instance, span, &other.prediction));
        let Compiled { plan: Some(plan), prediction, problems, .. } = other else { continue };
        if let Some(first) = compiled.plan.as_deref()
            && choices.problems_of_first.errors() + problems.errors() == 0
        {
            compiled.problems.extend_with(other_request(first, &plan, (&instance, span)));
        }
        choices.further.push(Choice { instance, plan, prediction, problems });
    }
    if let Some(expectation) = compiled.plan.as_mut().and_then(|plan| plan.expectation.as_mut()) {
        expectation.further_types = choices.further.iter().map(expected_type).collect();
    }
    compiled.choices = Some(Box::new(choices));
}

/// Reports a type that would need another request than the first: there is only one, whichever type SageMaker
/// uses.
fn other_request(first: &Plan, other: &Plan, (instance, span): (&str, Span)) -> Option<Diagnostic> {
    let identity = trainc_emit::identity(first);
    let [of_first, of_other] = [first, other].map(|plan| trainc_emit::training_job_request(plan, &identity));
    let own = first.job.cluster.as_ref()?.instance.value()?;
    let image = "/AlgorithmSpecification/TrainingImage";
    if of_first.pointer(image) != of_other.pointer(image) {
        let shown =
            |request: &Value| request.pointer(image).and_then(Value::as_str).unwrap_or("?").to_owned();
        return Some(
            Diagnostic::new(
                &T0710,
                span,
                format!("the container of the request does not run on `{instance}`"),
            )
            .severity(Severity::Error)
            .help("list types with the same kind of chip")
            .note(format!(
                "`{own}` uses `{}`, `{instance}` needs `{}`",
                shown(&of_first),
                shown(&of_other)
            )),
        );
    }
    let mut differences = Vec::new();
    for member in ["HyperParameters", "Environment"] {
        let values =
            |request: &Value| request.get(member).and_then(Value::as_object).cloned().unwrap_or_default();
        let (before, after) = (values(&of_first), values(&of_other));
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names.into_iter().filter(|name| reaches_program(first, name)) {
            if before.get(name) != after.get(name) {
                let shown = |value: Option<&Value>| {
                    value
                        .and_then(Value::as_str)
                        .map_or_else(|| "nothing".to_owned(), |text| format!("`{text}`"))
                };
                let (is, needs) = (shown(before.get(name)), shown(after.get(name)));
                differences.push(format!("`{member}.{name}` is {is}; `{instance}` needs {needs}"));
            }
        }
    }
    let message = format!("on `{instance}` the job gets the values for `{own}`, which differ");
    let diagnostic = Diagnostic::new(&T0710, span, message)
        .help(format!("list types with as many accelerators as `{own}`"));
    (!differences.is_empty()).then(|| differences.into_iter().fold(diagnostic, Diagnostic::note))
}

/// Returns whether the program or its launcher reads a hyperparameter or variable. Planned figures are not
/// the job's, and only the launchers of `smdistributed` choose their network by the instance type.
fn reaches_program(plan: &Plan, name: &str) -> bool {
    let by_type = matches!(plan.launch.launcher, Launcher::Smddp | Launcher::SmpV1 | Launcher::SmpV2);
    !name.starts_with(trainc_emit::PLAN_VARIABLE) && (name != "sagemaker_instance_type" || by_type)
}

/// Returns the figures by which a run on a preferred type is judged in its containers.
fn expected_type(choice: &Choice) -> ExpectedType {
    let expectation = choice.plan.expectation.as_deref();
    let speed = expectation.and_then(|one| one.speed.as_ref());
    ExpectedType {
        instance: choice.instance.clone(),
        step_seconds: speed.map(|speed| speed.step_seconds),
        is_measured: speed.is_some_and(|speed| speed.is_measured),
        usd_per_hour: expectation.and_then(|one| one.usd_per_hour),
    }
}

/// Returns a problem of the plan for a preferred type, at that type.
fn with_type(one: &Diagnostic, instance: &str, span: Span) -> Diagnostic {
    let mut out = Diagnostic::new(one.code, span, one.message.clone())
        .severity(one.severity)
        .with_instance_type(instance);
    out.help.clone_from(&one.help);
    out.undated.clone_from(&one.undated);
    out.notes.clone_from(&one.notes);
    out.detail.clone_from(&one.detail);
    out.facts.clone_from(&one.facts);
    out
}

/// Returns the note on the plan for a preferred type after the first.
fn planned_type(instance: &str, span: Span, prediction: &Prediction) -> Diagnostic {
    let mut parts = Vec::new();
    if let Some(memory) = &prediction.memory {
        let used = format_bytes(memory.per_gpu_bytes);
        parts.push(match memory.capacity_bytes {
            Some(capacity) => format!("{used} of {} on each GPU", format_bytes(capacity)),
            None => format!("{used} on each GPU"),
        });
    }
    if let Some(run) = &prediction.run {
        let ends = [run.interval.low, run.interval.high].map(text::rounded_duration);
        parts.push(format!(
            "the run {}, between {} and {}",
            text::rounded_duration(run.seconds),
            ends[0],
            ends[1]
        ));
        parts.extend(run.cost_usd.map(|usd| describe_cost(run, usd)));
    }
    let message = if parts.is_empty() { "memory and time are unknown".to_owned() } else { parts.join(", ") };
    Diagnostic::new(&T0564, span, message).with_instance_type(instance).note(
        "the plan is for the first type of `InstancePreferences`; SageMaker uses the first with capacity",
    )
}
