//! The largest runs behind the constants, by the systems that have a range of their own.

use super::layout::System;

/// The largest runs that the constants were fitted to: past them a prediction is less sure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    /// The most GPUs.
    pub gpus: f64,
    /// The most parameters of a model.
    pub parameters: f64,
}

impl Range {
    /// The range that has both.
    #[must_use]
    pub fn max_with(self, other: Self) -> Self {
        Self { gpus: self.gpus.max(other.gpus), parameters: self.parameters.max(other.parameters) }
    }
}

/// Words of the systems whose ranges are kept apart.
pub(super) const RANGES: [&str; 2] = ["fsdp", "others"];

/// The word of a system's range: those that gather as PyTorch's FSDP does have one, all others another.
pub(super) fn range_name(system: System) -> &'static str {
    if matches!(system, System::Fsdp | System::SmpV2) { "fsdp" } else { "others" }
}
