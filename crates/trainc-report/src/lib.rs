//! Reports: plan.json, plan.md, report.html and the plan in a terminal.
//!
//! In: a [`Subject`]: a plan, its identity, its prediction, its problems. Out: text. Decides nothing: every
//! figure comes from the plan or the cost model, or is a sum over these.

pub mod after_end;
mod bars;
pub mod bill;
pub mod cost;
pub mod document;
mod forecast;
pub mod html;
pub mod human;
pub mod json;
mod links;
pub mod markdown;
pub mod measured;
mod mesh_picture;
mod notes;
mod null_reasons;
pub mod origins;
mod problems;
mod program;
mod resources;
#[cfg(test)]
mod samples;
mod sections;
pub mod shared_costs;
mod speed;
mod terminal_page;
#[cfg(test)]
mod tests;
mod verdict;

pub use terminal_page::Options;

use trainc_diag::Problems;
use trainc_diag::source::SourceMap;
use trainc_emit::Identity;
use trainc_ir::Plan;
use trainc_plan::Choices;
use trainc_predict::{Constants, Prediction};

/// A manifest with its plan, prediction and problems: the input of every report.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The path as the user wrote it.
    pub path: &'a str,
    /// SHA-256 of the manifest's bytes.
    pub sha256: &'a str,
    /// The job's name, if it could be read.
    pub job: Option<&'a str>,
    /// The plan, partial if there are errors; `None` if nothing could be read.
    pub plan: Option<&'a Plan>,
    /// The job's names; `None` for a plan with errors.
    pub identity: Option<&'a Identity>,
    /// Predicted memory, speed and cost.
    pub prediction: &'a Prediction,
    /// The constants of the prediction.
    pub constants: &'a Constants,
    /// All problems of the manifest.
    pub problems: &'a Problems,
    /// The job on each of its preferred instance types; `None` without preferences.
    pub choices: Option<&'a Choices>,
    /// All texts that spans point into.
    pub sources: &'a SourceMap,
}

impl<'a> Subject<'a> {
    /// Returns the plan, if its cluster is on SageMaker, so that an account has its resources.
    pub(crate) fn sagemaker_plan(&self) -> Option<&'a Plan> {
        self.plan.filter(|plan| plan.on_sagemaker.is_some())
    }
}
