//! The repository of the manifests: files, directories of programs, git, output directories, and the compiled
//! manifests that arguments name.
//!
//! In: paths and globs as the user writes them. Out: compiled manifests, trees of files, problems at their
//! place. This crate reads below a root only, never waits for a device, and bounds what it reads.
#![expect(clippy::disallowed_methods, reason = "files of the repository are read and written here")]

pub mod directory;
pub mod files;
pub mod git;
pub mod loaded_manifest;
pub mod manifest_paths;
mod manifest_set;
pub mod manifests;
pub mod moved_figures;
pub mod other_documents;
mod parallel;
pub mod runs_file;
pub mod signals;
pub mod worker_binary;

use trainc_diag::Code;

/// Returns the codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    [manifests::CODES, manifest_paths::CODES].concat()
}
