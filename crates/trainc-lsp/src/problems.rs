//! Problems as LSP diagnostics: with related locations, quick fixes, and a tag on values without effect.

use super::open_document::OpenDocument;
use super::positions::{Encoding, file_uri};
use lsp_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, Diagnostic, DiagnosticRelatedInformation,
    DiagnosticSeverity, DiagnosticTag, Location, NumberOrString, Range, TextEdit, Uri, WorkspaceEdit,
};
use std::collections::BTreeMap;
use trainc_diag::source::{Span, is_file};
use trainc_diag::{self as diag, Diagnostic as Problem, Severity, Tag};
use trainc_plan::Compiled;
use trainc_syntax::suggested_edit::suggested_fix;

/// The source of the diagnostics in an editor's list.
const SOURCE: &str = "trainc";

/// Maximum number of edits of a help that are offered.
const MOST: usize = 4;

/// Returns the problems of an open document, by the URI of their file.
pub(super) fn diagnostics_by_file(
    opened: &OpenDocument,
    encoding: Encoding,
) -> BTreeMap<String, Vec<Diagnostic>> {
    let mut out: BTreeMap<String, Vec<Diagnostic>> = BTreeMap::new();
    out.insert(opened.uri.as_str().to_owned(), Vec::new());
    for problem in opened.compiled.own_problems() {
        // A problem outside of any file (`--set`) is shown at the top of the open document.
        let (uri, range) = file_and_range(opened, problem.span, encoding)
            .unwrap_or_else(|| (opened.uri.as_str().to_owned(), Range::default()));
        out.entry(uri).or_default().push(diagnostic(opened, problem, range, encoding));
    }
    out
}

/// Returns the URI and the range of a span, or `None` if it is not in a file.
pub(super) fn file_and_range(
    opened: &OpenDocument,
    span: Span,
    encoding: Encoding,
) -> Option<(String, Range)> {
    let source = opened.sources.get(span.source).or_else(|| opened.others.get(span.source))?;
    let uri = if *source.name == *opened.name {
        opened.uri.as_str().to_owned()
    } else if !is_file(&source.name) {
        return None;
    } else {
        file_uri(&source.name)
    };
    Some((uri, encoding.span(&source.text, span)))
}

/// Returns the location of a span.
pub(super) fn location(opened: &OpenDocument, span: Span, encoding: Encoding) -> Option<Location> {
    let (uri, range) = file_and_range(opened, span, encoding)?;
    Some(Location::new(uri.parse::<Uri>().ok()?, range))
}

fn diagnostic(opened: &OpenDocument, problem: &Problem, range: Range, encoding: Encoding) -> Diagnostic {
    let problem = &problem.masked(&opened.sources);
    let related: Vec<DiagnosticRelatedInformation> = problem
        .labels
        .iter()
        .filter_map(|label| {
            let location = location(opened, label.span, encoding)?;
            Some(DiagnosticRelatedInformation {
                location,
                message: diag::escape_control_characters(&label.text),
            })
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
        // The pages of the codes are in the program (`trainc explain`).
        code_description: None,
        source: Some(SOURCE.to_owned()),
        message: plain_text(problem),
        related_information: (!related.is_empty()).then_some(related),
        tags: problem.code.has(Tag::Unused).then(|| vec![DiagnosticTag::UNNECESSARY]),
        data: None,
    }
}

/// Returns message, help and notes as plain text.
fn plain_text(problem: &Problem) -> String {
    let help = problem.help.iter().map(|help| format!("help: {help}"));
    let notes = problem.notes.iter().map(|note| format!("note: {note}"));
    let lines: Vec<String> = std::iter::once(problem.message.clone()).chain(help).chain(notes).collect();
    diag::escape_control_characters(&lines.join("\n"))
}

/// Returns the quick fixes of the problems in a range: their fixes, or the edits of their help. `compile`
/// compiles an edited text of the document.
pub(super) fn actions(
    opened: &OpenDocument,
    range: Range,
    encoding: Encoding,
    compile: &dyn Fn(&str) -> Compiled,
) -> Vec<CodeActionOrCommand> {
    let touches = |other: &Range| other.start <= range.end && range.start <= other.end;
    let uri = opened.uri.as_str();
    let mut out = Vec::new();
    for problem in opened.compiled.own_problems() {
        let Some((_, at)) =
            file_and_range(opened, problem.span, encoding).filter(|(file, at)| file == uri && touches(at))
        else {
            continue;
        };
        let mut push = |title: String, uri: &Uri, edit: TextEdit, is_preferred: bool| {
            // Built as JSON, because the map of the type is unordered.
            let changes = serde_json::json!({"changes": {uri.as_str(): [edit]}});
            out.push(CodeActionOrCommand::CodeAction(CodeAction {
                title: diag::escape_control_characters(&opened.sources.mask(&title)),
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(vec![diagnostic(opened, problem, at, encoding)]),
                edit: serde_json::from_value::<WorkspaceEdit>(changes).ok(),
                is_preferred: Some(is_preferred),
                ..CodeAction::default()
            }));
        };
        if let Some(fix) = &problem.fix {
            let Some(location) = location(opened, fix.span, encoding) else { continue };
            let title = match &problem.help {
                Some(help) => help.to_string(),
                None if fix.text.is_empty() => "remove it".to_owned(),
                None => format!("write `{}`", fix.text),
            };
            push(title, &location.uri, TextEdit::new(location.range, fix.text.clone()), true);
            continue;
        }
        let is_only = problem.suggestions().len() == 1;
        for suggestion in problem.suggestions().iter().take(MOST) {
            let before = &opened.compiled.problems;
            let Some(fix) =
                suggested_fix(&opened.text, problem, suggestion, before, &mut |text| compile(text).problems)
            else {
                continue;
            };
            let range = encoding.span(&opened.text, fix.span);
            push(suggestion.describe(), &opened.uri, TextEdit::new(range, fix.text), is_only);
        }
    }
    out
}
