//! Renders problems as JSON: the document of `check -o json`, described by `schemas/diagnostic.v1.json`.
//!
//! The format is only extended: members are added, never renamed or removed, and readers ignore unknown
//! members. Unlike in the formats for people, a problem of a shared layer appears in every manifest that has
//! it.

use super::position::{self, Columns};
use super::{Diagnostic, ManifestReport, Run, Severity};
use crate::source::{SourceMap, Span};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The format version of the documents.
pub const FORMAT_VERSION: &str = "1.0";

/// The JSON Schema of [`Document`], for `trainc schema diagnostic`.
pub const SCHEMA: &str = include_str!("../schemas/diagnostic.v1.json");

/// The output of `trainc check -o json`. Members are only added: readers must ignore unknown members, and
/// only a new major number of `format_version` removes members. `$defs/problem` is also an item of `problems`
/// in plan.json.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "trainc diagnostics, version 1")]
pub struct Document {
    /// Major and minor version of this format.
    #[schemars(regex(pattern = r"^1\.[0-9]+$"))]
    pub format_version: &'static str,
    /// Every checked manifest, including those without problems, in the order of the check.
    pub manifests: Vec<Manifest>,
    /// Totals of all manifests; a problem of a shared layer counts once for each manifest that has it.
    pub summary: Summary,
}

/// One manifest and its problems.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Manifest {
    /// As the user gave it.
    pub path: String,
    /// The job's name; null if it could not be read.
    pub job: Option<String>,
    /// In the order of the text.
    pub problems: Vec<Problem>,
}

/// The number of problems of all manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Summary {
    /// Errors.
    pub errors: usize,
    /// Warnings.
    pub warnings: usize,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "problem")]
pub struct Problem {
    /// The ID of the kind of problem; never reused. `trainc explain CODE` shows its page.
    #[schemars(regex(pattern = r"^T[0-9]{4}$"))]
    pub code: &'static str,
    /// The name of the code.
    #[schemars(regex(pattern = r"^[a-z0-9]+(-[a-z0-9]+)*$"))]
    pub name: &'static str,
    /// `error`, `warning` or `note`.
    pub severity: Severity,
    /// What is wrong: what was expected and what was found.
    pub message: String,
    /// The primary place.
    #[serde(flatten)]
    pub place: Place,
    /// The text at this place, or null.
    pub label: Option<String>,
    /// Secondary places of the problem, possibly in other files.
    pub labels: Vec<Label>,
    /// What to type, or null.
    pub help: Option<String>,
    /// Reasons, or sources of numbers.
    pub notes: Vec<String>,
    /// The same facts for tools: names to values. The names depend on the code.
    pub facts: BTreeMap<&'static str, serde_json::Value>,
    /// An edit that fixes the problem; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Edit")]
    pub fix: Option<Edit>,
}

/// A place in a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Place {
    /// The path as the user gave it, `<stdin>`, or an override such as `<--set cluster.nodes=4>`.
    pub file: String,
    /// The first byte, from 0.
    pub start: usize,
    /// One past the last byte; equal to `start` for an empty place.
    pub end: usize,
    /// Line of the first byte, from 1.
    #[schemars(range(min = 1))]
    pub line: u32,
    /// Column of the first byte, from 1, in characters.
    #[schemars(range(min = 1))]
    pub column: u32,
}

/// A secondary place of a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "label")]
pub struct Label {
    /// The place.
    #[serde(flatten)]
    pub place: Place,
    /// The text at the place.
    pub text: String,
}

/// A replacement of bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "fix")]
pub struct Edit {
    /// The path as the user gave it, `<stdin>`, or an override such as `<--set cluster.nodes=4>`.
    pub file: String,
    /// The first byte, from 0.
    pub start: usize,
    /// One past the last byte; equal to `start` for an empty place.
    pub end: usize,
    /// The replacement text.
    pub text: String,
}

/// Renders the document of a run.
pub fn render(run: &Run<'_>) -> String {
    to_indented_json(&document(run))
}

/// Builds the document of a run.
pub fn document(run: &Run<'_>) -> Document {
    let sum = |count: fn(&ManifestReport<'_>) -> usize| run.manifests.iter().map(count).sum();
    Document {
        format_version: FORMAT_VERSION,
        manifests: run
            .manifests
            .iter()
            .map(|manifest| Manifest {
                path: manifest.path.to_owned(),
                job: manifest.job.map(|job| run.sources.mask(job)),
                problems: manifest.problems.iter().map(|one| problem(run.sources, one)).collect(),
            })
            .collect(),
        summary: Summary {
            errors: sum(|manifest| manifest.problems.errors()),
            warnings: sum(|manifest| manifest.problems.warnings()),
        },
    }
}

/// Builds a problem as it appears here and in `plan.json`, without the credentials of the sources.
pub fn problem(sources: &SourceMap, problem: &Diagnostic) -> Problem {
    let problem = problem.masked(sources);
    Problem {
        code: problem.code.id,
        name: problem.code.name,
        severity: problem.severity,
        message: problem.text().into_owned(),
        place: place(sources, problem.span),
        label: (!problem.label.is_empty()).then(|| problem.label.clone()),
        labels: problem
            .labels
            .iter()
            .map(|label| Label { place: place(sources, label.span), text: label.text.clone() })
            .collect(),
        help: problem.help.as_ref().map(ToString::to_string),
        notes: problem.notes.iter().map(ToString::to_string).collect(),
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
    let range = position::byte_range(source, span);
    let at = position::position(source, range.start, Columns::Characters);
    Place {
        file: source.name.to_string(),
        start: range.start,
        end: range.end,
        line: at.line,
        column: at.column,
    }
}

/// Renders indented JSON with a line end.
pub(super) fn to_indented_json(value: &impl Serialize) -> String {
    match serde_json::to_string_pretty(value) {
        Ok(text) => super::escape::escape_json(&text) + "\n",
        Err(error) => unreachable!("all keys are strings: {error}"),
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
