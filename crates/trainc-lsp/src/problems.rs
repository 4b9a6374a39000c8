//! Problems as LSP diagnostics: with related locations, quick fixes, and a tag on values without effect.

use super::open_document::OpenDocument;
use super::positions::{Encoding, Folder};
use lsp_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, Diagnostic, DiagnosticRelatedInformation,
    DiagnosticSeverity, DiagnosticTag, Location, NumberOrString, Range, TextEdit, Uri, WorkspaceEdit,
};
use std::collections::BTreeMap;
use trainc_diag::source::{SourceMap, Span, is_file};
use trainc_diag::{self as diag, Diagnostic as Problem, Severity, Tag};
use trainc_plan::Compiled;
use trainc_syntax::suggested_edit::suggested_fix;

/// The source of the diagnostics in an editor's list.
const SOURCE: &str = "trainc";

/// Maximum number of edits of a help that are offered.
const MOST: usize = 4;

/// Diagnostics by the URI of their file.
pub(super) type ByFile = BTreeMap<String, Vec<Diagnostic>>;

/// Finds files and ranges of the spans of a compilation.
pub(super) struct Places<'a> {
    pub folder: &'a Folder,
    pub encoding: Encoding,
    /// The name of the manifest, and its URI in the client's form.
    pub own: (&'a str, &'a str),
    /// The sources of the manifest, and those of other jobs that its problems point into.
    pub sources: [&'a SourceMap; 2],
}

impl Places<'_> {
    /// Returns the URI and the range of a span, or `None` if it is not in a file.
    pub(super) fn file_and_range(&self, span: Span) -> Option<(String, Range)> {
        let source = self.sources.iter().find_map(|sources| sources.get(span.source))?;
        let (own_name, own_uri) = self.own;
        let uri = if *source.name == *own_name {
            own_uri.to_owned()
        } else if !is_file(&source.name) {
            return None;
        } else {
            self.folder.uri(&source.name)
        };
        Some((uri, self.encoding.span(&source.text, span)))
    }

    /// Returns the location of a span.
    pub(super) fn location(&self, span: Span) -> Option<Location> {
        let (uri, range) = self.file_and_range(span)?;
        Some(Location::new(uri.parse::<Uri>().ok()?, range))
    }

    /// Returns the problems of the manifest, by the URI of their file; its own is always included.
    pub(super) fn diagnostics_by_file<'p>(&self, problems: impl Iterator<Item = &'p Problem>) -> ByFile {
        let own = self.own.1;
        let mut out = ByFile::from([(own.to_owned(), Vec::new())]);
        for problem in problems {
            // A problem outside of any file (`--set`) is shown at the top of the manifest.
            let (uri, range) =
                self.file_and_range(problem.span).unwrap_or_else(|| (own.to_owned(), Range::default()));
            out.entry(uri).or_default().push(self.diagnostic(problem, range));
        }
        out
    }

    fn diagnostic(&self, problem: &Problem, range: Range) -> Diagnostic {
        let problem = &problem.masked(self.sources[0]);
        let related: Vec<DiagnosticRelatedInformation> = problem
            .labels
            .iter()
            .filter_map(|label| {
                let location = self.location(label.span)?;
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
}

/// Returns message, help and notes as plain text.
fn plain_text(problem: &Problem) -> String {
    let help = problem.help.iter().map(|help| format!("help: {help}"));
    let notes = problem.notes.iter().map(|note| format!("note: {note}"));
    let lines: Vec<String> = std::iter::once(problem.message.clone()).chain(help).chain(notes).collect();
    diag::escape_control_characters(&lines.join("\n"))
}

/// Returns the quick fixes of the problems in a range: their fixes, or the edits of their help. `compile`
/// compiles an edited text of the document; `edit` makes an edit of a file.
pub(super) fn actions(
    opened: &OpenDocument,
    range: Range,
    places: &Places,
    compile: &dyn Fn(&str) -> Compiled,
    edit: &dyn Fn(&Uri, TextEdit) -> Option<WorkspaceEdit>,
) -> Vec<CodeActionOrCommand> {
    let touches = |other: &Range| other.start <= range.end && range.start <= other.end;
    let uri = opened.uri.as_str();
    let mut out = Vec::new();
    for problem in opened.compiled.own_problems() {
        let Some((_, at)) =
            places.file_and_range(problem.span).filter(|(file, at)| file == uri && touches(at))
        else {
            continue;
        };
        let mut push = |title: String, uri: &Uri, text: TextEdit, is_preferred: bool| {
            out.push(CodeActionOrCommand::CodeAction(CodeAction {
                title: diag::escape_control_characters(&opened.sources.mask(&title)),
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(vec![places.diagnostic(problem, at)]),
                edit: edit(uri, text),
                is_preferred: Some(is_preferred),
                ..CodeAction::default()
            }));
        };
        if let Some(fix) = &problem.fix {
            let Some(location) = places.location(fix.span) else { continue };
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
            let range = places.encoding.span(&opened.text, fix.span);
            push(suggestion.describe(), &opened.uri, TextEdit::new(range, fix.text), is_only);
        }
    }
    out
}
