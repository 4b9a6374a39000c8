//! The file system: manifests, layers and program directories below the root of the repository.

use crate::directory::emitted_files;
use crate::manifest_paths::{MOST_NESTED, Named};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use trainc_diag::source::is_file;
use trainc_ir::{SourceFile, SourceTree};
use trainc_plan::Options;
use trainc_plan::ReadError;
use trainc_plan::Repository;
use trainc_plan::World;
use trainc_plan::resolve::{LayerLoader, LoadedLayer};

/// Maximum size of a program directory in bytes.
pub const MOST_SOURCE_BYTES: u64 = 512 << 20;
/// Maximum number of files of a program directory.
pub const MOST_SOURCE_FILES: usize = 20_000;
/// Reason for which a program directory over these limits is refused.
pub const TOO_LARGE: &str = "it holds over 512 MiB or 20,000 files; data belong in a channel";

/// Maximum size of a layer in bytes; the parser's own limit is lower.
const MOST_LAYER_BYTES: u64 = 4 << 20;
/// Maximum size of a model config in bytes.
const MOST_CONFIG_BYTES: u64 = 4 << 20;

/// Maximum size of a manifest in bytes; the parser's own limit is lower.
pub const MOST_MANIFEST_BYTES: u64 = 4 << 20;

/// Maximum size of a saved plan in bytes.
pub const MOST_SAVED_PLAN_BYTES: u64 = 64 << 20;

/// Maximum size of a table of runs or a file of constants in bytes.
pub const MOST_TABLE_BYTES: u64 = 64 << 20;

/// A source of manifests.
pub trait Tree: World {
    /// Reads a manifest, or returns the reason why it cannot be read.
    fn read(&mut self, file: &Named) -> Result<Vec<u8>, String>;
}

/// The files below the root of a repository.
pub struct Files {
    /// Canonical root, outside of which nothing is read.
    root: PathBuf,
    /// Cache of directories.
    trees: BTreeMap<PathBuf, Result<SourceTree, ReadError>>,
    /// Path of `--worker`.
    worker: Option<PathBuf>,
    /// True if git repositories are fetched.
    fetch: bool,
    /// Cache of the worker's binary.
    binary: std::sync::OnceLock<Option<SourceFile>>,
    /// Texts in place of those of files.
    edits: Arc<Edits>,
}

/// Texts of files by their canonical path.
pub type Edits = BTreeMap<PathBuf, String>;

impl Files {
    /// Creates a reader of the files below a root.
    pub fn new(root: PathBuf, options: &Options) -> Self {
        let (worker, fetch) = (options.worker.clone(), options.fetch);
        let (trees, binary) = (BTreeMap::new(), std::sync::OnceLock::new());
        Self { root, trees, worker, fetch, binary, edits: Arc::default() }
    }

    /// Reads these texts in place of those of files.
    #[must_use]
    pub fn with_edits(mut self, edits: &Arc<Edits>) -> Self {
        self.edits = Arc::clone(edits);
        self
    }

    /// Returns the edited text of a file.
    fn edited(&self, path: &Path) -> Option<&String> {
        if self.edits.is_empty() { None } else { self.edits.get(&path.canonicalize().ok()?) }
    }

    /// Returns the canonical root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns true if a path leads outside the root.
    pub fn leads_outside_root(&self, path: &Path) -> bool {
        path.canonicalize().is_ok_and(|found| !found.starts_with(&self.root))
    }

    /// Returns the path that a file names, canonical if it exists.
    pub fn named_path(&self, from: &str, path: &str) -> PathBuf {
        let base = Some(from).filter(|from| is_file(from)).and_then(|from| Path::new(from).parent());
        let joined = base.unwrap_or(Path::new(".")).join(path);
        joined
            .canonicalize()
            .unwrap_or_else(|_| normalize_path(&std::env::current_dir().unwrap_or_default().join(&joined)))
    }

    /// Returns the error of a path that leads outside the root.
    fn outside_root(&self) -> ReadError {
        ReadError::OutsideRoot { is_repository: self.root.join(".git").exists() }
    }

    /// Resolves a path relative to the file that names it; fails outside the root.
    pub fn find(&self, from: &str, path: &str) -> Result<PathBuf, ReadError> {
        let of_file = Some(from).filter(|from| is_file(from)).and_then(|from| Path::new(from).parent());
        let base = of_file.map_or_else(|| PathBuf::from("."), Path::to_path_buf);
        let joined = base.join(path);
        match joined.canonicalize() {
            Ok(found) => match found.strip_prefix(&self.root) {
                Ok(inside) if has_git_component(inside) => {
                    Err(ReadError::Unreadable(GIT_DIRECTORY.to_owned()))
                }
                Ok(_) => Ok(found),
                Err(_) => Err(self.outside_root()),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // Reported as outside even if it does not exist.
                let flat = normalize_path(&std::env::current_dir().unwrap_or_default().join(&joined));
                if flat.starts_with(&self.root) { Err(ReadError::NotFound) } else { Err(self.outside_root()) }
            }
            Err(error) => Err(ReadError::Unreadable(describe(&error))),
        }
    }
}

/// Reason for which a file in `.git` is not read: it may hold credentials, such as a remote's URL with a
/// token.
const GIT_DIRECTORY: &str = "it is in `.git`, whose files trainc does not read";

/// Returns true if a path leads into a git directory.
fn has_git_component(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == ".git")
}

/// Resolves `.` and `..` in a path without file system access.
fn normalize_path(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(part),
        }
    }
    out
}

/// Describes an I/O error.
pub fn describe(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        std::io::ErrorKind::InvalidData => "not UTF-8 text".to_owned(),
        _ if error.raw_os_error().is_none() => error.to_string(),
        _ => error.to_string().to_lowercase(),
    }
}

/// Returns a path for display: relative to the working directory if below it.
pub fn display_path(path: &Path) -> String {
    let here = std::env::current_dir().ok().and_then(|here| here.canonicalize().ok());
    let relative = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_path_buf));
    relative.unwrap_or_else(|| path.to_path_buf()).to_string_lossy().into_owned()
}

impl LayerLoader for Files {
    fn read_layer(&mut self, from: &str, path: &str) -> Result<LoadedLayer, ReadError> {
        let found = self.find(from, path)?;
        let text = match self.edited(&found) {
            Some(text) => text.clone(),
            None => read_text(&found, MOST_LAYER_BYTES)?,
        };
        // Joined to the file that names it, so that a relative path stays relative.
        let name = match Path::new(from).parent() {
            Some(parent) if is_file(from) => {
                normalize_path(&parent.join(path)).to_string_lossy().into_owned()
            }
            _ => path.to_owned(),
        };
        let name = if Path::new(&name).exists() { name } else { display_path(&found) };
        Ok(LoadedLayer { name, identity: found.to_string_lossy().into_owned(), text })
    }

    fn file_identity(&self, name: &str) -> String {
        Path::new(name)
            .canonicalize()
            .map_or_else(|_| name.to_owned(), |path| path.to_string_lossy().into_owned())
    }
}

impl World for Files {
    fn read_directory(&mut self, from: &str, path: &str) -> Result<SourceTree, ReadError> {
        let found = self.find(from, path)?;
        if let Some(known) = self.trees.get(&found) {
            return known.clone().map(|tree| SourceTree { dir: path.to_owned(), ..tree });
        }
        let tree = read_tree(&found, path);
        self.trees.insert(found, tree.clone());
        tree
    }

    fn read_text(&mut self, from: &str, path: &str) -> Result<String, ReadError> {
        let found = self.find(from, path)?;
        self.edited(&found).map_or_else(|| read_text(&found, MOST_CONFIG_BYTES), |text| Ok(text.clone()))
    }

    fn read_git_tree(&mut self, repository: &Repository) -> Option<Result<SourceTree, ReadError>> {
        let found = self.fetch.then(|| crate::git::fetch(repository)).flatten()?;
        Some(found.map_err(ReadError::Unreadable))
    }

    fn worker_binary(&mut self) -> Option<SourceFile> {
        self.binary.get_or_init(|| crate::worker_binary::read(self.worker.as_deref())).clone()
    }
}

impl Tree for Files {
    fn read(&mut self, file: &Named) -> Result<Vec<u8>, String> {
        if let Some(text) = self.edited(&file.path) {
            return Ok(text.clone().into_bytes());
        }
        // Not read past the limit: the parser reports the size.
        if file.walked.is_some() {
            let mut bytes = Vec::new();
            let read = open_regular(&file.path)
                .and_then(|open| open.take(MOST_MANIFEST_BYTES).read_to_end(&mut bytes));
            return read.map(|_| bytes).map_err(|error| describe(&error));
        }
        read_named_start(&file.path, MOST_MANIFEST_BYTES).map_err(|error| describe(&error))
    }
}

/// Writes a manifest or a layer in place. A link is followed inside its root only: what a repository holds
/// decides about no file outside of it.
pub fn write_in_root(path: &Path, text: &str) -> io::Result<()> {
    if crate::manifest_paths::follows_link_out_of_root(path)? {
        return Err(io::Error::other("the link leads outside the root directory; name its target"));
    }
    fs::write(path, text)
}

/// Reads a text file that a manifest names.
fn read_text(path: &Path, most: u64) -> Result<String, ReadError> {
    read_regular_text(path, most).map_err(|error| ReadError::Unreadable(describe(&error)))
}

/// Reads a file that a search found, or a manifest names. Fails unless it is a regular file of at most `most`
/// bytes: a pipe could wait forever, and a device never end.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_at_most(open_regular(path)?, most)
}

/// Reads a text file that a search found, or a manifest names.
pub fn read_regular_text(path: &Path, most: u64) -> io::Result<String> {
    into_text(read_regular(path, most)?)
}

fn into_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Reads a file that the user named: a regular file, a pipe, or `-`, of at most `most` bytes.
pub fn read_named(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let bytes = read_named_start(path, most + 1)?;
    if bytes.len() as u64 > most { Err(larger_than(most)) } else { Ok(bytes) }
}

/// Reads a text file that the user named.
pub fn read_named_text(path: &Path, most: u64) -> io::Result<String> {
    into_text(read_named(path, most)?)
}

/// Content of the pipes and of standard input that were read: the same manifest may be read again, e.g. for
/// each job of a sweep.
static PIPES: Mutex<BTreeMap<PathBuf, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// Reads the first `most` bytes of a file that the user named.
fn read_named_start(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path != Path::new("-") && fs::metadata(path)?.is_file() {
        open_named(path)?.take(most).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    let mut pipes = PIPES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = pipes.get(path) {
        return Ok(known.clone());
    }
    open_named(path)?.take(most).read_to_end(&mut bytes)?;
    pipes.insert(path.to_path_buf(), bytes.clone());
    Ok(bytes)
}

/// Opens a file that the user named, to read it from start to end.
pub fn open_named(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let metadata = fs::metadata(path)?;
    if !is_pipe(&metadata) {
        return Ok(Box::new(open_regular(path)?));
    }
    Ok(Box::new(PipeReader { file: open_without_waiting(path)?, has_writer: false }))
}

fn open_regular(path: &Path) -> io::Result<fs::File> {
    let check = |metadata: &fs::Metadata| {
        if metadata.is_dir() {
            Err(io::Error::from(io::ErrorKind::IsADirectory))
        } else if metadata.is_file() {
            Ok(())
        } else {
            Err(io::Error::other("not a regular file"))
        }
    };
    // Before it is opened, because that alone affects some devices; and after, because it may have been
    // replaced.
    check(&fs::metadata(path)?)?;
    let file = open_without_waiting(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

fn read_at_most(file: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(larger_than(most)) } else { Ok(bytes) }
}

fn larger_than(most: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {}", trainc_diag::text::bytes(most)))
}

#[cfg(unix)]
fn open_without_waiting(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(not(unix))]
fn open_without_waiting(path: &Path) -> io::Result<fs::File> {
    fs::File::open(path)
}

/// Returns true if a path leads to a pipe, such as the shell's `<(…)`.
pub fn names_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| is_pipe(&metadata))
}

#[cfg(unix)]
fn is_pipe(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: &fs::Metadata) -> bool {
    false
}

/// Reader of a pipe. Waits for a slow writer, but fails if no process opens the other end.
struct PipeReader {
    file: fs::File,
    has_writer: bool,
}

/// Time in seconds that a process has to open the other end of a pipe.
const WRITER_TIMEOUT: i64 = 5;

impl Read for PipeReader {
    #[cfg(unix)]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        loop {
            let limit = Timespec { tv_sec: WRITER_TIMEOUT, tv_nsec: 0 };
            let mut wanted = [PollFd::new(&self.file, PollFlags::IN)];
            let ready = poll(&mut wanted, (!self.has_writer).then_some(&limit))?;
            match self.file.read(buffer) {
                // The end of the text, except while no process has opened the pipe.
                Ok(0) if ready == 0 => return Err(io::Error::other("no process writes to this pipe")),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.has_writer = true,
                done => {
                    self.has_writer = true;
                    return done;
                }
            }
        }
    }

    #[cfg(not(unix))]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.has_writer = true;
        self.file.read(buffer)
    }
}

fn read_tree(root: &Path, written: &str) -> Result<SourceTree, ReadError> {
    if !root.is_dir() {
        return Err(ReadError::Unreadable("not a directory".to_owned()));
    }
    // All faults are reported together.
    let mut faults: Vec<String> = Vec::new();
    // Sizes are added up before a file is read.
    let mut found: Vec<(String, PathBuf, bool)> = Vec::new();
    let mut total = 0_u64;
    let mut hidden: BTreeSet<PathBuf> = BTreeSet::new();
    // A directory, its path in the tree, and its parents.
    let mut pending: Vec<(PathBuf, String, Vec<PathBuf>)> =
        vec![(root.to_path_buf(), String::new(), Vec::new())];
    let mut directories = 0;
    let unreadable = |error: std::io::Error| ReadError::Unreadable(describe(&error));
    let too_large = || ReadError::Unreadable(TOO_LARGE.to_owned());
    while let Some((dir, prefix, mut above)) = pending.pop() {
        directories += 1;
        if directories > MOST_SOURCE_FILES {
            return Err(too_large());
        }
        above.push(dir.clone());
        if dir != root {
            hidden.extend(emitted_files(&dir));
        }
        if above.len() > MOST_NESTED + 1 {
            let why = format!("it holds directories more than {MOST_NESTED} deep");
            return Err(ReadError::Unreadable(why));
        }
        for entry in fs::read_dir(&dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            let shown = name.to_string_lossy();
            if is_excluded_from_archive(&shown) {
                continue;
            }
            let path = if prefix.is_empty() { shown.into_owned() } else { format!("{prefix}/{shown}") };
            // The archive has names in UTF-8; two names may differ only in bytes that are not.
            if name.to_str().is_none() {
                faults.push(format!("the name `{}` is not valid UTF-8", escape_bytes(&name, &prefix)));
                continue;
            }
            // Links are followed, as in the SageMaker SDK, but not out of the directory.
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let target = match entry.path().canonicalize() {
                Ok(target) => target,
                Err(_) if is_link => {
                    faults.push(format!("the link `{path}` leads nowhere"));
                    continue;
                }
                Err(error) => {
                    faults.push(format!("`{path}`: {}", describe(&error)));
                    continue;
                }
            };
            match target.strip_prefix(root) {
                Ok(inside) if has_git_component(inside) => {
                    faults.push(format!("the link `{path}` leads into `.git`"));
                    continue;
                }
                Ok(_) => {}
                Err(_) => {
                    faults.push(format!("the link `{path}` leaves the directory"));
                    continue;
                }
            }
            if target.is_dir() {
                if above.contains(&target) {
                    faults.push(format!("the link `{path}` leads in a circle"));
                    continue;
                }
                pending.push((target, path, above.clone()));
                continue;
            }
            if hidden.contains(&entry.path()) {
                continue;
            }
            let metadata = fs::metadata(&target).map_err(unreadable)?;
            if !metadata.is_file() {
                faults.push(format!("`{path}` is not a regular file"));
                continue;
            }
            total += metadata.len();
            if total > MOST_SOURCE_BYTES || found.len() >= MOST_SOURCE_FILES {
                return Err(too_large());
            }
            found.push((path, target, is_executable(&metadata)));
        }
    }
    if !faults.is_empty() {
        return Err(ReadError::Unreadable(list_faults(faults)));
    }
    let mut left = MOST_SOURCE_BYTES;
    let mut files: Vec<SourceFile> = Vec::new();
    for (path, target, executable) in found {
        // A file that grows meanwhile is not read past the limit either.
        let bytes = read_regular(&target, left).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => too_large(),
            _ => unreadable(error),
        })?;
        left -= bytes.len() as u64;
        files.push(SourceFile::new(path, bytes, executable));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(SourceTree { dir: written.to_owned(), files })
}

/// Returns a name with the bytes that are not UTF-8 as `\xNN`.
fn escape_bytes(name: &std::ffi::OsStr, prefix: &str) -> String {
    let mut out = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    for chunk in name.as_encoded_bytes().utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    out
}

/// Lists the first faults, and counts the others.
fn list_faults(mut faults: Vec<String>) -> String {
    /// Maximum number of listed faults.
    const MOST: usize = 6;
    faults.sort();
    if let Some(more) = faults.len().checked_sub(MOST).filter(|more| *more > 0) {
        faults.truncate(MOST);
        faults.push(format!("{more} more"));
    }
    trainc_diag::text::list(&faults, "and")
}

/// Returns true for files that never belong in the archive because they differ between machines.
pub fn is_excluded_from_archive(name: &str) -> bool {
    matches!(name, ".git" | "__pycache__" | ".DS_Store" | ".ipynb_checkpoints" | ".pytest_cache")
        || name.ends_with(".pyc")
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_circle_of_links_is_named_and_two_ways_to_a_directory_are_none() {
        let root = std::env::temp_dir().join(format!("trainc-links-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/x.py"), "").unwrap();
        let root = root.canonicalize().unwrap();
        symlink(root.join("a"), root.join("also")).unwrap();
        let tree = read_tree(&root, ".").unwrap();
        let paths: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["a/b/x.py", "also/b/x.py"]);
        fs::remove_file(root.join("also")).unwrap();
        symlink(root.join("a"), root.join("a/b/up")).unwrap();
        let fault = read_tree(&root, ".").unwrap_err();
        assert_eq!(fault, ReadError::Unreadable("the link `a/b/up` leads in a circle".to_owned()));
        fs::remove_file(root.join("a/b/up")).unwrap();
        let deep = root.join("d/".repeat(MOST_NESTED + 1));
        fs::create_dir_all(&deep).unwrap();
        let fault = read_tree(&root, ".").unwrap_err();
        assert_eq!(fault, ReadError::Unreadable("it holds directories more than 64 deep".to_owned()));
        fs::remove_dir(deep).unwrap();
        assert_eq!(read_tree(&root, ".").unwrap().files.len(), 1);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn every_file_that_cannot_be_packed_is_named() {
        let root = std::env::temp_dir().join(format!("trainc-faults-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("in/scripts")).unwrap();
        let root = root.canonicalize().unwrap();
        fs::write(root.join("secret.txt"), "").unwrap();
        symlink(root.join("secret.txt"), root.join("in/scripts/out")).unwrap();
        symlink(root.join("in/no-such"), root.join("in/scripts/gone")).unwrap();
        fs::create_dir_all(root.join("in/.git")).unwrap();
        fs::write(root.join("in/.git/config"), "").unwrap();
        symlink("../.git/config", root.join("in/scripts/settings")).unwrap();
        let fault = read_tree(&root.join("in/scripts"), ".").unwrap_err();
        let both = "the link `gone` leads nowhere, the link `out` leaves the directory and the link \
            `settings` leaves the directory";
        assert_eq!(fault, ReadError::Unreadable(both.to_owned()));
        for at in 0..9 {
            symlink(root.join("in/no-such"), root.join(format!("in/scripts/gone{at}"))).unwrap();
        }
        let ReadError::Unreadable(words) = read_tree(&root.join("in/scripts"), ".").unwrap_err() else {
            panic!("it is unreadable")
        };
        assert!(words.ends_with("and 6 more"), "{words}");
        // A link into `.git` of the directory itself.
        symlink(".git/config", root.join("in/settings")).unwrap();
        fs::remove_dir_all(root.join("in/scripts")).unwrap();
        let fault = read_tree(&root.join("in"), ".").unwrap_err();
        assert_eq!(fault, ReadError::Unreadable("the link `settings` leads into `.git`".to_owned()));
        let files = Files::new(root.join("in"), &Options::default());
        let of_git = files.find(&root.join("in/job.kdl").display().to_string(), ".git/config");
        assert_eq!(of_git, Err(ReadError::Unreadable(GIT_DIRECTORY.to_owned())));
        fs::remove_dir_all(root).unwrap();
    }

    /// Names that differ only in bytes that are not UTF-8 would be one file of the archive.
    #[cfg(target_os = "linux")]
    #[test]
    fn names_that_are_not_utf8_are_refused() {
        use std::os::unix::ffi::OsStrExt as _;
        let root = std::env::temp_dir().join(format!("trainc-names-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("data")).unwrap();
        for name in [b"a\xff.py", b"a\xfe.py"] {
            fs::write(root.join("data").join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
        }
        let fault = read_tree(&root.canonicalize().unwrap(), ".").unwrap_err();
        let both =
            "the name `data/a\\xfe.py` is not valid UTF-8 and the name `data/a\\xff.py` is not valid UTF-8";
        assert_eq!(fault, ReadError::Unreadable(both.to_owned()));
        fs::remove_dir_all(root).unwrap();
    }
}
