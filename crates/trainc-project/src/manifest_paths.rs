//! Expands an argument to manifest files: a file, a directory, a glob, or standard input.

use crate::directory::emitted_files;
use crate::files::{describe, names_pipe};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use trainc_diag::declare_code;
use trainc_diag::source::{SourceMap, Span};
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(T0141, "no-manifest", Error, "a path that contains no manifest", found_in: SeveralJobs);

/// Display name of standard input (`-`).
pub const STDIN: &str = "<stdin>";

/// The codes of this file.
pub static CODES: &[&Code] = &[&T0141];

/// A file that an argument expands to.
pub struct Named {
    /// Path to read.
    pub path: PathBuf,
    /// Path for display.
    pub shown: String,
    /// Searched directory in which it was found.
    pub walked: Option<PathBuf>,
}

/// Expansion of an argument.
pub struct Expanded {
    /// Sorted files.
    pub files: Vec<Named>,
    /// True for a directory or glob: results are lists.
    pub many: Option<bool>,
    /// Reason why the search is incomplete.
    pub fault: Option<String>,
}

/// Expands an argument to files.
pub fn expand(argument: &str) -> Expanded {
    if argument == "-" {
        let files = vec![Named { path: PathBuf::from("-"), shown: STDIN.to_owned(), walked: None }];
        return Expanded { files, many: None, fault: None };
    }
    let path = Path::new(argument);
    if path.is_dir() {
        let (mut found, fault) = Walk::find_below(path);
        found.sort();
        let files = found
            .into_iter()
            .map(|found| Named {
                // `job.kdl`, not `./job.kdl`.
                shown: found.strip_prefix("./").unwrap_or(&found).to_string_lossy().into_owned(),
                path: found,
                walked: Some(path.to_path_buf()),
            })
            .collect();
        return Expanded { files, many: Some(true), fault };
    }
    if !path.exists() && argument.contains(['*', '?', '[']) {
        return glob(argument);
    }
    // As for standard input, paths in the manifest are relative to the working directory.
    let shown = if names_pipe(path) { format!("<{argument}>") } else { argument.to_owned() };
    let files = vec![Named { path: path.to_path_buf(), shown, walked: None }];
    if path.exists() || fs::symlink_metadata(path).is_ok() {
        Expanded { files, many: None, fault: None }
    } else {
        Expanded { files: Vec::new(), many: None, fault: None }
    }
}

/// Maximum depth of searched directories.
pub const MOST_NESTED: usize = 64;

/// Returns true for names that a search skips: hidden ones, and directories of other tools.
pub fn is_skipped_name(name: &str) -> bool {
    name.starts_with('.') || matches!(name, "node_modules" | "target" | "__pycache__")
}

/// Search for manifests below a directory.
#[derive(Default)]
struct Walk {
    found: Vec<PathBuf>,
    /// Files that `emit` wrote.
    hidden: BTreeSet<PathBuf>,
    /// True if a directory was nested too deeply.
    too_deep: bool,
}

impl Walk {
    /// Returns the unsorted files, and the reason if some may be missing.
    fn find_below(dir: &Path) -> (Vec<PathBuf>, Option<String>) {
        let mut walk = Self::default();
        let fault = walk.walk_dir(dir, 0).err();
        let deep = || format!("directories more than {MOST_NESTED} deep are not searched for manifests");
        let fault = fault.or_else(|| walk.too_deep.then(deep));
        (walk.found, fault)
    }

    fn walk_dir(&mut self, dir: &Path, depth: usize) -> Result<(), String> {
        if depth > MOST_NESTED {
            self.too_deep = true;
            return Ok(());
        }
        let entries = fs::read_dir(dir).map_err(|error| describe(&error))?;
        if depth > 0 {
            self.hidden.extend(emitted_files(dir));
        }
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_skipped_name(&name) {
                continue;
            }
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if path.is_dir() && !is_link {
                // An unreadable directory does not stop the search.
                let _ = self.walk_dir(&path, depth + 1);
            } else if path.extension().is_some_and(|extension| extension == "kdl")
                && !self.hidden.contains(&path)
            {
                self.found.push(path);
            }
        }
        Ok(())
    }
}

fn glob(pattern: &str) -> Expanded {
    let built = globset::GlobBuilder::new(pattern).literal_separator(true).build();
    let matcher = match built {
        Ok(glob) => glob.compile_matcher(),
        Err(error) => {
            return Expanded { files: Vec::new(), many: Some(true), fault: Some(error.to_string()) };
        }
    };
    let fixed: PathBuf = Path::new(pattern)
        .components()
        .take_while(|part| !part.as_os_str().to_string_lossy().contains(['*', '?', '[', '{']))
        .collect();
    let base = if fixed.as_os_str().is_empty() { PathBuf::from(".") } else { fixed };
    let (found, fault) = Walk::find_below(&base);
    let fault = fault.filter(|_| base.is_dir());
    let mut files: Vec<Named> = found
        .into_iter()
        .map(|path| path.strip_prefix("./").map(Path::to_path_buf).unwrap_or(path))
        .filter(|path| matcher.is_match(path))
        .map(|path| Named { shown: path.to_string_lossy().into_owned(), path, walked: Some(base.clone()) })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Expanded { files, many: Some(true), fault }
}

/// Returns the problem for an argument without manifests.
pub fn problem_no_manifests(sources: &mut SourceMap, argument: &str, fault: Option<&str>) -> Problems {
    let path = Path::new(argument);
    let message = if let Some(fault) = fault {
        return problem_at_argument(sources, argument, format!("`{argument}`: {fault}"), None);
    } else if path.is_dir() {
        format!("no `*.kdl` files below `{argument}`")
    } else if argument.contains(['*', '?', '[']) {
        format!("nothing matches `{argument}`")
    } else {
        format!("`{argument}` does not exist")
    };
    problem_at_argument(
        sources,
        argument,
        message,
        path.is_dir().then_some("write a first manifest with `trainc init`"),
    )
}

fn problem_at_argument(
    sources: &mut SourceMap,
    argument: &str,
    message: String,
    help: Option<&str>,
) -> Problems {
    let source = sources.add(argument, "");
    let mut problems = Problems::default();
    let said = Diagnostic::new(&T0141, Span::whole(source), message);
    problems.push(if let Some(help) = help { said.help(help) } else { said });
    problems
}

/// Returns the problem for a directory or glob that contains only layers.
pub fn problem_only_layers(sources: &mut SourceMap, argument: &str, files: usize) -> Problems {
    let of = if Path::new(argument).is_dir() { "below" } else { "that match" };
    let what = trainc_diag::text::count(files as u64, "manifest");
    let message = format!("no `job` in the {what} {of} `{argument}`: only layers");
    problem_at_argument(sources, argument, message, Some("name the directory of the jobs that extend them"))
}

/// Returns the nearest parent directory with `.git`. Without one it is the given directory, or that of the
/// file; inside the working directory it is always the latter, so that a job does not depend on how its path
/// is written.
pub fn root_of(path: &Path, given: Option<&Path>) -> PathBuf {
    let own = if path == Path::new("-") || names_pipe(path) {
        PathBuf::from(".")
    } else {
        path.parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
    };
    let own = own.canonicalize().unwrap_or(own);
    let repository = repository_of(&own).map(Path::to_path_buf);
    repository.unwrap_or_else(|| {
        let named = given.and_then(|given| given.canonicalize().ok()).unwrap_or(own);
        let here = std::env::current_dir().and_then(|here| here.canonicalize());
        here.ok().filter(|here| named.starts_with(here)).unwrap_or(named)
    })
}

/// Returns the repository that a directory is in.
fn repository_of(dir: &Path) -> Option<&Path> {
    dir.ancestors().find(|dir| dir.join(".git").exists())
}

/// Returns whether a path goes through a link, of a file or of a directory, that leads out of the root in
/// which the link lies: of its repository, or of the current directory. Links elsewhere belong to the
/// machine, not to what is read.
pub fn follows_link_out_of_root(path: &Path) -> io::Result<bool> {
    let here = std::env::current_dir()?.canonicalize()?;
    let mut at = PathBuf::new();
    for component in here.join(path).components() {
        if component == Component::ParentDir {
            at = at.canonicalize()?;
            at.pop();
            continue;
        }
        at.push(component);
        if !at.is_symlink() {
            continue;
        }
        let parent = at.parent().map_or_else(|| Ok(here.clone()), Path::canonicalize)?;
        let root = repository_of(&parent).or_else(|| parent.starts_with(&here).then_some(&*here));
        if root.is_some_and(|root| at.canonicalize().is_ok_and(|target| !target.starts_with(root))) {
            return Ok(true);
        }
    }
    Ok(false)
}
