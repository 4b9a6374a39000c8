//! The manifests of a run with what they share.

use super::manifests::Manifest;
use std::path::PathBuf;
use trainc_diag::source::SourceMap;
use trainc_predict::Constants;

/// All manifests of a run.
#[derive(Clone)]
pub(super) struct Set {
    /// All texts.
    pub sources: SourceMap,
    /// The manifests in order, layers left out where a directory was walked.
    pub manifests: Vec<Manifest>,
    /// Whether the user named several, or a directory: results are then lists.
    pub many: bool,
    /// The repository's root.
    pub root: PathBuf,
    /// Constants of the user's own file.
    pub constants: Option<Constants>,
}

impl Set {
    /// The names of all jobs.
    pub(super) fn jobs(&self) -> Vec<&str> {
        self.manifests.iter().filter_map(|manifest| manifest.compiled.job.as_deref()).collect()
    }
}
