//! A revision of a git repository, read object by object without a checkout.
//!
//! `git cat-file --batch` reads all objects, by names on its standard input.

use super::{Repository, last_error_line};
use crate::directory::files_of_plan;
use crate::files::{
    MOST_MANIFEST_BYTES, MOST_SOURCE_BYTES, MOST_SOURCE_FILES, TOO_LARGE, Tree, describe,
    is_excluded_from_archive,
};
use crate::manifest_paths::Named;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use trainc_ir::{SourceFile, SourceTree};
use trainc_plan::ReadError;
use trainc_plan::World;
use trainc_plan::resolve::{LayerLoader, LoadedLayer};

/// The error of a path that leads out of the repository.
const OUTSIDE: ReadError = ReadError::OutsideRoot { is_repository: true };

/// A commit of a repository.
pub struct Revision {
    repository: Repository,
    /// The revision as the user wrote it.
    name: String,
    commit: String,
    batch: Option<Batch>,
    trees: BTreeMap<String, Result<SourceTree, ReadError>>,
    worker: Option<PathBuf>,
}

/// `git cat-file --batch` while it runs.
struct Batch {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Batch {
    fn drop(&mut self) {
        // It would end with its input; its exit status does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Mode of a symbolic link.
const LINK: &str = "120000";

/// An entry of `git ls-tree`.
struct Entry {
    mode: String,
    /// ID of the object.
    id: String,
    /// Relative to the directory that was listed.
    path: String,
    /// Size in bytes, if it was asked for.
    size: u64,
}

enum Object {
    Blob(Vec<u8>),
    Tree,
}

impl Revision {
    /// Resolves a revision of the repository around a directory, or returns the reason there is none.
    pub fn open(root: &Path, name: &str, worker: Option<PathBuf>) -> Result<Self, String> {
        if name.is_empty() || name.starts_with('-') || name.contains(['\n', '\0']) {
            return Err("not a valid name of a revision".to_owned());
        }
        let repository = Repository { dir: root.to_path_buf(), is_bare: false };
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")];
        let output = repository.output(&words)?;
        let commit = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || commit.is_empty() {
            return Err(last_error_line(&output).unwrap_or_else(|| "git finds no such revision".to_owned()));
        }
        Ok(Self { name: name.to_owned(), worker, ..Self::new(repository, commit) })
    }

    /// A commit that is known to be in the repository.
    pub(super) fn new(repository: Repository, commit: String) -> Self {
        let name = commit.clone();
        Self { repository, name, commit, batch: None, trees: BTreeMap::new(), worker: None }
    }

    /// The commit, hexadecimal.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// Returns a path of the repository in git's own notation, `REVISION:PATH`.
    pub fn revision_path(&self, path: &str) -> String {
        format!("{}:{path}", self.name)
    }

    /// Returns true for the name of a source that was read from this revision.
    pub fn has_source(&self, name: &str) -> bool {
        self.path_of_source(name).is_some()
    }

    fn path_of_source<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(self.name.as_str())?.strip_prefix(':')
    }

    /// Returns the files below a directory (empty for the whole repository), relative to the repository.
    pub fn files(&mut self, dir: &str) -> Result<Vec<String>, String> {
        let at = if dir.is_empty() { self.commit.clone() } else { format!("{}:{dir}", self.commit) };
        let entries = self.list(&at, &[])?;
        let entries = self.without_emitted(dir, entries);
        let files = entries.into_iter().filter(|entry| entry.mode.starts_with('1') && entry.mode != "160000");
        Ok(files
            .map(|entry| if dir.is_empty() { entry.path } else { format!("{dir}/{}", entry.path) })
            .collect())
    }

    /// Returns true if the path exists in the repository.
    pub fn has_path(&mut self, path: &str) -> bool {
        self.object(path).is_ok()
    }

    /// Lists the files of a tree. With the option `-l` it also reads their sizes.
    fn list(&self, tree: &str, options: &[&str]) -> Result<Vec<Entry>, String> {
        let words = [&["ls-tree", "-r", "-z", "--full-tree"], options, &[tree]].concat();
        let output = self.repository.run(&words)?;
        let text = String::from_utf8_lossy(&output);
        Ok(text
            .split('\0')
            .filter_map(|line| line.split_once('\t'))
            .map(|(about, path)| {
                let mut words = about.split_whitespace();
                let (mode, _, id) = (words.next(), words.next(), words.next());
                Entry {
                    mode: mode.unwrap_or("").to_owned(),
                    id: id.unwrap_or("").to_owned(),
                    path: path.to_owned(),
                    size: words.next().and_then(|size| size.parse().ok()).unwrap_or(0),
                }
            })
            .collect())
    }

    /// Removes the files that `emit` wrote.
    fn without_emitted(&mut self, root: &str, mut entries: Vec<Entry>) -> Vec<Entry> {
        let plans = entries.iter().filter_map(|entry| entry.path.strip_suffix("plan.json"));
        let dirs: Vec<String> = plans.filter(|dir| dir.ends_with('/')).map(str::to_owned).collect();
        let mut hidden: BTreeSet<PathBuf> = BTreeSet::new();
        for dir in dirs {
            if let Ok(Object::Blob(bytes)) =
                self.object(format!("{root}/{dir}plan.json").trim_start_matches('/'))
            {
                let files = files_of_plan(&bytes).unwrap_or_default();
                hidden.extend(files.iter().map(|file| Path::new(&dir).join(file)));
            }
        }
        entries.retain(|entry| !hidden.contains(Path::new(&entry.path)));
        entries
    }

    fn batch(&mut self) -> std::io::Result<&mut Batch> {
        if self.batch.is_none() {
            let mut child = self
                .repository
                .command()
                .args(["cat-file", "--batch", "--follow-symlinks"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()?;
            let missing = || std::io::Error::other("git has no pipe");
            let input = child.stdin.take().ok_or_else(missing)?;
            let output = BufReader::new(child.stdout.take().ok_or_else(missing)?);
            self.batch = Some(Batch { child, input, output });
        }
        self.batch.as_mut().ok_or_else(|| std::io::Error::other("git does not run"))
    }

    /// Reads the object at a path of the repository; links are followed inside it.
    fn object(&mut self, path: &str) -> Result<Object, ReadError> {
        if path.contains('\n') {
            return Err(ReadError::NotFound);
        }
        let name = format!("{}:{path}", self.commit);
        let batch = self.batch().map_err(git_read_error)?;
        batch.read_object(&name).map_err(git_read_error)?
    }

    fn blob(&mut self, path: &str, most: u64) -> Result<Vec<u8>, ReadError> {
        match self.object(path)? {
            Object::Blob(bytes) if bytes.len() as u64 > most => {
                Err(ReadError::Unreadable(format!("larger than {}", trainc_diag::text::bytes(most))))
            }
            Object::Blob(bytes) => Ok(bytes),
            Object::Tree => Err(ReadError::Unreadable("is a directory".to_owned())),
        }
    }

    /// Resolves a path relative to the file that names it, and returns it relative to the repository.
    fn find(&self, from: &str, path: &str) -> Result<String, ReadError> {
        let from = self.path_of_source(from).unwrap_or("");
        let mut steps: Vec<&str> = from.split('/').collect();
        steps.pop();
        let path = match Path::new(path).strip_prefix(&self.repository.dir) {
            Ok(inside) => {
                steps.clear();
                inside.to_str().unwrap_or("")
            }
            Err(_) if path.starts_with('/') => return Err(OUTSIDE),
            Err(_) => path,
        };
        for step in path.split('/') {
            match step {
                "" | "." => {}
                ".." => {
                    if steps.pop().is_none() {
                        return Err(OUTSIDE);
                    }
                }
                step => steps.push(step),
            }
        }
        Ok(steps.join("/"))
    }

    /// Returns true if a link of a tree leads out of the tree. Every link on the way is an entry of the tree
    /// itself.
    fn link_leaves_tree(&mut self, entry: &Entry) -> Result<bool, ReadError> {
        let batch = self.batch().map_err(git_read_error)?;
        let Object::Blob(target) = batch.read_object(&entry.id).map_err(git_read_error)?? else {
            return Ok(true);
        };
        let target = String::from_utf8_lossy(&target);
        // The depth of the link's directory below the tree, then after each step of the target.
        let mut depth = entry.path.matches('/').count();
        for step in target.split('/') {
            match step {
                "" | "." => {}
                ".." if depth == 0 => return Ok(true),
                ".." => depth -= 1,
                _ => depth += 1,
            }
        }
        Ok(target.starts_with('/'))
    }

    /// Reads all files below a directory (empty for the whole repository); `written` names the tree.
    pub(super) fn tree(&mut self, root: &str, written: &str) -> Result<SourceTree, ReadError> {
        match self.object(root)? {
            Object::Tree => {}
            Object::Blob(_) => return Err(ReadError::Unreadable("not a directory".to_owned())),
        }
        let at = format!("{}:{root}", self.commit);
        let entries = self.list(&at, &["-l"]).map_err(ReadError::Unreadable)?;
        if entries.iter().any(|entry| entry.mode == "160000") {
            return Err(ReadError::Unreadable("it has submodules, which are not supported".to_owned()));
        }
        let mut entries = self.without_emitted(root, entries);
        entries.retain(|entry| !entry.path.split('/').any(is_excluded_from_archive));
        // Before any of them is read.
        let size = entries.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.size));
        if size > MOST_SOURCE_BYTES || entries.len() > MOST_SOURCE_FILES {
            return Err(ReadError::Unreadable(TOO_LARGE.to_owned()));
        }
        let mut files: Vec<SourceFile> = Vec::new();
        let mut total = 0;
        for entry in entries {
            let path = &entry.path;
            if path.contains('\u{fffd}') {
                return Err(ReadError::Unreadable(format!("the name `{path}` is not valid UTF-8")));
            }
            let unreadable = |why: &str| ReadError::Unreadable(format!("the link `{path}` {why}"));
            if entry.mode == LINK && self.link_leaves_tree(&entry)? {
                return Err(unreadable("leaves the directory"));
            }
            let object = self.object(format!("{root}/{path}").trim_start_matches('/'));
            let bytes = match object {
                Ok(Object::Blob(bytes)) => bytes,
                Ok(Object::Tree) => return Err(unreadable("leads to a directory, which is not supported")),
                Err(ReadError::NotFound) => return Err(unreadable("leads nowhere")),
                Err(ReadError::OutsideRoot { .. }) => return Err(unreadable("leaves the repository")),
                Err(fault @ ReadError::Unreadable(_)) => return Err(fault),
            };
            total += bytes.len() as u64;
            if total > MOST_SOURCE_BYTES || files.len() >= MOST_SOURCE_FILES {
                return Err(ReadError::Unreadable(TOO_LARGE.to_owned()));
            }
            files.push(SourceFile::new(path.clone(), bytes, entry.mode == "100755"));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(SourceTree { dir: written.to_owned(), files })
    }
}

fn git_read_error(error: std::io::Error) -> ReadError {
    ReadError::Unreadable(format!("git: {}", describe(&error)))
}

impl Batch {
    /// Reads one object by its name. The outer error is git's, the inner one the object's.
    fn read_object(&mut self, name: &str) -> std::io::Result<Result<Object, ReadError>> {
        self.input.write_all(name.as_bytes())?;
        self.input.write_all(b"\n")?;
        self.input.flush()?;
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(std::io::Error::other("it ended early"));
        }
        let line = line.trim_end_matches('\n');
        if line.ends_with(" missing") || line.ends_with(" ambiguous") {
            return Ok(Err(ReadError::NotFound));
        }
        let mut words = line.rsplitn(3, ' ');
        let (size, kind, first) = (words.next(), words.next(), words.next());
        let size: u64 = size.and_then(|size| size.parse().ok()).ok_or_else(|| {
            std::io::Error::other(format!("an answer of another form than was expected: {line}"))
        })?;
        if size > MOST_SOURCE_BYTES {
            return Err(std::io::Error::other("an object is too large"));
        }
        let mut bytes = Vec::new();
        (&mut self.output).take(size).read_to_end(&mut bytes)?;
        self.output.read_exact(&mut [0])?;
        // For a broken link git prints the reason in place of the object's name and kind.
        Ok(match (first, kind) {
            (Some(_), Some("blob")) => Ok(Object::Blob(bytes)),
            (Some(_), Some("tree" | "commit")) => Ok(Object::Tree),
            (None, Some("symlink")) => Err(OUTSIDE),
            (None, Some("dangling" | "notdir")) => Err(ReadError::NotFound),
            _ => Err(ReadError::Unreadable("a link leads in a circle".to_owned())),
        })
    }
}

impl LayerLoader for Revision {
    fn read_layer(&mut self, from: &str, path: &str) -> Result<LoadedLayer, ReadError> {
        let found = self.find(from, path)?;
        let text = self.read_text(from, path)?;
        let name = self.revision_path(&found);
        Ok(LoadedLayer { identity: name.clone(), name, text })
    }

    fn file_identity(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl World for Revision {
    fn read_directory(&mut self, from: &str, path: &str) -> Result<SourceTree, ReadError> {
        let found = self.find(from, path)?;
        if let Some(known) = self.trees.get(&found) {
            return known.clone().map(|tree| SourceTree { dir: path.to_owned(), ..tree });
        }
        let tree = self.tree(&found, path);
        self.trees.insert(found, tree.clone());
        tree
    }

    fn read_text(&mut self, from: &str, path: &str) -> Result<String, ReadError> {
        let found = self.find(from, path)?;
        let bytes = self.blob(&found, MOST_MANIFEST_BYTES)?;
        String::from_utf8(bytes).map_err(|_| ReadError::Unreadable("not UTF-8 text".to_owned()))
    }

    fn worker_binary(&mut self) -> Option<SourceFile> {
        crate::worker_binary::read(self.worker.as_deref())
    }
}

impl Tree for Revision {
    fn read(&mut self, file: &Named) -> Result<Vec<u8>, String> {
        self.blob(&file.path.to_string_lossy(), MOST_MANIFEST_BYTES).map_err(|fault| match fault {
            ReadError::NotFound => "no such file".to_owned(),
            ReadError::OutsideRoot { .. } => "a link leaves the repository".to_owned(),
            ReadError::Unreadable(why) => why,
        })
    }
}
