//! From a parsed manifest to a plan: merges layers, converts units, fills in defaults, chooses the layout and
//! replaces placeholders.
//!
//! [`forecast`] runs all three stages and predicts the result. It runs no rule.

pub mod bind;
mod delivery;
mod files;
mod manifest_edit;
pub mod plan;
pub mod planned_values;
pub mod reference;
pub mod resolve;
pub mod script;
mod takes;
mod unmodelled;

/// The codes of these stages to which later stages refer, by their ID.
pub mod codes {
    pub use crate::files::{T0802, T0803};
    pub use crate::plan::{T0310, T0311, T0320};
    pub use crate::resolve::{T0207, T0211};

    /// The codes about files of other programs.
    pub static OF_FILES: &[&trainc_diag::Code] = crate::files::CODES;
}

mod options;
mod pipeline;
mod world;

pub use manifest_edit::edit_manifest;

pub use options::Options;
pub use pipeline::{Choice, Choices, Compiled, plan_and_predict};
pub use world::{ReadError, Repository, World};

use trainc_diag::Code;

/// Returns the codes of these stages.
pub fn codes() -> Vec<&'static Code> {
    [resolve::codes(), files::CODES.to_vec(), plan::codes(), bind::codes(), takes::CODES.to_vec()].concat()
}
