//! The server: the open documents, the manifests around them, and the answers to requests and notifications.

use super::open_document::OpenDocument;
use super::positions::{Encoding, Folder, file_path};
use super::problems::ByFile;
use super::workspace::{CheckedManifest, Compilation, foreign_sources};
use super::{code_lens, completion, definition, hover, inlay_hints, problems, symbols};
use kdl::KdlDocument;
use lsp_types::{
    CodeActionKind, CodeActionOptions, CodeActionParams, CodeActionProviderCapability, CodeLensOptions,
    CodeLensParams, CompletionItem, CompletionOptions, CompletionParams, Diagnostic,
    DidChangeTextDocumentParams, DidChangeWatchedFilesParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, DidSaveTextDocumentParams, DocumentFormattingParams, DocumentSymbolParams,
    DocumentSymbolResponse, FileChangeType, GotoDefinitionParams, HoverParams, HoverProviderCapability,
    InitializeParams, InlayHintParams, OneOf, PublishDiagnosticsParams, ServerCapabilities,
    TextDocumentPositionParams, TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions,
    TextEdit, Uri, WorkspaceEdit, WorkspaceFoldersServerCapabilities, WorkspaceServerCapabilities,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use trainc_check::{JobSummary, check_across_jobs};
use trainc_diag::source::{SourceId, SourceMap};
use trainc_diag::{Code, Problems};
use trainc_syntax::{document, format};

/// The texts of the editor by their source name: a path, or a name in angle brackets.
pub type Buffers = BTreeMap<String, String>;

/// Compiles the text of that name, with the open texts in place of the files. The sources go into the given
/// map.
pub type Compile<'a> = dyn Fn(&str, &str, &Buffers, SourceMap) -> Compilation + 'a;

/// The source maps of open documents have numbers below this one, those of other manifests from it on.
pub const FIRST_CLOSED_PART: u32 = 8_192;

/// An error in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The server does not support the method.
    UnknownMethod(String),
    /// The parameters are invalid.
    BadParameters(String),
}

/// What a client can do.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// The unit of columns.
    pub encoding: Encoding,
    /// Relative to it, files are named.
    pub folder: Folder,
    /// Edits may name the version of the document that they are about.
    pub takes_versioned_edits: bool,
    /// The commands of the client that a code lens may run.
    pub commands: Vec<String>,
}

impl Client {
    /// Reads what a client says of itself; `folder` is that of the first workspace folder, if there is one.
    pub fn new(given: &InitializeParams, folder: Option<&str>) -> Self {
        let capabilities = &given.capabilities;
        let offered = capabilities.general.as_ref().and_then(|one| one.position_encodings.as_deref());
        let edits = capabilities.workspace.as_ref().and_then(|one| one.workspace_edit.as_ref());
        let commands = given.initialization_options.as_ref().and_then(|one| one.get("commands")?.as_array());
        let names = commands.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        Self {
            encoding: Encoding::negotiate(offered),
            folder: Folder::new(folder),
            takes_versioned_edits: edits.and_then(|one| one.document_changes).unwrap_or_default(),
            commands: names.collect(),
        }
    }
}

/// What a notification changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The names of files and open texts that have another content, or exist since or no longer.
    pub names: Vec<String>,
    /// Other manifests may exist.
    pub is_list_outdated: bool,
}

/// An open text.
struct OpenText {
    uri: Uri,
    version: i32,
    text: String,
}

/// The language server.
pub struct Server<'a> {
    compile: &'a Compile<'a>,
    client: Client,
    today: Option<i64>,
    /// The codes whose pages are shown.
    codes: &'static [&'static Code],
    /// The open texts by their URI.
    texts: BTreeMap<String, OpenText>,
    /// The compiled documents by their URI.
    documents: BTreeMap<String, OpenDocument>,
    /// The URIs of open texts to compile.
    outdated: BTreeSet<String>,
    /// The manifests that are not open, by name.
    closed: BTreeMap<String, CheckedManifest>,
    /// The problems of these, as of the last change of the set.
    closed_diagnostics: ByFile,
    is_closed_outdated: bool,
    /// The files in which open documents have problems.
    files_of_open: BTreeSet<String>,
    /// The published problems by file, with the version of open ones.
    published: BTreeMap<String, (Option<i32>, Vec<Diagnostic>)>,
}

impl<'a> Server<'a> {
    /// Makes a server without open documents.
    pub fn new(compile: &'a Compile<'a>, client: Client) -> Self {
        Self {
            compile,
            client,
            today: None,
            codes: &[],
            texts: BTreeMap::new(),
            documents: BTreeMap::new(),
            outdated: BTreeSet::new(),
            closed: BTreeMap::new(),
            closed_diagnostics: ByFile::new(),
            is_closed_outdated: false,
            files_of_open: BTreeSet::new(),
            published: BTreeMap::new(),
        }
    }

    /// Sets the day, in days since 1970, for the age of prices.
    #[must_use]
    pub fn today(self, today: Option<i64>) -> Self {
        Self { today, ..self }
    }

    /// Sets the codes whose pages a hover shows.
    #[must_use]
    pub fn codes(self, codes: &'static [&'static Code]) -> Self {
        Self { codes, ..self }
    }

    /// Returns the capabilities of the server.
    pub fn capabilities(&self) -> ServerCapabilities {
        let triggers = ["\"", "=", " ", "{", "."];
        ServerCapabilities {
            position_encoding: Some(self.client.encoding.kind()),
            text_document_sync: Some(TextDocumentSyncCapability::Options(TextDocumentSyncOptions {
                open_close: Some(true),
                change: Some(TextDocumentSyncKind::FULL),
                save: Some(true.into()),
                ..TextDocumentSyncOptions::default()
            })),
            hover_provider: Some(HoverProviderCapability::Simple(true)),
            completion_provider: Some(CompletionOptions {
                trigger_characters: Some(triggers.map(str::to_owned).to_vec()),
                resolve_provider: Some(true),
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
            workspace: Some(WorkspaceServerCapabilities {
                workspace_folders: Some(WorkspaceFoldersServerCapabilities {
                    supported: Some(true),
                    change_notifications: Some(OneOf::Left(true)),
                }),
                ..WorkspaceServerCapabilities::default()
            }),
            ..ServerCapabilities::default()
        }
    }

    /// Handles a notification. Nothing is compiled before [`Self::settle`], so that of several changes only
    /// the last costs.
    pub fn notify(&mut self, method: &str, parameters: Value) -> Changed {
        self.apply(method, parameters).unwrap_or_default()
    }

    fn apply(&mut self, method: &str, parameters: Value) -> Option<Changed> {
        let name = |uri: &Uri| self.client.folder.name(uri.as_str());
        Some(match method {
            "textDocument/didOpen" => {
                let document = parse::<DidOpenTextDocumentParams>(parameters)?.text_document;
                let changed = Changed { names: vec![name(&document.uri)], is_list_outdated: true };
                let key = document.uri.as_str().to_owned();
                let open = OpenText { uri: document.uri, version: document.version, text: document.text };
                self.outdated.insert(key.clone());
                self.texts.insert(key, open);
                self.is_closed_outdated = true;
                changed
            }
            "textDocument/didChange" => {
                let given = parse::<DidChangeTextDocumentParams>(parameters)?;
                let text = given.content_changes.into_iter().next_back()?.text;
                let key = given.text_document.uri.as_str();
                let open = self.texts.get_mut(key)?;
                (open.text, open.version) = (text, given.text_document.version);
                self.outdated.insert(key.to_owned());
                Changed { names: vec![name(&given.text_document.uri)], is_list_outdated: false }
            }
            "textDocument/didClose" => {
                let uri = parse::<DidCloseTextDocumentParams>(parameters)?.text_document.uri;
                self.texts.remove(uri.as_str())?;
                self.documents.remove(uri.as_str());
                self.outdated.remove(uri.as_str());
                self.is_closed_outdated = true;
                Changed { names: vec![name(&uri)], is_list_outdated: true }
            }
            // A client may not watch files, and anything on disk may have changed meanwhile.
            "textDocument/didSave" => {
                let uri = parse::<DidSaveTextDocumentParams>(parameters)?.text_document.uri;
                self.outdated.extend(self.texts.keys().cloned());
                Changed { names: vec![name(&uri)], is_list_outdated: true }
            }
            "workspace/didChangeWatchedFiles" => {
                let changes = parse::<DidChangeWatchedFilesParams>(parameters)?.changes;
                Changed {
                    names: changes.iter().map(|change| name(&change.uri)).collect(),
                    is_list_outdated: changes.iter().any(|change| change.typ != FileChangeType::CHANGED),
                }
            }
            _ => return None,
        })
    }

    /// Notes that these files changed, by their canonical paths.
    pub fn files_changed(&mut self, paths: &[PathBuf]) {
        let affected = |document: &OpenDocument| paths.iter().any(|path| document.reads.include(path));
        let found = self.documents.iter().filter(|(_, document)| affected(document));
        self.outdated.extend(found.map(|(key, _)| key.clone()));
    }

    /// Replaces manifests that are not open; `None` for those that are not there any more.
    pub fn replace_closed(&mut self, checked: impl IntoIterator<Item = (String, Option<CheckedManifest>)>) {
        for (name, manifest) in checked {
            match manifest {
                Some(manifest) => self.closed.insert(name, manifest),
                None => self.closed.remove(&name),
            };
        }
        self.is_closed_outdated = true;
    }

    /// Compiles what changed; returns the changed problems, file by file.
    pub fn settle(&mut self) -> Vec<PublishDiagnosticsParams> {
        if self.outdated.is_empty() && !self.is_closed_outdated {
            return Vec::new();
        }
        self.compile_outdated();
        let is_closed_outdated = std::mem::take(&mut self.is_closed_outdated);
        if is_closed_outdated {
            let open: BTreeSet<String> = self.buffers().into_keys().collect();
            self.closed.retain(|name, _| !open.contains(name));
        }
        self.check_across_jobs(is_closed_outdated);
        self.changed_diagnostics(is_closed_outdated)
    }

    /// Compiles the open texts that changed, or whose files did.
    fn compile_outdated(&mut self) {
        let buffers = self.buffers();
        for key in std::mem::take(&mut self.outdated) {
            let Some(OpenText { uri, text, .. }) = self.texts.get(&key) else { continue };
            let before = self.documents.remove(&key).map(|document| document.part);
            let is_taken = |part: &u32| self.documents.values().any(|document| document.part == *part);
            let part = before.or_else(|| (1..FIRST_CLOSED_PART).find(|part| !is_taken(part)));
            let part = part.unwrap_or(FIRST_CLOSED_PART - 1);
            let name = self.client.folder.name(uri.as_str());
            let compilation = (self.compile)(&name, text, &buffers, SourceMap::with_part_number(part));
            let document =
                OpenDocument::new((uri.clone(), name), text.clone(), compilation, part, self.today);
            self.documents.insert(key, document);
        }
    }

    /// Returns the open texts by name.
    pub fn buffers(&self) -> Buffers {
        let name = |open: &OpenText| self.client.folder.name(open.uri.as_str());
        self.texts.values().map(|open| (name(open), open.text.clone())).collect()
    }

    /// Compares the open jobs with each other and with the jobs around them, which come first: a problem
    /// belongs to the later of two jobs, and so to the one that is open. Those of the other manifests change
    /// only with the set of them.
    fn check_across_jobs(&mut self, is_closed_outdated: bool) {
        let (folder, encoding) = (&self.client.folder, self.client.encoding);
        let summaries: Vec<JobSummary> =
            self.documents.values().map(|opened| JobSummary::new(&opened.name, &opened.compiled)).collect();
        let mut of_closed: Vec<Problems> = if is_closed_outdated {
            self.closed.values().map(|manifest| manifest.own_problems().clone()).collect()
        } else {
            vec![Problems::default(); self.closed.len()]
        };
        let opened = self.documents.values_mut().map(|opened| {
            opened.compiled.problems.clone_from(&opened.own_problems);
            &mut opened.compiled.problems
        });
        let closed = self.closed.values().map(|manifest| &manifest.summary);
        check_across_jobs(closed.zip(&mut of_closed).chain(summaries.iter().zip(opened)));
        let all = self.closed.values().map(|manifest| &manifest.sources);
        let all = all.chain(self.documents.values().map(|opened| &opened.sources));
        let foreign =
            |opened: &OpenDocument| foreign_sources(&opened.compiled.problems, &opened.sources, all.clone());
        let others: Vec<SourceMap> = self.documents.values().map(foreign).collect();
        if is_closed_outdated {
            self.closed_diagnostics = ByFile::new();
            let uris = ClientUris::new(self.documents.values());
            for (manifest, problems) in self.closed.values().zip(&of_closed) {
                let found = manifest.diagnostics_with(problems, folder, encoding, all.clone());
                uris.merge(&mut self.closed_diagnostics, found);
            }
        }
        for (opened, others) in self.documents.values_mut().zip(others) {
            opened.others = others;
        }
    }

    /// Returns the problems of all files whose problems or version changed.
    fn changed_diagnostics(&mut self, is_closed_outdated: bool) -> Vec<PublishDiagnosticsParams> {
        let uris = ClientUris::new(self.documents.values());
        let mut files = ByFile::new();
        for opened in self.documents.values() {
            let places = opened.places(&self.client.folder, self.client.encoding);
            uris.merge(&mut files, places.diagnostics_by_file(opened.compiled.own_problems()));
        }
        let now: BTreeSet<String> = files.keys().cloned().collect();
        let mut uris: BTreeSet<String> = std::mem::replace(&mut self.files_of_open, now);
        uris.extend(files.keys().cloned());
        if is_closed_outdated {
            uris.extend(self.closed_diagnostics.keys().chain(self.published.keys()).cloned());
        }
        let mut out = Vec::new();
        for uri in uris {
            let mut list = self.closed_diagnostics.get(&uri).cloned().unwrap_or_default();
            merge_lists(&mut list, files.remove(&uri).unwrap_or_default());
            let version = self.texts.get(&uri).map(|open| open.version);
            let is_new = match self.published.get(&uri) {
                Some((published, before)) => *published != version || *before != list,
                None => version.is_some() || !list.is_empty(),
            };
            let Some(parsed) = uri.parse().ok().filter(|_| is_new) else { continue };
            out.push(PublishDiagnosticsParams::new(parsed, list.clone(), version));
            if list.is_empty() && version.is_none() {
                self.published.remove(&uri);
            } else {
                self.published.insert(uri, (version, list));
            }
        }
        out
    }

    /// Answers a request.
    pub fn answer(&self, method: &str, parameters: Value) -> Result<Value, RequestError> {
        match method {
            "textDocument/hover" => {
                let at = parse_parameters::<HoverParams>(parameters)?.text_document_position_params;
                to_json(self.with_document_at(&at, |opened, document, offset| {
                    hover::hover(opened, document, offset, self.client.encoding, self.codes)
                }))
            }
            "textDocument/completion" => {
                let at = parse_parameters::<CompletionParams>(parameters)?.text_document_position;
                to_json(self.completions(&at))
            }
            "completionItem/resolve" => to_json(Some(completion::resolve(parse_parameters(parameters)?))),
            "textDocument/definition" => {
                let at = parse_parameters::<GotoDefinitionParams>(parameters)?.text_document_position_params;
                to_json(self.with_document_at(&at, |opened, document, offset| {
                    definition::definition(opened, document, offset, &self.places(opened))
                }))
            }
            "textDocument/documentSymbol" => {
                let uri = parse_parameters::<DocumentSymbolParams>(parameters)?.text_document.uri;
                let opened = self.documents.get(uri.as_str());
                to_json(opened.and_then(|opened| {
                    let found = symbols::symbols(&opened.parse()?, &opened.text, self.client.encoding);
                    Some(DocumentSymbolResponse::Nested(found))
                }))
            }
            "textDocument/formatting" => {
                let uri = parse_parameters::<DocumentFormattingParams>(parameters)?.text_document.uri;
                to_json(self.documents.get(uri.as_str()).and_then(|opened| self.formatted(opened)))
            }
            "textDocument/codeAction" => {
                let given = parse_parameters::<CodeActionParams>(parameters)?;
                let opened = self.documents.get(given.text_document.uri.as_str());
                let buffers = self.buffers();
                to_json(opened.map(|opened| {
                    let compile = |text: &str| {
                        (self.compile)(&opened.name, text, &buffers, SourceMap::default()).compiled
                    };
                    let edit = |uri: &Uri, edit: TextEdit| self.edit(uri, &edit);
                    problems::actions(opened, given.range, &self.places(opened), &compile, &edit)
                }))
            }
            "textDocument/inlayHint" => {
                let given = parse_parameters::<InlayHintParams>(parameters)?;
                let opened = self.documents.get(given.text_document.uri.as_str());
                let all = self.documents.values();
                to_json(
                    opened.map(|opened| {
                        inlay_hints::inlay_hints(opened, all, given.range, self.client.encoding)
                    }),
                )
            }
            "textDocument/codeLens" => {
                let uri = parse_parameters::<CodeLensParams>(parameters)?.text_document.uri;
                let opened = self.documents.get(uri.as_str());
                to_json(opened.map(|opened| code_lens::code_lenses(opened, &self.client)))
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
        answer(opened, &document, self.client.encoding.offset(&opened.text, at.position))
    }

    fn places<'s>(&'s self, opened: &'s OpenDocument) -> problems::Places<'s> {
        opened.places(&self.client.folder, self.client.encoding)
    }

    /// Returns the completions in the text as it is, with the values of the last compiled plan: whoever types
    /// waits for no compilation.
    fn completions(&self, at: &TextDocumentPositionParams) -> Option<Vec<CompletionItem>> {
        let open = self.texts.get(at.text_document.uri.as_str())?;
        let document = document::parse(SourceId(0), &open.text, &mut Problems::default()).unwrap_or_default();
        let opened = self.documents.get(at.text_document.uri.as_str());
        let offset = self.client.encoding.offset(&open.text, at.position);
        let encoding = self.client.encoding;
        Some(completion::completions(opened, &document, &open.text, offset, encoding, self.codes))
    }

    /// Returns an edit of a file, with the version of the text that it is about if the client takes it.
    fn edit(&self, uri: &Uri, edit: &TextEdit) -> Option<WorkspaceEdit> {
        // Built as JSON, because the map of the type is unordered.
        let edit = if self.client.takes_versioned_edits {
            let version = self.texts.get(uri.as_str()).map(|open| open.version);
            let document = json!({"uri": uri, "version": version});
            json!({"documentChanges": [{"textDocument": document, "edits": [edit]}]})
        } else {
            json!({"changes": {uri.as_str(): [edit]}})
        };
        serde_json::from_value(edit).ok()
    }

    /// Formats the whole text; `None` while it has syntax errors.
    fn formatted(&self, opened: &OpenDocument) -> Option<Vec<TextEdit>> {
        let new = format::format(&opened.text).ok()?;
        if new == opened.text {
            return Some(Vec::new());
        }
        Some(vec![TextEdit::new(self.client.encoding.range(&opened.text, 0, opened.text.len()), new)])
    }
}

/// The URIs of open files as the client writes them, by path: it may use another form than the server.
struct ClientUris<'a>(BTreeMap<String, &'a str>);

impl<'a> ClientUris<'a> {
    fn new(documents: impl Iterator<Item = &'a OpenDocument>) -> Self {
        let uris = documents.map(|opened| opened.uri.as_str());
        Self(uris.filter_map(|uri| Some((file_path(uri)?, uri))).collect())
    }

    /// Adds problems of one manifest, each once: several manifests have those of a common layer.
    fn merge(&self, files: &mut ByFile, found: ByFile) {
        for (uri, list) in found {
            let same = file_path(&uri).and_then(|path| self.0.get(&path));
            let uri = same.map_or(uri, |uri| (*uri).to_owned());
            merge_lists(files.entry(uri).or_default(), list);
        }
    }
}

fn merge_lists(list: &mut Vec<Diagnostic>, more: Vec<Diagnostic>) {
    for one in more {
        if !list.contains(&one) {
            list.push(one);
        }
    }
}

fn parse<T: DeserializeOwned>(parameters: Value) -> Option<T> {
    serde_json::from_value(parameters).ok()
}

fn parse_parameters<T: DeserializeOwned>(parameters: Value) -> Result<T, RequestError> {
    serde_json::from_value(parameters).map_err(|error| RequestError::BadParameters(error.to_string()))
}

fn to_json<T: serde::Serialize>(answer: Option<T>) -> Result<Value, RequestError> {
    serde_json::to_value(answer).map_err(|error| RequestError::BadParameters(error.to_string()))
}
