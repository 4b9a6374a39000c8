//! The largest runs behind the constants, by group of systems.

use super::layout::System;

/// The largest runs that the constants were fitted to: beyond them a prediction is less certain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    /// Largest number of GPUs.
    pub gpus: f64,
    /// Largest number of parameters of a model.
    pub parameters: f64,
}

impl Range {
    /// Returns the range that includes both.
    #[must_use]
    pub fn max_with(self, other: Self) -> Self {
        Self { gpus: self.gpus.max(other.gpus), parameters: self.parameters.max(other.parameters) }
    }
}

/// Words of the groups of systems with separate ranges.
pub(super) const RANGES: [&str; 2] = ["fsdp", "others"];

/// Returns the word of a system's range: systems that gather like PyTorch's FSDP, or are timed by its
/// constants, share one, all others another.
pub(super) fn range_name(system: System) -> &'static str {
    if matches!(system, System::Fsdp | System::SmpV2 | System::Worker) { "fsdp" } else { "others" }
}
