//! Compiles manifests for the language server: the open ones with their unsaved text, and all others of the
//! workspace in a thread of their own.

use crossbeam_channel::{Receiver, Sender};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trainc_check::compile;
use trainc_diag::Problems;
use trainc_diag::source::{SourceMap, is_file};
use trainc_ir::SourceTree;
use trainc_lsp::{Buffers, CheckedManifest, Client, Compilation, FIRST_CLOSED_PART, Reads};
use trainc_plan::resolve::{LayerLoader, LoadedLayer};
use trainc_plan::{Compiled, Options, ReadError, World};
use trainc_project::files::{Edits, Files, Tree as _};
use trainc_project::manifest_paths::{Named, expand, root_of};
use trainc_syntax::is_of_another_program;

/// Maximum number of manifests that are checked in addition to the open ones.
const MOST_CHECKED: usize = 1_000;

/// How long results are collected before they are handed over.
const COLLECTING: Duration = Duration::from_millis(100);

/// Returns the canonical path of a named file, even if the file itself does not exist.
pub(super) fn canonical(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    if !is_file(name) {
        return None;
    }
    path.canonicalize().ok().or_else(|| {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(parent.canonicalize().ok()?.join(path.file_name()?))
    })
}

/// Returns the open texts of files by their canonical path.
pub(super) fn edits(buffers: &Buffers) -> Edits {
    buffers.iter().filter_map(|(name, text)| Some((canonical(name)?, text.clone()))).collect()
}

/// Compiles the text of a manifest, with these texts in place of those of files.
pub(super) fn compile_manifest(
    name: &str,
    text: &str,
    edits: &Arc<Edits>,
    options: &Options,
    mut sources: SourceMap,
) -> Compilation {
    let source = sources.add(name, text);
    let files = Files::new(root_of(Path::new(name), None), &Options::default()).with_edits(edits);
    let mut world = Recorder { files, reads: Reads::default() };
    let compiled = if is_of_another_program(text) {
        Compiled::unreadable_file(Problems::default())
    } else {
        compile(source, text, options, &mut world, &mut sources)
    };
    Compilation { compiled, sources, source, reads: world.reads }
}

/// The files of a repository, with a record of what is read.
struct Recorder {
    files: Files,
    reads: Reads,
}

impl LayerLoader for Recorder {
    fn read_layer(&mut self, from: &str, path: &str) -> Result<LoadedLayer, ReadError> {
        self.reads.add_file(self.files.named_path(from, path));
        self.files.read_layer(from, path)
    }

    fn file_identity(&self, name: &str) -> String {
        self.files.file_identity(name)
    }
}

impl World for Recorder {
    fn read_directory(&mut self, from: &str, path: &str) -> Result<SourceTree, ReadError> {
        self.reads.add_directory(self.files.named_path(from, path));
        self.files.read_directory(from, path)
    }

    fn read_text(&mut self, from: &str, path: &str) -> Result<String, ReadError> {
        self.reads.add_file(self.files.named_path(from, path));
        self.files.read_text(from, path)
    }
}

/// What changed since the last update.
pub(super) struct Update {
    /// Canonical paths of the workspace folders.
    pub(super) folders: Vec<PathBuf>,
    /// The open texts.
    pub(super) edits: Arc<Edits>,
    /// Files with another content, or that exist since or no longer.
    pub(super) paths: Vec<PathBuf>,
    /// Other manifests may exist.
    pub(super) is_list_outdated: bool,
}

/// Manifests by name, with their results; `None` for those that are open or not there any more.
type Results = Vec<(String, Option<CheckedManifest>)>;

/// A manifest that is not open.
struct Closed {
    file: Named,
    canonical: PathBuf,
    /// The number of its source map.
    part: u32,
    reads: Reads,
}

/// Checks the manifests of the workspace that are not open, one after the other, so that a newer change ends
/// what an older one began.
pub(super) struct Checker {
    folders: Vec<PathBuf>,
    options: Arc<Options>,
    client: Client,
    edits: Arc<Edits>,
    known: BTreeMap<String, Closed>,
    /// Names of the known manifests to check.
    outdated: BTreeSet<String>,
    is_list_outdated: bool,
    free_parts: Vec<u32>,
}

impl Checker {
    /// Makes a checker that knows no folder and no manifest.
    pub(super) fn new(options: Arc<Options>, client: Client) -> Self {
        let parts = (FIRST_CLOSED_PART..).take(MOST_CHECKED);
        Self {
            folders: Vec::new(),
            options,
            client,
            edits: Arc::default(),
            known: BTreeMap::new(),
            outdated: BTreeSet::new(),
            is_list_outdated: false,
            free_parts: parts.collect(),
        }
    }

    /// Checks what each update concerns, until there are no more updates.
    pub(super) fn run(mut self, updates: &Receiver<Update>, send: &Sender<Results>) {
        let mut results = Results::new();
        let mut since = Instant::now();
        loop {
            let is_idle = self.outdated.is_empty() && !self.is_list_outdated;
            if !results.is_empty() && (is_idle || since.elapsed() > COLLECTING) {
                since = Instant::now();
                if send.send(std::mem::take(&mut results)).is_err() {
                    return;
                }
            }
            if is_idle {
                let Ok(update) = updates.recv() else { return };
                self.apply(update);
                since = Instant::now();
            }
            loop {
                match updates.try_recv() {
                    Ok(update) => self.apply(update),
                    Err(crossbeam_channel::TryRecvError::Empty) => break,
                    Err(crossbeam_channel::TryRecvError::Disconnected) => return,
                }
            }
            if std::mem::take(&mut self.is_list_outdated) {
                results.extend(self.list_again());
            } else if let Some(name) = self.outdated.pop_first() {
                let checked = self.check(&name);
                results.push((name, checked));
            }
        }
    }

    fn apply(&mut self, update: Update) {
        let Update { folders, edits, paths, is_list_outdated } = update;
        self.folders = folders;
        let concerns = |one: &Closed| {
            paths.iter().any(|path| one.canonical.starts_with(path) || one.reads.include(path))
        };
        let found = self.known.iter().filter(|(_, one)| concerns(one));
        self.outdated.extend(found.map(|(name, _)| name.clone()));
        self.edits = edits;
        self.is_list_outdated |= is_list_outdated;
    }

    /// Searches for the manifests again; returns those that are open or not there any more.
    fn list_again(&mut self) -> Results {
        let found = self.manifests();
        let gone: Vec<String> =
            self.known.keys().filter(|name| !found.contains_key(*name)).cloned().collect();
        for name in &gone {
            self.outdated.remove(name);
            self.free_parts.extend(self.known.remove(name).map(|one| one.part));
        }
        for (name, (file, canonical)) in found {
            if !self.known.contains_key(&name)
                && let Some(part) = self.free_parts.pop()
            {
                self.outdated.insert(name.clone());
                self.known.insert(name, Closed { file, canonical, part, reads: Reads::default() });
            }
        }
        gone.into_iter().map(|name| (name, None)).collect()
    }

    /// Returns the manifests in the folders, and next to open ones outside of all folders, that are not open.
    fn manifests(&self) -> BTreeMap<String, (Named, PathBuf)> {
        let mut found = Vec::new();
        let here = std::env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
        for folder in &self.folders {
            let below = if *folder == here { ".".to_owned() } else { folder.to_string_lossy().into_owned() };
            found.extend(expand(&below).files);
        }
        let outside = |path: &&PathBuf| !self.folders.iter().any(|folder| path.starts_with(folder));
        let parents = self.edits.keys().filter(outside).filter_map(|path| path.parent());
        for dir in parents.collect::<BTreeSet<_>>() {
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
            let paths = entries.map(|entry| entry.path());
            let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "kdl"));
            found.extend(paths.map(|path| Named {
                shown: path.to_string_lossy().into_owned(),
                walked: Some(dir.to_path_buf()),
                path,
            }));
        }
        let named = |file: Named| {
            let canonical = file.path.canonicalize().ok()?;
            let is_open = self.edits.contains_key(&canonical);
            // What a link outside of the repository leads to is nobody's manifest.
            let is_outside = !canonical.starts_with(root_of(&file.path, file.walked.as_deref()));
            (!is_open && !is_outside && canonical.is_file()).then(|| (file.shown.clone(), (file, canonical)))
        };
        found.into_iter().filter_map(named).take(MOST_CHECKED).collect()
    }

    fn check(&mut self, name: &str) -> Option<CheckedManifest> {
        let closed = self.known.get_mut(name)?;
        let mut files = Files::new(root_of(&closed.file.path, None), &self.options).with_edits(&self.edits);
        let text = files.read(&closed.file).ok().and_then(|bytes| String::from_utf8(bytes).ok())?;
        let sources = SourceMap::with_part_number(closed.part);
        let mut compilation = compile_manifest(name, &text, &self.edits, &self.options, sources);
        closed.reads = std::mem::take(&mut compilation.reads);
        let (folder, encoding) = (&self.client.folder, self.client.encoding);
        Some(CheckedManifest::new(name.to_owned(), compilation, folder, encoding))
    }
}
