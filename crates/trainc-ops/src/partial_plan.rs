//! The plan of a manifest with errors, for commands that only observe, stop or delete its job: a later edit
//! must not block them.

use trainc_diag::source::{SourceMap, Span};
use trainc_diag::{Problems, Severity};
use trainc_ir::{Field, Plan};
use trainc_plan::Compiled;

/// Commands that accept a manifest with errors.
const COMMANDS: [&str; 5] = ["status", "watch", "logs", "stop", "destroy"];

/// Describes the values that a command requires; `None` for commands that require a manifest without errors.
fn describe_required_values(command: &str) -> Option<&'static str> {
    COMMANDS.contains(&command).then_some(if command == "destroy" {
        "name, region, account, role, storage and upload location of the job"
    } else {
        "name, region and account of the job"
    })
}

/// Adds the span of a field; `None` if it is invalid.
fn add_span<T>(out: &mut Vec<Span>, field: &Field<T>) -> Option<()> {
    out.extend(field.span());
    (!field.is_bad()).then_some(())
}

/// Returns the spans of the values that a command requires; `None` if one of them is invalid.
fn required_spans(plan: &Plan, command: &str) -> Option<Vec<Span>> {
    let job = &plan.job;
    // An unreadable layer or block may set another name or region.
    if !job.is_whole || job.name.value().is_none() || job.region.value().is_none() {
        return None;
    }
    let mut out = Vec::new();
    add_span(&mut out, &job.name)?;
    add_span(&mut out, &job.region)?;
    add_span(&mut out, &job.account)?;
    if command == "destroy" {
        if let Some(role) = &job.role {
            add_span(&mut out, &role.arn)?;
            add_span(&mut out, &role.path)?;
        }
        if let Some(program) = &job.program {
            add_span(&mut out, &program.upload)?;
        }
        for one in &job.storage {
            add_span(&mut out, &one.kind)?;
            add_span(&mut out, &one.name)?;
            add_span(&mut out, &one.id)?;
            add_span(&mut out, &one.delete_after_job)?;
        }
    }
    Some(out)
}

/// Returns the plan of a manifest with errors if no error concerns the values that the command requires.
pub fn plan_with_errors<'a>(compiled: &'a Compiled, sources: &SourceMap, command: &str) -> Option<&'a Plan> {
    describe_required_values(command)?;
    let plan = compiled.plan.as_deref()?;
    let places = required_spans(plan, command)?;
    let mut errors = compiled.problems.iter().filter(|one| one.severity == Severity::Error);
    // Errors in flags of this command are never ignored.
    let is_typed = |span: Span| sources.get(span.source).is_some_and(|source| source.name.starts_with("<-"));
    let is_sound =
        errors.all(|one| !is_typed(one.span) && !places.iter().any(|place| place.covers(one.span)));
    is_sound.then_some(plan)
}

/// Returns the errors of such a manifest as notes, and a summary.
pub fn errors_as_notes(compiled: &Compiled, command: &str) -> (Problems, String) {
    let mut out = Problems::default();
    for one in compiled.problems.iter().filter(|one| one.severity == Severity::Error) {
        out.push(one.clone().severity(Severity::Note));
    }
    let errors = match compiled.problems.errors() {
        1 => "an error".to_owned(),
        more => format!("{more} errors"),
    };
    let needs = describe_required_values(command).unwrap_or_default();
    let words = format!(
        "note: the manifest has {errors}; `apply` would fail, but `{command}` requires only {needs}\n"
    );
    (out, words)
}
