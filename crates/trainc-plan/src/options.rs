//! What the caller supplies: files that a manifest names, and choices from outside the manifest.

use crate::resolve::{Choices, LayerFault, Loader};
use trainc_diag::Code;
use trainc_ir::{SourceFile, SourceTree};
use trainc_predict as predict;

/// Supplies what a manifest names: layers, the program's files, a model's config. The caller knows about files.
pub trait World: Loader {
    /// A directory of the program, relative to the file that names it.
    fn directory(&mut self, from: &str, path: &str) -> Result<SourceTree, LayerFault>;
    /// A text file, relative to the file that names it.
    fn text(&mut self, from: &str, path: &str) -> Result<String, LayerFault>;
    /// The tree of a git repository at its commit; nothing where nobody is asked.
    fn git(&mut self, _: &Repository) -> Option<Result<SourceTree, LayerFault>> {
        None
    }
    /// The worker's binary; none where there is none.
    fn worker(&mut self) -> Option<SourceFile> {
        None
    }
}

/// A program's git repository.
#[derive(Clone, Copy, Debug)]
pub struct Repository<'a> {
    /// Its address.
    pub url: &'a str,
    /// Branch or tag.
    pub branch: Option<&'a str>,
    /// Commit, which says more than a branch.
    pub commit: Option<&'a str>,
    /// Directory inside it.
    pub dir: Option<&'a str>,
}

/// What a run chooses from outside the manifest.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Layers and the account.
    pub choices: Choices,
    /// Today, as an ISO date; it may only change problems, never what is emitted.
    pub today: String,
    /// Prices from the command line: instance type and US dollars per hour, or a storage's key in the catalogue and US
    /// dollars per GB and month.
    pub prices: Vec<(String, f64)>,
    /// A discount from the command line, a fraction.
    pub discount: Option<f64>,
    /// Constants of the cost model, instead of those that ship.
    pub constants: Option<predict::Constants>,
    /// Whether everything that an artefact needs must be there (`emit`, `apply`).
    pub complete: bool,
    /// Whether git repositories are fetched: by what is compared with an account, where the content counts.
    pub fetch: bool,
    /// Codes of the stages after the checks, which an `allow` may also name.
    pub later_codes: &'static [&'static Code],
    /// The worker's binary, where it was named.
    pub worker: Option<std::path::PathBuf>,
}
