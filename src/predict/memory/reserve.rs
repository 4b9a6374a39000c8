//! What a process holds beside what it allocates, and what a card offers.

use super::constants::MemoryConstants;
use super::has_collectives;
use crate::predict::layout::{Layout, System};

/// Beyond the allocations, bytes.
pub(super) struct Reserve {
    /// Held by the caching allocator.
    pub(super) slack: f64,
    /// CUDA and NCCL.
    pub(super) context: f64,
    /// Kept by the driver: no process has it.
    pub(super) driver: f64,
}

impl Reserve {
    pub(super) fn total(&self) -> f64 {
        self.slack + self.context + self.driver
    }
}

/// What a source measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredAs {
    /// `max_memory_allocated`.
    Allocated,
    /// `max_memory_reserved`.
    Reserved,
    /// nvidia-smi: the whole of the process.
    Whole,
}

/// The part of a card that the driver keeps: 79.15 to 79.21 GiB of an A100's 80 are left (ml-engineering,
/// training/performance).
const DRIVER: f64 = 0.0104;

/// Parts are rounded to bytes one by one: their sum must not pass a card that they fill.
const ROUNDING: f64 = 16.0;

/// The reserve over `allocated` bytes.
///
/// The allocator keeps freed blocks, so that a process holds more than it uses; when an allocation fails it gives
/// whole blocks back and tries again (PyTorch, CUDA semantics, "Memory management"). So the slack shrinks to the
/// fragments as the card fills.
pub(super) fn reserve(
    allocated: f64,
    layout: &Layout,
    capacity: Option<f64>,
    constants: &MemoryConstants,
) -> Reserve {
    let mut context = constants.context_bytes;
    if has_collectives(layout) {
        context += constants.nccl_bytes;
    }
    let caches = layout.system != System::Worker;
    let fragments = if caches { constants.fragments * allocated } else { 0.0 };
    let slack = if caches { constants.slack * allocated } else { 0.0 };
    let driver = capacity.map_or(0.0, |capacity| DRIVER * capacity);
    let room = capacity.map_or(slack, |capacity| capacity - driver - context - allocated - ROUNDING);
    Reserve { slack: slack.min(room.max(fragments)), context, driver }
}
