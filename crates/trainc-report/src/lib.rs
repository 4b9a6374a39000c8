//! Reports: plan.json, plan.md, report.html and the terminal's plan, all from one plan and its problems.
//!
//! In: a [`Subject`]: a plan, its identity, its problems. Out: text. Decides nothing: every figure is the plan's, a
//! sum over it, or what the cost model says of it.

mod bars;
pub mod bill;
mod cost;
pub mod document;
mod forecast;
pub mod html;
pub mod human;
pub mod json;
mod links;
pub mod markdown;
pub mod measured;
mod notes;
pub mod origins;
mod pace;
mod page;
mod picture;
mod problems;
mod program;
mod resources;
#[cfg(test)]
mod samples;
mod sections;
pub mod shared_costs;
#[cfg(test)]
mod tests;

pub use page::Options;

use trainc_diag::Problems;
use trainc_diag::source::SourceMap;
use trainc_emit::Identity;
use trainc_ir::Plan;
use trainc_predict::{Constants, Prediction};

/// What a report is about: one manifest and what it became.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The path as the user gave it.
    pub path: &'a str,
    /// SHA-256 of the manifest's bytes.
    pub sha256: &'a str,
    /// The job's name, if it could be read.
    pub job: Option<&'a str>,
    /// What could be computed; none where nothing could be read.
    pub plan: Option<&'a Plan>,
    /// The job's names; none for a plan with errors.
    pub identity: Option<&'a Identity>,
    /// What the plan needs and how fast it is.
    pub prediction: &'a Prediction,
    /// The constants that it was predicted with.
    pub constants: &'a Constants,
    /// All problems of the manifest.
    pub problems: &'a Problems,
    /// All texts that spans point into.
    pub sources: &'a SourceMap,
}
