//! A manifest with errors, for who only looks at its job, stops it or takes it away: what was edited since it was started
//! must not keep it running.

use trainc_diag::source::{SourceMap, Span};
use trainc_diag::{Problems, Severity};
use trainc_ir::{Field, Plan};
use trainc_plan::Compiled;

/// The commands that go on where a manifest has errors: they need who and where the job is.
const COMMANDS: [&str; 5] = ["status", "watch", "logs", "stop", "destroy"];

/// What a command of this name needs, in words; none for commands that need a manifest without errors.
fn needs(command: &str) -> Option<&'static str> {
    COMMANDS.contains(&command).then_some(if command == "destroy" {
        "the job's name, region, account, role, storage and place of uploads"
    } else {
        "the job's name, region and account"
    })
}

/// Adds where something was written; none where it could not be read.
fn add<T>(out: &mut Vec<Span>, field: &Field<T>) -> Option<()> {
    out.extend(field.span());
    (!field.is_bad()).then_some(())
}

/// Where that stands which a command needs; none where some of it could not be read.
fn places(plan: &Plan, command: &str) -> Option<Vec<Span>> {
    let job = &plan.job;
    // In a layer or a block that could not be read another name or region may stand.
    if !job.is_whole || job.name.value().is_none() || job.region.value().is_none() {
        return None;
    }
    let mut out = Vec::new();
    add(&mut out, &job.name)?;
    add(&mut out, &job.region)?;
    add(&mut out, &job.account)?;
    if command == "destroy" {
        if let Some(role) = &job.role {
            add(&mut out, &role.arn)?;
            add(&mut out, &role.path)?;
        }
        if let Some(program) = &job.program {
            add(&mut out, &program.upload)?;
        }
        for one in &job.storage {
            add(&mut out, &one.kind)?;
            add(&mut out, &one.name)?;
            add(&mut out, &one.id)?;
            add(&mut out, &one.delete_after_job)?;
        }
    }
    Some(out)
}

/// The plan of a manifest with errors that a command can go on with: what the command needs was read, and no error is
/// about that.
pub(super) fn plan_with_errors<'a>(
    compiled: &'a Compiled,
    sources: &SourceMap,
    command: &str,
) -> Option<&'a Plan> {
    needs(command)?;
    let plan = compiled.plan.as_deref()?;
    let places = places(plan, command)?;
    let mut errors = compiled.problems.iter().filter(|one| one.severity == Severity::Error);
    // What was mistyped with the command itself is at hand to be typed again.
    let is_typed = |span: Span| sources.get(span.source).is_some_and(|source| source.name.starts_with("<-"));
    let is_sound =
        errors.all(|one| !is_typed(one.span) && !places.iter().any(|place| place.covers(one.span)));
    is_sound.then_some(plan)
}

/// The errors of such a manifest as notes, and what is said after them.
pub(super) fn errors_as_notes(compiled: &Compiled, command: &str) -> (Problems, String) {
    let mut out = Problems::default();
    for one in compiled.problems.iter().filter(|one| one.severity == Severity::Error) {
        out.push(one.clone().severity(Severity::Note));
    }
    let errors = match compiled.problems.errors() {
        1 => "an error".to_owned(),
        more => format!("{more} errors"),
    };
    let needs = needs(command).unwrap_or_default();
    let words = format!(
        "note: the manifest has {errors}, and `apply` refuses it; `{command}` goes on, for it needs {needs} alone\n"
    );
    (out, words)
}
