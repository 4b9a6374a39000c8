//! Choices from outside the manifest.

use crate::resolve::Choices;
use trainc_diag::Code;
use trainc_predict as predict;

/// Choices of a run that are not in the manifest.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Layers and the account.
    pub choices: Choices,
    /// Today as an ISO date. Affects diagnostics only, never the plan or the request.
    pub today: String,
    /// Prices from the command line: instance type and US dollars per hour, or the catalogue key of a storage
    /// and US dollars per GB and month.
    pub prices: Vec<(String, f64)>,
    /// A discount from the command line, a fraction.
    pub discount: Option<f64>,
    /// Constants of the cost model that replace the built-in ones.
    pub constants: Option<predict::Constants>,
    /// True if everything that an artefact needs must exist (`emit`, `apply`).
    pub complete: bool,
    /// True if git repositories are fetched, as a comparison with an account requires.
    pub fetch: bool,
    /// True if an account of AWS is asked, where a name that is still a placeholder would be taken for
    /// someone's.
    pub asks_account: bool,
    /// Codes of the stages after the checks, which an `allow` may also name.
    pub later_codes: &'static [&'static Code],
    /// Path of the worker's binary, if specified.
    pub worker: Option<std::path::PathBuf>,
}
