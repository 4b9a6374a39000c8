//! Manifests of the workspace that are not open, and the files that a compilation reads.

use super::positions::{Encoding, Folder};
use super::problems::{ByFile, Places};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use trainc_check::JobSummary;
use trainc_diag::source::{SourceId, SourceMap};
use trainc_diag::{Diagnostic as Problem, Problems};
use trainc_plan::Compiled;

/// The files that a compilation read or looked for, by their canonical paths.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    files: BTreeSet<PathBuf>,
    directories: BTreeSet<PathBuf>,
}

impl Reads {
    /// Adds a file, whether it exists or not.
    pub fn add_file(&mut self, path: PathBuf) {
        self.files.insert(path);
    }

    /// Adds a directory with all that is below it.
    pub fn add_directory(&mut self, path: PathBuf) {
        self.directories.insert(path);
    }

    /// Returns whether a change of the file or directory may change the result.
    pub fn include(&self, changed: &Path) -> bool {
        let from =
            self.files.range::<Path, _>((std::ops::Bound::Included(changed), std::ops::Bound::Unbounded));
        from.take(1).any(|file| file.starts_with(changed))
            || self.directories.iter().any(|dir| changed.starts_with(dir) || dir.starts_with(changed))
    }
}

/// A compiled text.
pub struct Compilation {
    /// The result.
    pub compiled: Compiled,
    /// The text, its layers and what else the problems point into.
    pub sources: SourceMap,
    /// The text.
    pub source: SourceId,
    /// What the result depends on.
    pub reads: Reads,
}

/// A manifest that is not open, with what is kept of its compilation.
pub struct CheckedManifest {
    name: String,
    uri: String,
    own_problems: Problems,
    own_diagnostics: ByFile,
    pub(super) summary: JobSummary,
    pub(super) sources: SourceMap,
}

impl CheckedManifest {
    /// Keeps what is shown of a manifest that is not open.
    pub fn new(name: String, compilation: Compilation, folder: &Folder, encoding: Encoding) -> Self {
        let Compilation { mut compiled, sources, .. } = compilation;
        let summary = JobSummary::new(&name, &compiled);
        compiled.retain_own_problems();
        let (uri, own_diagnostics) = (folder.uri(&name), ByFile::new());
        let mut made = Self { name, uri, own_problems: compiled.problems, own_diagnostics, summary, sources };
        made.own_diagnostics = made.diagnostics(folder, encoding, &made.own_problems, &SourceMap::default());
        made
    }

    /// Returns its problems without those of the comparison with other jobs.
    pub(super) fn own_problems(&self) -> &Problems {
        &self.own_problems
    }

    /// Returns the diagnostics of its problems, which the comparison with other jobs may have changed.
    pub(super) fn diagnostics_with<'a>(
        &self,
        problems: &Problems,
        folder: &Folder,
        encoding: Encoding,
        all: impl Iterator<Item = &'a SourceMap> + Clone,
    ) -> ByFile {
        let same =
            |(a, b): (&Problem, &Problem)| a.code == b.code && a.span == b.span && a.message == b.message;
        let both = problems.iter().zip(self.own_problems.iter());
        if problems.iter().count() == self.own_problems.iter().count() && both.into_iter().all(same) {
            return self.own_diagnostics.clone();
        }
        self.diagnostics(folder, encoding, problems, &foreign_sources(problems, &self.sources, all))
    }

    fn diagnostics(
        &self,
        folder: &Folder,
        encoding: Encoding,
        problems: &Problems,
        others: &SourceMap,
    ) -> ByFile {
        let own = (self.name.as_str(), self.uri.as_str());
        Places { folder, encoding, own, sources: [&self.sources, others] }
            .diagnostics_by_file(problems.iter())
    }
}

/// The number of the part that holds the sources of other jobs.
const FOREIGN_PART: u32 = 16_383;

/// Returns the sources that problems point into and that are not their own.
pub(super) fn foreign_sources<'a>(
    problems: &Problems,
    own: &SourceMap,
    all: impl Iterator<Item = &'a SourceMap> + Clone,
) -> SourceMap {
    let mut out = SourceMap::with_part_number(FOREIGN_PART);
    let spans = problems.iter().flat_map(|problem| problem.labels.iter().map(|label| label.span));
    for span in spans {
        if own.get(span.source).is_none()
            && out.get(span.source).is_none()
            && let Some(map) = all.clone().find(|map| map.get(span.source).is_some())
        {
            out.absorb(map.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Reads;
    use std::path::Path;

    #[test]
    fn a_change_of_what_was_read_is_noticed() {
        let mut reads = Reads::default();
        reads.add_file("/jobs/base.kdl".into());
        reads.add_file("/models/a/config.json".into());
        reads.add_directory("/jobs/scripts".into());
        for changed in ["/jobs/base.kdl", "/jobs/scripts/a/train.py", "/jobs/scripts", "/jobs", "/models/a"] {
            assert!(reads.include(Path::new(changed)), "{changed}");
        }
        for changed in ["/jobs/a.kdl", "/jobs/scripts2/train.py", "/models/a/config.json.tmp", "/model"] {
            assert!(!reads.include(Path::new(changed)), "{changed}");
        }
    }
}
