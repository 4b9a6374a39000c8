//! Memory of a process outside its allocations, and usable memory of a GPU.

use super::constants::MemoryConstants;
use super::has_collectives;
use crate::layout::{Layout, Sharding, System};

/// Memory in addition to the allocations, bytes.
pub(super) struct Reserve {
    /// Held by the caching allocator.
    pub(super) slack: f64,
    /// CUDA and NCCL.
    pub(super) context: f64,
    /// Reserved by the driver and unavailable to processes.
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

/// Share of a card that the driver reserves if the catalogue lacks it: that of an A100, of whose 80 GiB 79.15
/// to 79.21 are left (ml-engineering, training/performance).
const DRIVER: f64 = 0.0104;

/// Near a full card, the share of each further byte that comes from freed blocks that the allocator holds:
/// the largest margin to a full card that fits the measured peaks as well as no margin
/// (`trainc calibrate data/runs.csv`).
const GIVEN_BACK: f64 = 0.15;

/// Returns the reserve over `allocated` bytes.
///
/// The allocator keeps freed blocks, so that a process holds more than it uses; when an allocation fails, it
/// releases whole blocks and tries again (PyTorch, CUDA semantics, "Memory management"). Near a full card the
/// slack therefore shrinks to the fragments, but more slowly than the allocations grow: the sum always rises,
/// and it reaches the card's usable memory exactly where allocations and fragments do.
pub(super) fn reserve(
    allocated: f64,
    layout: &Layout,
    capacity: Option<f64>,
    constants: &MemoryConstants,
) -> Reserve {
    let kept = layout.hardware.usable_share.map_or(DRIVER, |usable| 1.0 - usable);
    let driver = capacity.map_or(0.0, |capacity| kept * capacity);
    if layout.system == System::Worker {
        // Its parts include the context. CPU ranks allocate their buffers once; on GPUs PyTorch's allocator
        // splits blocks.
        let slack = if layout.worker.cpu { 0.0 } else { constants.fragments * allocated };
        return Reserve { slack, context: 0.0, driver };
    }
    let mut context = constants.context_bytes;
    if has_collectives(layout) {
        context += constants.nccl_bytes;
    }
    let has_pools = layout.system == System::DeepSpeed && layout.sharding == Sharding::Full;
    let slack = constants.slack * allocated + if has_pools { constants.zero_pool_bytes } else { 0.0 };
    // Allocations on a card that is exactly full.
    let most = capacity.map(|capacity| (capacity - driver - context).max(0.0) / (1.0 + constants.fragments));
    let held =
        most.map_or(slack, |most| slack.min(constants.fragments * most + GIVEN_BACK * (most - allocated)));
    Reserve { slack: held.max(constants.fragments * allocated), context, driver }
}
