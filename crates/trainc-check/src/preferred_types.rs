//! Plans of a job with its further preferred instance types.

use crate::compile::{WithoutGit, discard_speed_of_unknown_layout};
use crate::queries::memory::format_bytes;
use trainc_diag::source::{SourceMap, Span};
use trainc_diag::{Code, Diagnostic, Problems, Severity, declare_code, text};
use trainc_plan::resolve::{self, PreferredType};
use trainc_plan::{Compiled, Options, World, plan_and_predict};
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
    let variants = compiled.merged.as_deref().map(resolve::variants_with_preferred_types).unwrap_or_default();
    for PreferredType { instance, span, merged } in variants {
        let mut other =
            plan_and_predict(merged, Problems::default(), options, &mut WithoutGit(world), sources);
        if let Some(plan) = &other.plan {
            crate::check(plan, options, sources, &mut other.problems);
        }
        discard_speed_of_unknown_layout(&mut other);
        for one in other.problems.iter().filter(|one| one.severity != Severity::Note) {
            // The numbers of a message may differ where the problem is the same.
            let is_reported = compiled
                .problems
                .iter()
                .any(|reported| reported.code == one.code && reported.span == one.span);
            if !is_reported {
                let mut of_type =
                    Diagnostic::new(one.code, span, format!("with `{instance}`: {}", one.message))
                        .severity(one.severity);
                of_type.help.clone_from(&one.help);
                of_type.notes.clone_from(&one.notes);
                compiled.problems.push(of_type);
            }
        }
        compiled.problems.push(planned_type(&instance, span, &other.prediction));
    }
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
