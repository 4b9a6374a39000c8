//! Problems for tools: the document of `check -o json`, described by `schemas/diagnostic.v1.json`.
//!
//! The form only grows: members are added, never renamed or removed, and readers ignore what they do not
//! know. Unlike in the formats for people, a problem of a shared layer stands under every manifest that has it.

use super::place::{self, Columns};
use super::{Diagnostic, ManifestReport, Run, Severity};
use crate::source::{SourceMap, Span};
use serde::Serialize;
use std::collections::BTreeMap;

/// The version that the documents of this release carry.
pub const FORMAT_VERSION: &str = "1.0";

/// The JSON Schema of [`Document`], for `trainc schema diagnostic`.
pub const SCHEMA: &str = include_str!("../schemas/diagnostic.v1.json");

/// What `check -o json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Document {
    /// Major and minor number; only a new major number takes something away.
    pub format_version: &'static str,
    /// Every manifest that was checked, also those without problems.
    pub manifests: Vec<Manifest>,
    /// The sums over all manifests.
    pub summary: Summary,
}

/// One manifest and its problems.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Manifest {
    /// The path as the user gave it.
    pub path: String,
    /// The job's name, null if it could not be read.
    pub job: Option<String>,
    /// Its problems in order of place.
    pub problems: Vec<Problem>,
}

/// How many problems the manifests have, a shared one as often as it stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Errors.
    pub errors: usize,
    /// Warnings.
    pub warnings: usize,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// `T` and four digits.
    pub code: &'static str,
    /// The code's kebab-case alias.
    pub name: &'static str,
    /// `error`, `warning` or `note`.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// The place of blame.
    #[serde(flatten)]
    pub place: Place,
    /// What stands at the place of blame, null if the message says it all.
    pub label: Option<String>,
    /// Further places.
    pub labels: Vec<Label>,
    /// What to type, null if there is no sure advice.
    pub help: Option<String>,
    /// Why, or where a number comes from.
    pub notes: Vec<String>,
    /// Names to values, by code.
    pub facts: BTreeMap<&'static str, serde_json::Value>,
    /// An edit that mends it; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<Edit>,
}

/// A place in a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The path as the user gave it, or `<stdin>`, or `<--set cluster.nodes=4>`.
    pub file: String,
    /// First byte.
    pub start: usize,
    /// One past the last byte; equal to `start` for a place between two bytes.
    pub end: usize,
    /// Line of the first byte, from 1.
    pub line: u32,
    /// Column of the first byte, from 1, in characters.
    pub column: u32,
}

/// A further place that belongs to a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Label {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// What is there.
    pub text: String,
}

/// A replacement of bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The file to change.
    pub file: String,
    /// First byte to replace.
    pub start: usize,
    /// One past the last byte to replace; equal to `start` to insert.
    pub end: usize,
    /// The new text.
    pub text: String,
}

/// The document of a run, as text.
pub fn run(run: &Run<'_>) -> String {
    text(&document(run))
}

/// The document of a run.
pub fn document(run: &Run<'_>) -> Document {
    let sum = |count: fn(&ManifestReport<'_>) -> usize| run.manifests.iter().map(count).sum();
    Document {
        format_version: FORMAT_VERSION,
        manifests: run
            .manifests
            .iter()
            .map(|manifest| Manifest {
                path: manifest.path.to_owned(),
                job: manifest.job.map(str::to_owned),
                problems: manifest.problems.iter().map(|one| problem(run.sources, one)).collect(),
            })
            .collect(),
        summary: Summary {
            errors: sum(|manifest| manifest.problems.errors()),
            warnings: sum(|manifest| manifest.problems.warnings()),
        },
    }
}

/// One problem in its stable form, here and in `plan.json`.
pub fn problem(sources: &SourceMap, problem: &Diagnostic) -> Problem {
    Problem {
        code: problem.code.id,
        name: problem.code.name,
        severity: problem.severity,
        message: problem.message.clone(),
        place: place(sources, problem.span),
        label: (!problem.label.is_empty()).then(|| problem.label.clone()),
        labels: problem
            .labels
            .iter()
            .map(|label| Label { place: place(sources, label.span), text: label.text.clone() })
            .collect(),
        help: problem.help.as_ref().map(ToString::to_string),
        notes: problem.notes.clone(),
        facts: problem.facts.clone(),
        fix: problem.fix.as_ref().map(|fix| {
            let Place { file, start, end, .. } = place(sources, fix.span);
            Edit { file, start, end, text: fix.text.clone() }
        }),
    }
}

fn place(sources: &SourceMap, span: Span) -> Place {
    let Some(source) = sources.get(span.source) else {
        return Place { file: String::new(), start: 0, end: 0, line: 1, column: 1 };
    };
    let range = place::range(source, span);
    let at = place::position(source, range.start, Columns::Characters);
    Place {
        file: source.name.to_string(),
        start: range.start,
        end: range.end,
        line: at.line,
        column: at.column,
    }
}

/// Indented JSON with a line end.
pub(super) fn text(value: &impl Serialize) -> String {
    match serde_json::to_string_pretty(value) {
        Ok(text) => text + "\n",
        Err(error) => unreachable!("our types have only text as keys: {error}"),
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
