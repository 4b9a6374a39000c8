//! Measurements with impossible values: rows of a table, lines of a log.

use crate::args::{Global, problems};
use crate::terminal::io::Io;
use std::path::PathBuf;
use trainc_calibrate::measure::Fault;
use trainc_calibrate::{self as calibrate, impossible_line};
use trainc_diag::json::problem;
use trainc_diag::source::{SourceMap, Span};
use trainc_diag::{Diagnostic, Format, Problems};
use trainc_plan::Compiled;
use trainc_project::manifests::{Manifest, Set};

/// Number of them that are shown in full.
const SHOWN: usize = 20;

/// Problems of invalid rows, each at its line of a table or log.
pub(crate) struct InvalidRows {
    sources: SourceMap,
    problems: Problems,
    path: String,
    /// `row` or `line`.
    noun: &'static str,
}

impl InvalidRows {
    /// Collects the invalid rows of a table.
    pub(crate) fn from_table(table: &calibrate::Table, path: &str, text: &str) -> Self {
        let (mut sources, mut problems) = (SourceMap::default(), Problems::default());
        let path = if path == "-" { "<stdin>" } else { path };
        if !table.impossible.is_empty() {
            let source = sources.add(path, text);
            table.impossible.iter().for_each(|one| problems.push(one.diagnostic(source)));
        }
        Self { sources, problems, path: path.to_owned(), noun: "row" }
    }

    /// Collects the invalid lines of logs.
    pub(crate) fn from_logs(faults: &[Fault], names: &[String]) -> Self {
        let (mut sources, mut problems) = (SourceMap::default(), Problems::default());
        for (log, name) in names.iter().enumerate() {
            // Only the reported lines of a log are kept, at their line numbers.
            let mut text = String::new();
            let mut line = 1;
            let mut found: Vec<(&Fault, usize)> = Vec::new();
            let mut of_log: Vec<&Fault> = faults.iter().filter(|fault| fault.log == log).collect();
            of_log.sort_by_key(|fault| fault.line);
            for fault in of_log {
                let same = found.last().filter(|(last, _)| last.line == fault.line).map(|(_, start)| *start);
                let start = same.unwrap_or_else(|| {
                    text.push_str(&"\n".repeat(fault.line.saturating_sub(line)));
                    line = fault.line;
                    let start = text.len();
                    text.push_str(&fault.text);
                    start
                });
                found.push((fault, start));
            }
            if found.is_empty() {
                continue;
            }
            let source = sources.add(name.as_str(), text.as_str());
            for (fault, start) in found {
                let at = fault.text.find(&fault.cell).filter(|_| !fault.cell.is_empty());
                let (from, to) = at.map_or((0, fault.text.len()), |at| (at, at + fault.cell.len()));
                let span = Span::new(source, start + from, start + to);
                problems.push(impossible_line(span, fault.message.clone(), fault.note, fault.lines));
            }
        }
        let path = names.first().cloned().unwrap_or_default();
        Self { sources, problems, path, noun: "line" }
    }

    /// Formats the first of them, and the number of the others.
    pub(crate) fn format_first(&self, io: &Io, global: &Global) -> String {
        if self.problems.is_empty() {
            return String::new();
        }
        let mut first = Problems::default();
        self.problems.iter().take(SHOWN).for_each(|one| first.push(one.clone()));
        let compiled = Compiled::unreadable_file(first);
        let set = Set {
            sources: self.sources.clone(),
            manifests: vec![Manifest::new(&self.path, String::new(), compiled)],
            skipped: Vec::new(),
            many: false,
            root: PathBuf::new(),
            constants: None,
        };
        let mut out = problems(&set, Format::Human, io, io.color, global);
        let more = self.problems.iter().count().saturating_sub(SHOWN);
        if more > 0 && !global.quiet {
            let more = trainc_diag::text::count(more as u64, self.noun);
            out.push_str(&format!("{}: {more} more with impossible values are skipped\n", self.path));
        }
        out
    }

    /// Formats each on one line, with place and code.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |one: &Diagnostic| {
            let source = self.sources.get(one.span.source);
            let at = source.map_or_else(
                || self.path.clone(),
                |source| format!("{}:{}", source.name, source.line_column(one.span.start).0),
            );
            format!("{at}: {} ({})", one.message, one.code.id)
        };
        self.problems.iter().map(line).collect()
    }

    /// Returns them in the form of `check -o json`.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let all: Vec<_> = self.problems.iter().map(|one| problem(&self.sources, one)).collect();
        serde_json::to_value(all).unwrap_or_default()
    }
}
