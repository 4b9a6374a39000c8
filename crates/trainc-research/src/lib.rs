//! Evaluation of the cost model on published runs, for those who develop it: held-out errors in three tiers against their
//! goals, the noise of the measurements, ranges of figures that their sources leave partly open, and the known causes of
//! errors.

pub mod goals;
pub mod misses;
pub mod noise;
pub mod peaks;
pub mod questions;
mod render;
pub mod speedups;
pub mod study;
pub mod tiers;
