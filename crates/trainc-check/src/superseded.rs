//! Problems that are left out because another problem covers them.

use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems, Severity};

/// The places at which a code supersedes others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The whole job.
    Job,
    /// The same value.
    Value,
}

/// Codes that each supersede others: `(superseding, scope, superseded)`.
const TABLE: &[(&str, Scope, &[&str])] = &[
    // An instance type that the catalogue lacks is in no list of the service either.
    ("T0320", Scope::Value, &["T0445"]),
    // A value that must leave the manifest need not be an option of the script.
    ("T0252", Scope::Value, &["T0260"]),
    // The layout of an engine that Trainium does not run.
    ("T0354", Scope::Job, &["T0357", "T0385", "T0386", "T0387", "T0388", "T0389", "T0390", "T0396"]),
    // The network of an instance type that the engine does not run on.
    ("T0356", Scope::Job, &["T0397", "T0398"]),
    ("T0366", Scope::Job, &["T0397", "T0398"]),
    // The parameters of a library that the image lacks.
    ("T0376", Scope::Job, &["T0347", "T0367", "T0368", "T0369", "T0370", "T0371", "T0372", "T0374"]),
    // A group that shares a node with another is worse than one that is not a power of two.
    ("T0388", Scope::Value, &["T0386"]),
    // The container overwrites the variable, so that its value has no effect.
    ("T0411", Scope::Value, &["T0584", "T0585"]),
    // The name is not meant to be valid.
    ("T0760", Scope::Value, &["T0254", "T0437", "T0439", "T0440"]),
    // A launcher for several hosts also starts a process for each GPU.
    ("T0361", Scope::Value, &["T0360"]),
    // The option cannot run at all.
    ("T0599", Scope::Value, &["T0584"]),
    ("T0591", Scope::Value, &["T0584", "T0599"]),
    // A digest written with one brace.
    ("T0448", Scope::Value, &["T0590"]),
    // Several jobs write to the prefix, not only several versions of one.
    ("T0467", Scope::Value, &["T0448"]),
    // Git cannot fetch an invalid reference.
    ("T0516", Scope::Job, &["T0503"]),
];

/// Removes the problems that others supersede.
pub(super) fn remove(problems: &mut Problems) {
    let superseding: Vec<(&str, Span, Severity)> = problems
        .iter()
        .filter(|problem| TABLE.iter().any(|(code, ..)| *code == problem.code.id))
        .map(|problem| (problem.code.id, subject_span(problem), problem.severity))
        .collect();
    if superseding.is_empty() {
        return;
    }
    let is_superseded = |problem: &Diagnostic| {
        superseding.iter().any(|(code, span, severity)| {
            // Nothing less than an error takes the place of an error.
            let outweighs = problem.severity != Severity::Error || *severity == Severity::Error;
            TABLE.iter().any(|(by, scope, codes)| {
                by == code
                    && outweighs
                    && codes.contains(&problem.code.id)
                    && (*scope == Scope::Job || *span == subject_span(problem))
            })
        })
    };
    problems.retain(|problem| !is_superseded(problem));
}

/// Returns the place of the value that a problem is about.
fn subject_span(problem: &Diagnostic) -> Span {
    problem.subject.unwrap_or(problem.span)
}

/// Returns whether an error may keep a warning from being reported.
pub(super) fn may_hide(error: &Code, warning: &Code) -> bool {
    error.ends.is_some() || TABLE.iter().any(|(by, _, codes)| *by == error.id && codes.contains(&warning.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_exists() {
        let known: Vec<&str> = crate::codes_of_compile().iter().map(|code| code.id).collect();
        for (by, _, codes) in TABLE {
            for code in codes.iter().chain([by]) {
                assert!(known.contains(code), "{code}");
            }
        }
    }
}
