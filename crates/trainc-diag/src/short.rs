//! One line per problem, for editors and pipes: `path:line:col: error[T0301]: message (help: …)`.

use super::position::{self, Columns};
use super::{Diagnostic, Run, Severity};
use crate::source::SourceMap;
use std::fmt::Write as _;

/// Renders each problem of a run once, on one line. Empty if there are none.
pub fn render(run: &Run<'_>) -> String {
    let mut out = String::new();
    for one in run.problems() {
        out.push_str(&problem(run.sources, &one.problem, one.also_in_note().as_deref()));
        out.push('\n');
    }
    out
}

/// Renders one problem on one line, without a line end.
pub fn problem(sources: &SourceMap, problem: &Diagnostic, also: Option<&str>) -> String {
    let severity: Severity = problem.severity;
    let place = sources.get(problem.span.source).map_or_else(String::new, |source| {
        let at = position::position(source, problem.span.start as usize, Columns::Characters);
        format!("{}:{}:{}: ", source.name, at.line, at.column)
    });
    let mut out = format!("{place}{}[{}]: {}", severity.word(), problem.code.id, problem.text());
    if let Some(help) = &problem.help {
        let _ = write!(out, " (help: {help})");
    }
    if let Some(also) = also {
        let _ = write!(out, " ({also})");
    }
    join_lines(&out)
}

/// Replaces line ends and the spaces around them with one space.
pub(super) fn join_lines(text: &str) -> String {
    let safe = super::escape::escape_control_characters(text);
    safe.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn one_line_each() {
        let lines = samples::two_manifests_with_problems().run(super::render);
        insta::assert_snapshot!(lines);
    }

    #[test]
    fn line_ends_do_not_break_the_line() {
        assert_eq!(join_lines("write:\r\n  mesh {\n  }\n"), "write: mesh { }");
    }
}
