//! A revision of a git repository as manifests see it: read object by object, nothing is checked out.
//!
//! The program `git` is asked three things: which commit a revision is, what lies below a directory, and what an object
//! holds. The last goes through one `git cat-file --batch` for all objects, by names on its standard input.

use super::world::{MOST_MANIFEST_BYTES, Tree};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use trainc_ir::{SourceFile, SourceTree};
use trainc_plan::ReadError;
use trainc_plan::World;
use trainc_plan::resolve::{LayerLoader, LoadedLayer};

/// The most bytes of one object, and of all files of a program.
const MOST_BYTES: u64 = 512 << 20;
/// The most files of a program.
const MOST_FILES: usize = 20_000;

/// A commit of a repository.
pub(super) struct Objects {
    root: PathBuf,
    /// The revision as it was written.
    revision: String,
    /// The commit that it is.
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
        // It ends with its input; whether it did well is of no interest any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `git ls-tree` says of one entry.
struct Entry {
    mode: String,
    /// Relative to the directory that was listed.
    path: String,
}

/// What an object is.
enum Object {
    Blob(Vec<u8>),
    Tree,
}

/// Git on a repository, deaf to what a hook or a shell says of another one.
fn git(root: &Path) -> Command {
    let mut command = Command::new("git");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    // A partial clone would fetch what it lacks: comparing touches no network.
    command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C");
    command.arg("-C").arg(root).arg("--no-pager").stdin(Stdio::null());
    command
}

impl Objects {
    /// The commit of a revision, or why there is none.
    pub(super) fn open(root: &Path, revision: &str, worker: Option<PathBuf>) -> Result<Self, String> {
        if revision.is_empty() || revision.starts_with('-') || revision.contains(['\n', '\0']) {
            return Err("it is no name of a revision".to_owned());
        }
        let ran = git(root)
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(format!("{revision}^{{commit}}"))
            .output()
            .map_err(|error| format!("`git` cannot be run: {}", super::world::describe(&error)))?;
        let commit = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
        if !ran.status.success() || commit.is_empty() {
            let said = String::from_utf8_lossy(&ran.stderr);
            let said = said.lines().next().unwrap_or("").trim_start_matches("fatal: ").trim();
            return Err(if said.is_empty() {
                "git knows no such revision".to_owned()
            } else {
                said.to_owned()
            });
        }
        Ok(Self {
            root: root.to_path_buf(),
            revision: revision.to_owned(),
            commit,
            batch: None,
            trees: BTreeMap::new(),
            worker,
        })
    }

    /// The commit, hexadecimal.
    pub(super) fn commit(&self) -> &str {
        &self.commit
    }

    /// How a path of the repository is shown, as git itself takes it.
    pub(super) fn shown(&self, path: &str) -> String {
        format!("{}:{path}", self.revision)
    }

    /// Whether a source of that name was read from this revision.
    pub(super) fn has(&self, name: &str) -> bool {
        self.inside(name).is_some()
    }

    fn inside<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(self.revision.as_str())?.strip_prefix(':')
    }

    /// The files below a directory of the repository (empty for all of it), relative to the repository.
    pub(super) fn files(&mut self, dir: &str) -> Result<Vec<String>, String> {
        let at = if dir.is_empty() { self.commit.clone() } else { format!("{}:{dir}", self.commit) };
        let entries = self.list(&at)?;
        let entries = self.without_emitted(dir, entries);
        let files = entries.into_iter().filter(|entry| entry.mode.starts_with('1') && entry.mode != "160000");
        Ok(files
            .map(|entry| if dir.is_empty() { entry.path } else { format!("{dir}/{}", entry.path) })
            .collect())
    }

    /// Whether something lies at a path of the repository.
    pub(super) fn holds(&mut self, path: &str) -> bool {
        self.object(path).is_ok()
    }

    fn list(&self, tree: &str) -> Result<Vec<Entry>, String> {
        let ran = git(&self.root)
            .args(["ls-tree", "-r", "-z", "--full-tree"])
            .arg(tree)
            .output()
            .map_err(|error| super::world::describe(&error))?;
        if !ran.status.success() {
            return Err(String::from_utf8_lossy(&ran.stderr).trim().trim_start_matches("fatal: ").to_owned());
        }
        let text = String::from_utf8_lossy(&ran.stdout);
        Ok(text
            .split('\0')
            .filter_map(|line| line.split_once('\t'))
            .map(|(about, path)| Entry {
                mode: about.split(' ').next().unwrap_or("").to_owned(),
                path: path.to_owned(),
            })
            .collect())
    }

    /// What was listed below a directory, less what `emit` wrote.
    fn without_emitted(&mut self, root: &str, mut entries: Vec<Entry>) -> Vec<Entry> {
        let plans = entries.iter().filter_map(|entry| entry.path.strip_suffix("plan.json"));
        let mut dirs: Vec<String> = plans.filter(|dir| dir.ends_with('/')).map(str::to_owned).collect();
        dirs.retain(|dir| {
            let plan = self.object(format!("{root}/{dir}plan.json").trim_start_matches('/'));
            matches!(plan, Ok(Object::Blob(bytes)) if super::directory::is_of_emit(&bytes))
        });
        entries.retain(|entry| !dirs.iter().any(|dir| entry.path.starts_with(dir)));
        entries
    }

    fn batch(&mut self) -> std::io::Result<&mut Batch> {
        if self.batch.is_none() {
            let mut child = git(&self.root)
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

    /// What lies at a path of the repository; links are followed inside it.
    fn object(&mut self, path: &str) -> Result<Object, ReadError> {
        if path.contains('\n') {
            return Err(ReadError::NotFound);
        }
        let name = format!("{}:{path}", self.commit);
        let batch = self.batch().map_err(unreadable)?;
        batch.ask(&name).map_err(unreadable)?
    }

    fn blob(&mut self, path: &str, most: u64) -> Result<Vec<u8>, ReadError> {
        match self.object(path)? {
            Object::Blob(bytes) if bytes.len() as u64 > most => {
                Err(ReadError::Unreadable(format!("it is larger than {}", trainc_diag::text::bytes(most))))
            }
            Object::Blob(bytes) => Ok(bytes),
            Object::Tree => Err(ReadError::Unreadable("it is a directory".to_owned())),
        }
    }

    /// Where a path leads in the repository, relative to the file that names it.
    fn find(&self, from: &str, path: &str) -> Result<String, ReadError> {
        let from = self.inside(from).unwrap_or("");
        let mut steps: Vec<&str> = from.split('/').collect();
        steps.pop();
        let path = match Path::new(path).strip_prefix(&self.root) {
            Ok(inside) => {
                steps.clear();
                inside.to_str().unwrap_or("")
            }
            Err(_) if path.starts_with('/') => return Err(ReadError::OutsideRoot),
            Err(_) => path,
        };
        for step in path.split('/') {
            match step {
                "" | "." => {}
                ".." => {
                    if steps.pop().is_none() {
                        return Err(ReadError::OutsideRoot);
                    }
                }
                step => steps.push(step),
            }
        }
        Ok(steps.join("/"))
    }

    fn tree(&mut self, root: &str, written: &str) -> Result<SourceTree, ReadError> {
        match self.object(root)? {
            Object::Tree => {}
            Object::Blob(_) => return Err(ReadError::Unreadable("it is no directory".to_owned())),
        }
        let at = format!("{}:{root}", self.commit);
        let entries = self.list(&at).map_err(ReadError::Unreadable)?;
        let mut files: Vec<SourceFile> = Vec::new();
        let mut total = 0;
        for entry in self.without_emitted(root, entries) {
            if entry.path.split('/').any(super::world::is_left_out) {
                continue;
            }
            let path = &entry.path;
            let bytes = match self.object(&format!("{root}/{path}").replace("//", "/"))? {
                Object::Blob(bytes) => bytes,
                Object::Tree => {
                    return Err(ReadError::Unreadable(format!("{path} is a link or a module of git")));
                }
            };
            total += bytes.len() as u64;
            if total > MOST_BYTES || files.len() >= MOST_FILES {
                return Err(ReadError::Unreadable("it holds over 512 MiB or 20,000 files".to_owned()));
            }
            files.push(SourceFile::new(path.clone(), bytes, entry.mode == "100755"));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(SourceTree { dir: written.to_owned(), files })
    }
}

fn unreadable(error: std::io::Error) -> ReadError {
    ReadError::Unreadable(format!("git: {}", super::world::describe(&error)))
}

impl Batch {
    /// Asks for one object by its name; what is wrong with it stands in the inner result.
    fn ask(&mut self, name: &str) -> std::io::Result<Result<Object, ReadError>> {
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
        if size > MOST_BYTES {
            return Err(std::io::Error::other("an object is too large"));
        }
        let mut bytes = Vec::new();
        (&mut self.output).take(size).read_to_end(&mut bytes)?;
        self.output.read_exact(&mut [0])?;
        // Of a link that leads nowhere git says so in place of an object's name and kind.
        Ok(match (first, kind) {
            (Some(_), Some("blob")) => Ok(Object::Blob(bytes)),
            (Some(_), Some("tree" | "commit")) => Ok(Object::Tree),
            (None, Some("symlink")) => Err(ReadError::OutsideRoot),
            (None, Some("dangling" | "notdir")) => Err(ReadError::NotFound),
            _ => Err(ReadError::Unreadable("a link leads in a circle".to_owned())),
        })
    }
}

impl LayerLoader for Objects {
    fn layer(&mut self, from: &str, path: &str) -> Result<LoadedLayer, ReadError> {
        let found = self.find(from, path)?;
        let text = self.text(from, path)?;
        let name = self.shown(&found);
        Ok(LoadedLayer { identity: name.clone(), name, text })
    }

    fn identity(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl World for Objects {
    fn directory(&mut self, from: &str, path: &str) -> Result<SourceTree, ReadError> {
        let found = self.find(from, path)?;
        if let Some(known) = self.trees.get(&found) {
            return known.clone().map(|tree| SourceTree { dir: path.to_owned(), ..tree });
        }
        let tree = self.tree(&found, path);
        self.trees.insert(found, tree.clone());
        tree
    }

    fn text(&mut self, from: &str, path: &str) -> Result<String, ReadError> {
        let found = self.find(from, path)?;
        let bytes = self.blob(&found, MOST_MANIFEST_BYTES)?;
        String::from_utf8(bytes).map_err(|_| ReadError::Unreadable("it is not UTF-8 text".to_owned()))
    }

    fn worker(&mut self) -> Option<SourceFile> {
        super::worker::read(self.worker.as_deref())
    }
}

impl Tree for Objects {
    fn read(&mut self, path: &Path) -> Result<Vec<u8>, String> {
        self.blob(&path.to_string_lossy(), MOST_MANIFEST_BYTES).map_err(|fault| match fault {
            ReadError::NotFound => "no such file".to_owned(),
            ReadError::OutsideRoot => "a link leaves the repository".to_owned(),
            ReadError::Unreadable(why) => why,
        })
    }
}
