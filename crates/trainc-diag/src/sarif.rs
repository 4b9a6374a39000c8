//! Renders problems as SARIF 2.1.0, for GitHub code scanning and others.
//!
//! The members are those of the OASIS standard (docs.oasis-open.org/sarif/sarif/v2.1.0, errata 01). Columns
//! count UTF-16 code units, as `columnKind` says.

use super::position::{self, Columns, Paths};
use super::{Code, Diagnostic, ReportedProblem, Run, json};
use crate::source::{Span, is_file};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

#[derive(Serialize)]
struct Log {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [LogRun; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogRun {
    tool: Tool,
    column_kind: &'static str,
    results: Vec<Finding>,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    semantic_version: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    information_uri: &'static str,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: &'static str,
    name: &'static str,
    short_description: Message,
    help: Message,
    #[serde(skip_serializing_if = "Option::is_none")]
    help_uri: Option<String>,
    default_configuration: Configuration,
}

#[derive(Serialize)]
struct Configuration {
    level: &'static str,
}

#[derive(Serialize)]
struct Message {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    markdown: Option<&'static str>,
}

impl Message {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), markdown: None }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    rule_id: &'static str,
    rule_index: usize,
    level: &'static str,
    message: Message,
    locations: Vec<Location>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_locations: Vec<Location>,
    partial_fingerprints: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fixes: Vec<SarifFix>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<usize>,
    #[serde(rename = "physicalLocation")]
    physical: Physical,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Physical {
    artifact_location: Artifact,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<Region>,
}

#[derive(Clone, Serialize)]
struct Artifact {
    uri: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: u32,
    start_column: u32,
    end_line: u32,
    end_column: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifFix {
    description: Message,
    artifact_changes: [Change; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Change {
    artifact_location: Artifact,
    replacements: [Replacement; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replacement {
    deleted_region: Region,
    inserted_content: Content,
}

#[derive(Serialize)]
struct Content {
    text: String,
}

/// Renders the log of a run, with each problem once.
pub fn render(run: &Run<'_>, paths: Paths<'_>) -> String {
    let shown = run.problems();
    let mut codes: Vec<&'static Code> = shown.iter().map(|one| one.problem.code).collect();
    codes.sort_by_key(|code| code.id);
    codes.dedup_by_key(|code| code.id);
    let fallback = run.manifests.first().map_or("", |manifest| manifest.path);
    let writer = Writer { run, paths, fallback };
    let mut prints = Fingerprints::default();
    let results = shown
        .iter()
        .map(|one| {
            let rule = codes.iter().position(|code| code.id == one.problem.code.id).unwrap_or(0);
            writer.finding(one, rule, &mut prints)
        })
        .collect();
    let driver = Driver {
        name: "trainc",
        semantic_version: env!("CARGO_PKG_VERSION"),
        information_uri: env!("CARGO_PKG_REPOSITORY"),
        rules: codes.into_iter().map(rule).collect(),
    };
    let runs = [LogRun { tool: Tool { driver }, column_kind: "utf16CodeUnits", results }];
    json::to_indented_json(&Log { schema: SCHEMA, version: "2.1.0", runs })
}

fn rule(code: &'static Code) -> Rule {
    let repository = env!("CARGO_PKG_REPOSITORY");
    let page = format!("{repository}/blob/v{}/{}", env!("CARGO_PKG_VERSION"), code.page_path());
    Rule {
        id: code.id,
        name: code.name,
        short_description: Message::new(code.summary),
        help: Message { text: format!("trainc explain {}", code.id), markdown: Some(code.page) },
        help_uri: (!repository.is_empty()).then_some(page),
        default_configuration: Configuration { level: code.severity.word() },
    }
}

struct Writer<'a> {
    run: &'a Run<'a>,
    paths: Paths<'a>,
    /// The file for problems outside of any file.
    fallback: &'a str,
}

impl Writer<'_> {
    fn finding(&self, one: &ReportedProblem<'_>, rule_index: usize, prints: &mut Fingerprints) -> Finding {
        let problem = &one.problem;
        let uri = self.artifact(problem.span).uri;
        let print = prints.fingerprint(self.run, problem, &uri);
        let labels = problem.labels.iter().zip(1..).map(|(label, id)| Location {
            id: Some(id),
            physical: self.physical(label.span),
            message: Some(Message::new(label.text.clone())),
        });
        Finding {
            rule_id: problem.code.id,
            rule_index,
            level: problem.severity.word(),
            message: Message::new(one.plain_text(self.run.sources)),
            locations: vec![Location { id: None, physical: self.physical(problem.span), message: None }],
            related_locations: labels.collect(),
            partial_fingerprints: BTreeMap::from([("trainc/v1", print)]),
            fixes: self.fix(problem).into_iter().collect(),
        }
    }

    fn fix(&self, problem: &Diagnostic) -> Option<SarifFix> {
        let fix = problem.fix.as_ref()?;
        let Physical { artifact_location, region } = self.physical(fix.span);
        let content = Content { text: fix.text.clone() };
        let replacements = [Replacement { deleted_region: region?, inserted_content: content }];
        let description =
            problem.help.as_ref().map_or_else(|| format!("fix {}", problem.code.name), ToString::to_string);
        Some(SarifFix {
            description: Message::new(description),
            artifact_changes: [Change { artifact_location, replacements }],
        })
    }

    fn artifact(&self, span: Span) -> Artifact {
        let name = position::source_name(self.run.sources, span);
        let name = if is_file(name) { name } else { self.fallback };
        Artifact { uri: uri(&self.paths.relative(name)) }
    }

    fn physical(&self, span: Span) -> Physical {
        let source = self.run.sources.get(span.source).filter(|source| is_file(&source.name));
        let region = source.map(|source| {
            let (start, end) = position::start_and_end(source, span, Columns::Utf16);
            Region {
                start_line: start.line,
                start_column: start.column,
                end_line: end.line,
                end_column: end.column,
            }
        });
        Physical { artifact_location: self.artifact(span), region }
    }
}

/// Identities of findings that do not change when lines are inserted above them.
#[derive(Default)]
pub(super) struct Fingerprints {
    seen: BTreeMap<String, usize>,
}

impl Fingerprints {
    /// Returns the fingerprint of a problem, distinct from those before it.
    pub(super) fn fingerprint(&mut self, run: &Run<'_>, problem: &Diagnostic, uri: &str) -> String {
        let line = run.sources.get(problem.span.source).and_then(|source| {
            let (start, _) = position::start_and_end(source, problem.span, Columns::Utf16);
            // Masked: a digest of a password can be guessed.
            source.masked_line(start.line.saturating_sub(1) as usize)
        });
        let content = line.as_deref().map_or("", str::trim);
        let key = format!("{}\0{uri}\0{content}", problem.code.id);
        let nth = self.seen.entry(key.clone()).or_insert(0);
        let digest = Sha256::digest(format!("{key}\0{nth}"));
        *nth += 1;
        digest.iter().take(16).fold(String::new(), |out, byte| out + &format!("{byte:02x}"))
    }
}

/// Returns a path as a relative URI.
fn uri(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
#[path = "sarif_tests.rs"]
mod tests;
