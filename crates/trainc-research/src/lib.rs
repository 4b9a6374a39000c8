//! Evaluation of the cost model on published runs, for those who develop it: held-out errors in four
//! tiers, the noise of the measurements, and ranges of figures that their sources leave partly open.

pub mod noise;
pub mod peaks;
pub mod picks;
pub mod questions;
mod render;
pub mod speedups;
pub mod stored;
pub mod study;
pub mod tiers;
