//! The server: the open documents, and the answers to requests and notifications.

use super::open_document::OpenDocument;
use super::positions::{Encoding, file_path};
use super::{code_lens, completion, definition, hover, inlay_hints, problems, symbols};
use kdl::KdlDocument;
use lsp_types::{
    CodeActionKind, CodeActionOptions, CodeActionParams, CodeActionProviderCapability, CodeLensOptions,
    CodeLensParams, CompletionOptions, CompletionParams, Diagnostic, DidChangeTextDocumentParams,
    DidCloseTextDocumentParams, DidOpenTextDocumentParams, DocumentFormattingParams, DocumentSymbolParams,
    DocumentSymbolResponse, GotoDefinitionParams, HoverParams, HoverProviderCapability, InlayHintParams,
    OneOf, PublishDiagnosticsParams, ServerCapabilities, TextDocumentPositionParams,
    TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions, TextEdit, Uri,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use trainc_check::{JobSummary, check_across_jobs};
use trainc_diag::Problems;
use trainc_diag::source::{SourceId, SourceMap};
use trainc_plan::Compiled;
use trainc_syntax::format;

/// The texts of the editor by their source name: a path, or a name in angle brackets.
pub type Buffers = BTreeMap<String, String>;

/// Compiles the text of that name, with the open texts in place of the files. The sources go into the given
/// map.
pub type Compile<'a> = dyn Fn(&str, &str, &Buffers, SourceMap) -> (Compiled, SourceMap, SourceId) + 'a;

/// Summarizes the jobs of the manifests around the open texts that are not open themselves, with their
/// sources in a [`SourceMap::default`].
pub type SummarizeOthers<'a> = dyn Fn(&Buffers) -> (Vec<JobSummary>, SourceMap) + 'a;

/// The part of a source map that holds the sources of all jobs.
const ALL_SOURCES: u32 = 1_023;

/// An error in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The server does not support the method.
    UnknownMethod(String),
    /// The parameters are invalid.
    BadParameters(String),
}

/// The language server.
pub struct Server<'a> {
    compile: &'a Compile<'a>,
    summarize_others: &'a SummarizeOthers<'a>,
    encoding: Encoding,
    today: Option<i64>,
    /// The open texts by their URI.
    texts: BTreeMap<String, (Uri, String)>,
    /// The compiled documents by their URI.
    documents: BTreeMap<String, OpenDocument>,
    /// The jobs around the open texts, as of the last file that was opened, saved or closed.
    others: (Vec<JobSummary>, SourceMap),
    /// The files with published problems.
    published: BTreeSet<String>,
}

impl<'a> Server<'a> {
    /// Makes a server without open documents.
    pub fn new(
        compile: &'a Compile<'a>,
        summarize_others: &'a SummarizeOthers<'a>,
        encoding: Encoding,
    ) -> Self {
        Self {
            compile,
            summarize_others,
            encoding,
            today: None,
            texts: BTreeMap::new(),
            documents: BTreeMap::new(),
            others: (Vec::new(), SourceMap::default()),
            published: BTreeSet::new(),
        }
    }

    /// Sets the day, in days since 1970, for the age of prices.
    #[must_use]
    pub fn today(self, today: Option<i64>) -> Self {
        Self { today, ..self }
    }

    /// Returns the capabilities of the server.
    pub fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities {
            position_encoding: Some(self.encoding.kind()),
            text_document_sync: Some(TextDocumentSyncCapability::Options(TextDocumentSyncOptions {
                open_close: Some(true),
                change: Some(TextDocumentSyncKind::FULL),
                save: Some(true.into()),
                ..TextDocumentSyncOptions::default()
            })),
            hover_provider: Some(HoverProviderCapability::Simple(true)),
            completion_provider: Some(CompletionOptions {
                trigger_characters: Some(vec!["\"".to_owned(), "=".to_owned(), " ".to_owned()]),
                ..CompletionOptions::default()
            }),
            definition_provider: Some(OneOf::Left(true)),
            document_symbol_provider: Some(OneOf::Left(true)),
            document_formatting_provider: Some(OneOf::Left(true)),
            code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
                code_action_kinds: Some(vec![CodeActionKind::QUICKFIX]),
                ..CodeActionOptions::default()
            })),
            inlay_hint_provider: Some(OneOf::Left(true)),
            code_lens_provider: Some(CodeLensOptions { resolve_provider: Some(false) }),
            ..ServerCapabilities::default()
        }
    }

    /// Handles a notification; returns the changed problems, file by file.
    pub fn notify(&mut self, method: &str, parameters: Value) -> Vec<PublishDiagnosticsParams> {
        let mut changed = None;
        match method {
            "textDocument/didOpen" => {
                let Ok(given) = parse_parameters::<DidOpenTextDocumentParams>(parameters) else {
                    return Vec::new();
                };
                let document = given.text_document;
                self.texts.insert(document.uri.as_str().to_owned(), (document.uri, document.text));
            }
            "textDocument/didChange" => {
                let Ok(given) = parse_parameters::<DidChangeTextDocumentParams>(parameters) else {
                    return Vec::new();
                };
                let text = given.content_changes.into_iter().next_back().map(|change| change.text);
                let open = self.texts.get_mut(given.text_document.uri.as_str());
                let (Some(text), Some((_, open))) = (text, open) else { return Vec::new() };
                *open = text;
                changed = Some(given.text_document.uri);
            }
            "textDocument/didClose" => {
                let Ok(given) = parse_parameters::<DidCloseTextDocumentParams>(parameters) else {
                    return Vec::new();
                };
                self.texts.remove(given.text_document.uri.as_str());
            }
            // A file on disk may have changed: a layer, a source directory, a model's config.
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => {}
            _ => return Vec::new(),
        }
        // While the user types, only open texts change.
        if method != "textDocument/didChange" {
            self.others = (self.summarize_others)(&self.buffers());
        }
        self.compile_all(changed.as_ref());
        self.check_across_jobs();
        self.changed_diagnostics()
    }

    /// Compiles the open texts. If only one has changed, those that do not have it as a layer are kept as
    /// they are.
    fn compile_all(&mut self, changed: Option<&Uri>) {
        let buffers = self.buffers();
        let mut before = std::mem::take(&mut self.documents);
        // Another file than a manifest may be read without being a source.
        let changed = changed.map(buffer_name).filter(|name| name.ends_with(".kdl"));
        let mut kept = |key: &String| {
            let changed = changed.as_ref()?;
            let mut document = before.remove(key)?;
            if document.name == *changed
                || document.sources.iter().any(|(_, source)| *source.name == **changed)
            {
                return None;
            }
            document.compiled.problems.clone_from(&document.own_problems);
            Some(document)
        };
        let others = Rc::new(SourceMap::default());
        self.documents = (1..)
            .zip(&self.texts)
            .map(|(part, (key, (uri, text)))| {
                if let Some(document) = kept(key) {
                    return (key.clone(), document);
                }
                let name = buffer_name(uri);
                let (compiled, sources, source) =
                    (self.compile)(&name, text, &buffers, SourceMap::with_part_number(part));
                let (uri, text, others) = (uri.clone(), text.clone(), Rc::clone(&others));
                let own_problems = compiled.problems.clone();
                let today = self.today;
                let document =
                    OpenDocument { uri, name, text, compiled, sources, source, own_problems, others, today };
                (key.clone(), document)
            })
            .collect();
    }

    /// Returns the open texts by name.
    fn buffers(&self) -> Buffers {
        self.texts.values().map(|(uri, text)| (buffer_name(uri), text.clone())).collect()
    }

    /// Compares the open jobs with each other and with the jobs around them, which come first: a problem
    /// belongs to the later of two jobs, and so to the one that is open.
    fn check_across_jobs(&mut self) {
        let summaries: Vec<JobSummary> =
            self.documents.values().map(|opened| JobSummary::new(&opened.name, &opened.compiled)).collect();
        let mut discarded: Vec<Problems> = vec![Problems::default(); self.others.0.len()];
        let opened = self.documents.values_mut().map(|opened| &mut opened.compiled.problems);
        check_across_jobs(self.others.0.iter().zip(&mut discarded).chain(summaries.iter().zip(opened)));
        let mut all = SourceMap::with_part_number(ALL_SOURCES);
        all.absorb(self.others.1.clone());
        self.documents.values().for_each(|opened| all.absorb(opened.sources.clone()));
        let all = Rc::new(all);
        self.documents.values_mut().for_each(|opened| opened.others = Rc::clone(&all));
    }

    /// Returns the problems of all files; files without problems now are included once, with an empty list.
    fn changed_diagnostics(&mut self) -> Vec<PublishDiagnosticsParams> {
        let mut files: BTreeMap<String, Vec<Diagnostic>> =
            std::mem::take(&mut self.published).into_iter().map(|uri| (uri, Vec::new())).collect();
        for opened in self.documents.values() {
            for (uri, found) in problems::diagnostics_by_file(opened, self.encoding) {
                // An editor may use another form of the URI of an open file.
                let same = self
                    .documents
                    .values()
                    .find(|other| file_path(&uri).is_some_and(|path| other.name == path));
                let uri = same.map_or(uri, |other| other.uri.as_str().to_owned());
                let list = files.entry(uri).or_default();
                for one in found {
                    if !list.contains(&one) {
                        list.push(one);
                    }
                }
            }
        }
        self.published =
            files.iter().filter(|(_, list)| !list.is_empty()).map(|(uri, _)| uri.clone()).collect();
        files
            .into_iter()
            .filter_map(|(uri, list)| Some(PublishDiagnosticsParams::new(uri.parse().ok()?, list, None)))
            .collect()
    }

    /// Answers a request.
    pub fn answer(&self, method: &str, parameters: Value) -> Result<Value, RequestError> {
        match method {
            "textDocument/hover" => {
                let at = parse_parameters::<HoverParams>(parameters)?.text_document_position_params;
                json(self.with_document_at(&at, |opened, document, offset| {
                    hover::hover(opened, document, offset, self.encoding)
                }))
            }
            "textDocument/completion" => {
                let at = parse_parameters::<CompletionParams>(parameters)?.text_document_position;
                json(self.with_document_at(&at, |opened, document, offset| {
                    Some(completion::completions(document, &opened.text, offset, self.encoding))
                }))
            }
            "textDocument/definition" => {
                let at = parse_parameters::<GotoDefinitionParams>(parameters)?.text_document_position_params;
                json(self.with_document_at(&at, |opened, document, offset| {
                    definition::definition(opened, document, offset, self.encoding)
                }))
            }
            "textDocument/documentSymbol" => {
                let uri = parse_parameters::<DocumentSymbolParams>(parameters)?.text_document.uri;
                let opened = self.documents.get(uri.as_str());
                json(opened.and_then(|opened| {
                    let found = symbols::symbols(&opened.parse()?, &opened.text, self.encoding);
                    Some(DocumentSymbolResponse::Nested(found))
                }))
            }
            "textDocument/formatting" => {
                let uri = parse_parameters::<DocumentFormattingParams>(parameters)?.text_document.uri;
                json(self.documents.get(uri.as_str()).and_then(|opened| self.formatted(opened)))
            }
            "textDocument/codeAction" => {
                let given = parse_parameters::<CodeActionParams>(parameters)?;
                let opened = self.documents.get(given.text_document.uri.as_str());
                let buffers = self.buffers();
                json(opened.map(|opened| {
                    let compile =
                        |text: &str| (self.compile)(&opened.name, text, &buffers, SourceMap::default()).0;
                    problems::actions(opened, given.range, self.encoding, &compile)
                }))
            }
            "textDocument/inlayHint" => {
                let given = parse_parameters::<InlayHintParams>(parameters)?;
                let opened = self.documents.get(given.text_document.uri.as_str());
                let all = self.documents.values();
                json(opened.map(|opened| inlay_hints::inlay_hints(opened, all, given.range, self.encoding)))
            }
            "textDocument/codeLens" => {
                let uri = parse_parameters::<CodeLensParams>(parameters)?.text_document.uri;
                let opened = self.documents.get(uri.as_str());
                json(opened.map(|opened| code_lens::code_lenses(opened, self.encoding)))
            }
            _ => Err(RequestError::UnknownMethod(method.to_owned())),
        }
    }

    fn with_document_at<T>(
        &self,
        at: &TextDocumentPositionParams,
        answer: impl FnOnce(&OpenDocument, &KdlDocument, usize) -> Option<T>,
    ) -> Option<T> {
        let opened = self.documents.get(at.text_document.uri.as_str())?;
        let document = opened.parse().unwrap_or_default();
        answer(opened, &document, self.encoding.offset(&opened.text, at.position))
    }

    /// Formats the whole text; `None` while it has syntax errors.
    fn formatted(&self, opened: &OpenDocument) -> Option<Vec<TextEdit>> {
        let new = format::format(&opened.text).ok()?;
        if new == opened.text {
            return Some(Vec::new());
        }
        Some(vec![TextEdit::new(self.encoding.range(&opened.text, 0, opened.text.len()), new)])
    }
}

/// Returns the name under which the text of a URI is compiled.
fn buffer_name(uri: &Uri) -> String {
    file_path(uri.as_str()).unwrap_or_else(|| format!("<{}>", uri.as_str()))
}

fn parse_parameters<T: DeserializeOwned>(parameters: Value) -> Result<T, RequestError> {
    serde_json::from_value(parameters).map_err(|error| RequestError::BadParameters(error.to_string()))
}

fn json<T: serde::Serialize>(answer: Option<T>) -> Result<Value, RequestError> {
    serde_json::to_value(answer).map_err(|error| RequestError::BadParameters(error.to_string()))
}
