//! Problems that are left out because another problem covers them.

use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems, Scope, Severity};

/// Removes the problems that others supersede.
pub(super) fn remove(problems: &mut Problems) {
    let superseding: Vec<(&Code, Span, Severity)> = problems
        .iter()
        .filter(|problem| !problem.code.supersedes.is_empty())
        .map(|problem| (problem.code, subject_span(problem), problem.severity))
        .collect();
    problems.retain(|problem| {
        !superseding.iter().any(|(code, span, severity)| {
            // Nothing less than an error takes the place of an error.
            let outweighs = problem.severity != Severity::Error || *severity == Severity::Error;
            let scope = if *span == subject_span(problem) { Scope::Value } else { Scope::Job };
            outweighs && code.covers(problem.code, scope)
        })
    });
}

/// Returns the place of the value that a problem is about.
fn subject_span(problem: &Diagnostic) -> Span {
    problem.subject.unwrap_or(problem.span)
}

/// Returns whether an error may keep a warning from being reported.
pub(super) fn may_hide(error: &Code, warning: &Code) -> bool {
    error.ends.is_some() || error.covers(warning, Scope::Value)
}
