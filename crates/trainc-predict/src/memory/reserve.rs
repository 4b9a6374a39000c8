//! Memory of a process outside of its allocations, and usable memory of a GPU.

use super::constants::MemoryConstants;
use super::has_collectives;
use crate::layout::{Layout, System};

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

/// Instrument of a measured peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredAs {
    /// `max_memory_allocated`.
    Allocated,
    /// `max_memory_reserved`.
    Reserved,
    /// nvidia-smi: the whole of the process.
    Whole,
}

/// The part of a card that the driver keeps where the catalogue does not say: that of an A100, of whose 80 GiB 79.15 to
/// 79.21 are left (ml-engineering, training/performance).
const DRIVER: f64 = 0.0104;

/// Towards a full card, the share of each further byte that comes out of blocks that were freed and held: the largest
/// margin to a full card at which the measured peaks are met as well as without any (`trainc calibrate data/runs.csv`).
const GIVEN_BACK: f64 = 0.15;

/// The reserve over `allocated` bytes.
///
/// The allocator keeps freed blocks, so that a process holds more than it uses; when an allocation fails it gives
/// whole blocks back and tries again (PyTorch, CUDA semantics, "Memory management"). So towards a full card the slack
/// shrinks to the fragments, by less than what is allocated grows: the sum always rises, and it reaches the card's
/// usable memory exactly where allocations and fragments do.
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
    let slack = constants.slack * allocated;
    let kept = layout.hardware.usable_share.map_or(DRIVER, |usable| 1.0 - usable);
    let driver = capacity.map_or(0.0, |capacity| kept * capacity);
    // What is allocated on a card that is exactly full.
    let most = capacity.map(|capacity| (capacity - driver - context).max(0.0) / (1.0 + constants.fragments));
    let held =
        most.map_or(slack, |most| slack.min(constants.fragments * most + GIVEN_BACK * (most - allocated)));
    let slack = if caches { held.max(constants.fragments * allocated) } else { 0.0 };
    Reserve { slack, context, driver }
}
