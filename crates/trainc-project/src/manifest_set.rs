//! The compiled manifests of one command.

use crate::manifests::Manifest;
use std::path::PathBuf;
use trainc_diag::source::SourceMap;
use trainc_predict::Constants;

/// All manifests of one command.
#[derive(Clone)]
pub struct Set {
    /// Texts of all files.
    pub sources: SourceMap,
    /// Manifests in order, without the layers of a searched directory.
    pub manifests: Vec<Manifest>,
    /// Files of a searched directory that are KDL of other programs.
    pub skipped: Vec<String>,
    /// True for several manifests or a directory: results are lists.
    pub many: bool,
    /// Root of the repository.
    pub root: PathBuf,
    /// Constants of `--calibration`.
    pub constants: Option<Constants>,
}

impl Set {
    /// Returns the names of all jobs.
    pub fn jobs(&self) -> Vec<&str> {
        self.manifests.iter().filter_map(|manifest| manifest.compiled.job.as_deref()).collect()
    }
}
