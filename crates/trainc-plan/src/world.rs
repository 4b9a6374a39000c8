//! The interface through which the pipeline reads the files that a manifest names.

use crate::resolve::LayerLoader;
use trainc_ir::{SourceFile, SourceTree};

/// Reads what a manifest names: layers, the program's files, a model's config. Only the caller accesses
/// files.
pub trait World: LayerLoader {
    /// Reads a directory of the program, relative to the file that names it.
    fn read_directory(&mut self, from: &str, path: &str) -> Result<SourceTree, ReadError>;
    /// Reads a text file, relative to the file that names it.
    fn read_text(&mut self, from: &str, path: &str) -> Result<String, ReadError>;
    /// Reads the tree of a git repository at its commit; `None` if repositories are not fetched.
    fn read_git_tree(&mut self, _: &Repository) -> Option<Result<SourceTree, ReadError>> {
        None
    }
    /// Returns the worker's binary, if there is one.
    fn worker_binary(&mut self) -> Option<SourceFile> {
        None
    }
}

/// Reason why a layer, directory or file could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It is outside the root directory.
    OutsideRoot {
        /// Whether the root is that of a git repository.
        is_repository: bool,
    },
    /// It does not exist.
    NotFound,
    /// It exists but cannot be read, for the reason given.
    Unreadable(String),
}

/// A program's git repository.
#[derive(Clone, Copy, Debug)]
pub struct Repository<'a> {
    /// Its URL.
    pub url: &'a str,
    /// Branch or tag.
    pub branch: Option<&'a str>,
    /// Commit, which takes precedence over the branch.
    pub commit: Option<&'a str>,
    /// Directory in the repository.
    pub dir: Option<&'a str>,
}
