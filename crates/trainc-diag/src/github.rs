//! Renders problems as workflow commands of GitHub Actions, which shows them next to the changed lines.
//!
//! The runner keeps ten annotations of each kind per step and silently drops the rest
//! (`_maxCountPerIssueType` in actions/runner, src/Runner.Worker/ExecutionContext.cs). The rest is therefore
//! written to the log as plain lines, and a notice, for which a slot is reserved, states the number.

use super::escape::{escape_control_characters, escape_output};
use super::position::{self, Columns, Paths};
use super::{ReportedProblem, Run, Severity, short};
use crate::source::{SourceMap, is_file};
use crate::text;
use std::fmt::Write as _;

/// The annotations of one kind that the runner keeps per step.
const MAX_ANNOTATIONS: usize = 10;
/// The same, without the notice about the rest.
const MAX_NOTICES: usize = MAX_ANNOTATIONS - 1;

/// Renders each problem of a run once, errors first. Empty if there are none.
pub fn render(run: &Run<'_>, paths: Paths<'_>) -> String {
    let shown = super::run::worst_first(run.problems());
    // Problems outside of any file (standard input, `--set`) are located in the manifest.
    let fallback = run.manifests.first().map_or("", |manifest| manifest.path);
    let mut out = String::new();
    let mut notices = Vec::new();
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let of: Vec<_> = shown.iter().filter(|one| one.problem.severity == severity).collect();
        let most = if severity == Severity::Note { MAX_NOTICES } else { MAX_ANNOTATIONS };
        let (sent, rest) = of.split_at_checked(most).unwrap_or((&of, &[]));
        for one in sent {
            out.push_str(&workflow_command(run.sources, one, fallback, paths));
        }
        if !rest.is_empty() {
            let _ = writeln!(out, "::group::further {}s", severity.word());
            for one in rest {
                // A command may be preceded by spaces, so the line must not start with colons.
                let line = short::problem(run.sources, &one.problem, one.also_in_note().as_deref());
                let _ = writeln!(out, "- {}", escape_output(&line, false));
            }
            out.push_str("::endgroup::\n");
            notices.push(text::count(rest.len() as u64, &format!("more {}", severity.word())));
        }
    }
    if !notices.is_empty() {
        let notices = text::list(&notices, "and");
        let _ = writeln!(out, "::notice title=trainc::… and {notices}; the log of this step lists them");
    }
    out
}

fn workflow_command(
    sources: &SourceMap,
    one: &ReportedProblem<'_>,
    fallback: &str,
    paths: Paths<'_>,
) -> String {
    let problem = &one.problem;
    let word = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let name = position::source_name(sources, problem.span);
    let mut properties = Vec::new();
    let file = if is_file(name) { name } else { fallback };
    if is_file(file) {
        properties.push(format!("file={}", escape_property(&paths.relative(file))));
    }
    if is_file(name)
        && let Some(source) = sources.get(problem.span.source)
    {
        let (start, end) = position::start_and_end(source, problem.span, Columns::Characters);
        properties.push(format!("line={},endLine={}", start.line, end.line));
        // Columns that span several lines are rejected.
        if start.line == end.line && !position::is_whole_file(problem.span) {
            properties.push(format!("col={},endColumn={}", start.column, end.column.max(start.column + 1)));
        }
    }
    properties
        .push(format!("title={}", escape_property(&format!("{} {}", problem.code.id, problem.code.name))));
    format!("::{word} {}::{}\n", properties.join(","), escape_message(&one.plain_text(sources)))
}

/// Escapes characters that would end a command.
fn escape_message(text: &str) -> String {
    escape_control_characters(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes characters that would end a property.
fn escape_property(text: &str) -> String {
    escape_message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::super::Diagnostic;
    use super::super::samples::{self, QUOTA, Sample, UNUSED, WORLD};
    use super::*;
    use crate::source::Span;

    #[test]
    fn a_run_as_commands() {
        let paths = Paths { current: "/repo/train", root: "/repo" };
        insta::assert_snapshot!(samples::two_manifests_with_problems().run(|run| super::render(run, paths)));
    }

    #[test]
    fn no_text_ends_the_command() {
        let mut sample = Sample::default();
        let id = sample.sources.add("a,b:50%.kdl", "x\ny\n");
        let set = sample.sources.add("<--set x=1>", "x=1");
        sample.manifest(
            "a,b:50%.kdl",
            vec![
                Diagnostic::new(&WORLD, Span::new(id, 0, 3), "50% of\r\n::error::y, `a:b`").help("a\nb"),
                Diagnostic::new(&WORLD, Span::new(set, 2, 3), "one"),
                Diagnostic::new(&WORLD, Span::whole(id), "whole"),
            ],
        );
        insta::assert_snapshot!(sample.run(|run| super::render(run, Paths::default())));
    }

    #[test]
    fn problems_past_the_limit_are_announced() {
        let mut sample = Sample::default();
        let id = sample.sources.add("a.kdl", "x".repeat(40));
        let many = |code, n| {
            (0..n).map(move |at| Diagnostic::new(code, Span::new(id, at, at + 1), format!("no {at}")))
        };
        let notes = many(&QUOTA, 10);
        sample.manifest("a.kdl", many(&UNUSED, 11).chain(notes).chain(many(&WORLD, 13)).collect());
        let out = sample.run(|run| super::render(run, Paths::default()));
        let count = |start: &str| out.lines().filter(|line| line.starts_with(start)).count();
        let counts = (count("::error "), count("::warning "), count("::notice "));
        assert_eq!(counts, (10, 10, 10));
        assert_eq!(count("- a.kdl"), 5);
        let last = "… and 3 more errors, 1 more warning and 1 more note; the log of this step lists them";
        assert!(out.ends_with(&format!("::notice title=trainc::{last}\n")));
        assert!(out.find("::error").unwrap() < out.find("::warning").unwrap());
    }
}
