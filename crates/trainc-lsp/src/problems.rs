//! Problems as an editor draws them: with further places, the edit that mends them, and faded where nothing uses a
//! value.

use super::server::Opened;
use super::text::{Encoding, uri_of};
use lsp_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, Diagnostic, DiagnosticRelatedInformation,
    DiagnosticSeverity, DiagnosticTag, Location, NumberOrString, Range, TextEdit, Uri, WorkspaceEdit,
};
use std::collections::BTreeMap;
use trainc_diag::source::{Span, is_file};
use trainc_diag::{self as diag, Diagnostic as Problem, Severity};

/// The name of the program in an editor's list of problems.
const SOURCE: &str = "trainc";

/// Codes whose place has no effect, so that an editor may fade it.
const WITHOUT_EFFECT: [&str; 2] = ["T0241", "T0250"];

/// The problems of one open file, by the URI of the file that each is in.
pub(super) fn by_file(opened: &Opened, encoding: Encoding) -> BTreeMap<String, Vec<Diagnostic>> {
    let mut out: BTreeMap<String, Vec<Diagnostic>> = BTreeMap::new();
    out.insert(opened.uri.as_str().to_owned(), Vec::new());
    for problem in opened.compiled.own_problems() {
        // A problem of no file (`--set`) is shown at the top of the one that was opened.
        let (uri, range) = place(opened, problem.span, encoding)
            .unwrap_or_else(|| (opened.uri.as_str().to_owned(), Range::default()));
        out.entry(uri).or_default().push(diagnostic(opened, problem, range, encoding));
    }
    out
}

/// The URI and the range of a span; nothing where it is in no file.
pub(super) fn place(opened: &Opened, span: Span, encoding: Encoding) -> Option<(String, Range)> {
    let source = opened.sources.get(span.source).or_else(|| opened.others.get(span.source))?;
    let uri = if *source.name == *opened.name {
        opened.uri.as_str().to_owned()
    } else if !is_file(&source.name) {
        return None;
    } else {
        uri_of(&source.name)
    };
    Some((uri, encoding.span(&source.text, span)))
}

/// The same as a location.
pub(super) fn location(opened: &Opened, span: Span, encoding: Encoding) -> Option<Location> {
    let (uri, range) = place(opened, span, encoding)?;
    Some(Location::new(uri.parse::<Uri>().ok()?, range))
}

fn diagnostic(opened: &Opened, problem: &Problem, range: Range, encoding: Encoding) -> Diagnostic {
    let related: Vec<DiagnosticRelatedInformation> = problem
        .labels
        .iter()
        .filter_map(|label| {
            let location = location(opened, label.span, encoding)?;
            Some(DiagnosticRelatedInformation { location, message: diag::safe(&label.text) })
        })
        .collect();
    Diagnostic {
        range,
        severity: Some(match problem.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
            Severity::Note => DiagnosticSeverity::INFORMATION,
        }),
        code: Some(NumberOrString::String(problem.code.id.to_owned())),
        // The pages of the codes are in the program (`trainc explain`), at no address.
        code_description: None,
        source: Some(SOURCE.to_owned()),
        message: words(problem),
        related_information: (!related.is_empty()).then_some(related),
        tags: WITHOUT_EFFECT.contains(&problem.code.id).then(|| vec![DiagnosticTag::UNNECESSARY]),
        data: None,
    }
}

/// Message, help and notes as plain text.
fn words(problem: &Problem) -> String {
    let help = problem.help.iter().map(|help| format!("help: {help}"));
    let notes = problem.notes.iter().map(|note| format!("note: {note}"));
    let lines: Vec<String> = std::iter::once(problem.message.clone()).chain(help).chain(notes).collect();
    diag::safe(&lines.join("\n"))
}

/// The edits that mend the problems of a range.
pub(super) fn actions(opened: &Opened, range: Range, encoding: Encoding) -> Vec<CodeActionOrCommand> {
    let touches = |other: &Range| other.start <= range.end && range.start <= other.end;
    let uri = opened.uri.as_str();
    opened
        .compiled
        .problems
        .iter()
        .filter_map(|problem| {
            let fix = problem.fix.as_ref()?;
            let (file, at) = place(opened, problem.span, encoding)?;
            let location = location(opened, fix.span, encoding)?;
            if file != uri || !touches(&at) {
                return None;
            }
            let title = match &problem.help {
                Some(help) => diag::safe(help),
                None if fix.text.is_empty() => "remove it".to_owned(),
                None => format!("write `{}`", diag::safe(&fix.text)),
            };
            let edit = TextEdit::new(location.range, fix.text.clone());
            // The map of the type has no order, so that it is written as JSON.
            let changes = serde_json::json!({"changes": {location.uri.as_str(): [edit]}});
            Some(CodeActionOrCommand::CodeAction(CodeAction {
                title,
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(vec![diagnostic(opened, problem, at, encoding)]),
                edit: serde_json::from_value::<WorkspaceEdit>(changes).ok(),
                is_preferred: Some(true),
                ..CodeAction::default()
            }))
        })
        .collect()
}
