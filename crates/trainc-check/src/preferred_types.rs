//! Plans of a job on its further preferred instance types.

use crate::compile::{WithoutGit, discard_speed_of_unknown_layout};
use crate::queries::memory::format_bytes;
use trainc_diag::source::{SourceMap, Span};
use trainc_diag::{Code, Diagnostic, Problems, Severity, declare_code, text};
use trainc_ir::ExpectedType;
use trainc_plan::resolve::{self, PreferredType};
use trainc_plan::{Choice, Choices, Compiled, Options, World, plan_and_predict};
use trainc_predict::prediction::Prediction;

declare_code!(T0564, "preferred-type", Note, "memory, time and cost with a further preferred instance type");

/// The codes of this file.
pub(crate) static CODES: &[&Code] = &[&T0564];

/// Plans the job for each preferred type after the first, and reports what differs.
pub(crate) fn check(
    compiled: &mut Compiled,
    options: &Options,
    world: &mut dyn World,
    sources: &mut SourceMap,
) {
    let Some(first) = compiled.plan.as_deref().filter(|plan| plan.job.is_instance_preferred()) else {
        return;
    };
    let of_first = first.job.cluster.as_ref().and_then(|cluster| cluster.instance.span());
    compiled.problems.sort();
    let mut choices = Choices { problems_of_first: compiled.problems.clone(), further: Vec::new() };
    let types = compiled.merged.as_deref().map(resolve::variants_with_preferred_types).unwrap_or_default();
    for PreferredType { instance, span, merged } in types {
        let mut other =
            plan_and_predict(merged, Problems::default(), options, &mut WithoutGit(world), sources);
        let Some(plan) = other.plan.take() else { continue };
        crate::check(&plan, options, sources, &mut other.problems);
        other.plan = Some(plan);
        discard_speed_of_unknown_layout(&mut other);
        other.problems.sort();
        for one in other.problems.iter().filter(|one| one.severity != Severity::Note) {
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
        choices.further.push(Choice { instance, plan, prediction, problems });
    }
    if let Some(expectation) = compiled.plan.as_mut().and_then(|plan| plan.expectation.as_mut()) {
        expectation.further_types = choices.further.iter().map(expected_type).collect();
    }
    compiled.choices = Some(Box::new(choices));
}

/// Returns the figures by which a run on a preferred type is judged in its containers.
fn expected_type(choice: &Choice) -> ExpectedType {
    let expectation = choice.plan.expectation.as_deref();
    ExpectedType {
        instance: choice.instance.clone(),
        step_seconds: expectation.and_then(|one| one.speed.as_ref()).map(|speed| speed.step_seconds),
        usd_per_hour: expectation.and_then(|one| one.usd_per_hour),
    }
}

/// Returns a problem of the plan for a preferred type, at that type.
fn with_type(one: &Diagnostic, instance: &str, span: Span) -> Diagnostic {
    let message = format!("with `{instance}`: {}", one.message);
    let mut out = Diagnostic::new(one.code, span, message).severity(one.severity);
    out.help.clone_from(&one.help);
    out.notes.clone_from(&one.notes);
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
        parts.extend(run.cost_usd.map(text::dollars));
    }
    let message = if parts.is_empty() {
        format!("with `{instance}`: memory and time are unknown")
    } else {
        format!("with `{instance}`: {}", parts.join(", "))
    };
    Diagnostic::new(&T0564, span, message).note(
        "the plan is for the first type of `InstancePreferences`; SageMaker uses the first with capacity",
    )
}
