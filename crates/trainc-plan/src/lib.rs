//! From a parsed manifest to a plan: layers merged, units converted, defaults filled in, the layout chosen,
//! placeholders replaced.
//!
//! [`forecast`] runs all three stages and predicts the result. No rule is run here.

pub mod bind;
pub mod plan;
pub mod resolve;

mod options;
mod pipeline;

pub use options::{Options, Repository, World};
pub use pipeline::{Compiled, forecast};

use trainc_diag::Code;

/// The codes of these stages.
pub fn codes() -> Vec<&'static Code> {
    [resolve::codes(), plan::codes(), bind::codes()].concat()
}
