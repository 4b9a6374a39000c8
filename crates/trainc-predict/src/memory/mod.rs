//! Memory of the fullest GPU, by part.
//!
//! Input: a [`Layout`]. Output: a [`Memory`] whose parts add up to its total. Memory can be highest at three
//! moments of a step: when the loss is computed (all activations and the logits exist), during the backward
//! pass of a layer (saved and recomputed activations), and in the optimizer's step (all gradients exist, no
//! activation). The peak is the highest of them over the stages of a pipeline, and the parts are those of
//! that moment.

mod activations;
mod constants;
mod host;
mod loss;
mod moments;
mod reserve;
mod schedule;
mod stages;
mod states;
mod units;
mod worker;
mod worker_gpu;

pub use activations::{Kept, layer_bytes_per_token};
pub use constants::MemoryConstants;
pub use host::{HostParts, host_parts};
pub use moments::offloads_activations;
pub use reserve::MeasuredAs;
use reserve::Reserve;
pub use states::{
    StateBytes, WIDER_MOMENTS, frozen_bytes_per_parameter, resumed_bytes_per_parameter, wide_moments,
};

use super::constants::Constants;
use super::experts::{EXPERT_OVERLOAD, may_be_uneven};
use super::layout::{Layout, Offload, Quantisation, System};
use super::part_intervals;
use super::prediction::{Interval, Memory, MemoryParts};

/// 2³⁰ bytes.
pub const GIB: f64 = 1_073_741_824.0;

/// Mean error of predicted peaks whose source is held out, families weighted equally, a fraction, as printed
/// by `trainc-research data/runs.csv`.
pub const MEAN_ERROR: f64 = 0.108;

/// Returns whether a GPU of `capacity` bytes holds `bytes` of predicted memory and the mean error of a
/// prediction. Searches propose such layouts first.
pub fn has_room(bytes: f64, capacity: f64) -> bool {
    bytes * (1.0 + MEAN_ERROR) <= capacity
}

/// Returns the memory of the fullest GPU, with the shipped constants.
pub fn memory(layout: &Layout) -> Memory {
    memory_with(layout, &MemoryConstants::from_constants(Constants::shipped()))
}

/// Returns the lower bound of [`Memory::host_bytes`]. `None` if the processes run on CPU cores.
pub fn least_host_bytes(layout: &Layout, constants: &MemoryConstants) -> Option<f64> {
    let cores = layout.system == System::Worker && layout.worker.cpu;
    (!cores).then(|| host::host_interval(layout, constants).low)
}

/// Returns the bytes of one copy of the model's states: weights, gradients, master copies and moments,
/// unsharded, without those on disks. Frozen weights that are not quantised count as the 4 bits in which they
/// could be stored.
pub fn all_states(layout: &Layout) -> f64 {
    let away = layout.offload;
    let on_disk = Offload {
        parameters: away.parameters && away.parameters_on_disk,
        optimizer: away.optimizer && away.optimizer_on_disk,
        ..Offload::default()
    };
    let mut whole = Layout { offload: on_disk, ..layout.clone() };
    whole.gathering.secondary_shard = 1.0;
    let degrees = &mut whole.degrees;
    (degrees.tensor, degrees.pipeline, degrees.shard) = (1.0, 1.0, 1.0);
    (degrees.replicas, degrees.context, degrees.expert) = (1.0, 1.0, 1.0);
    if whole.lora.is_some() && whole.quantisation.is_none() {
        whole.quantisation = Some(Quantisation::Nf4 { double: true });
    }
    let of = |stage| {
        let states = states::states(&whole, stage);
        states.parameters + states.gradients + states.optimizer
    };
    stages::candidate_fullest_stages(&whole).iter().map(of).sum()
}

/// Returns the bytes of weights, gradients and optimizer states on the fullest GPU, as the layout shards
/// them.
pub fn resident_states(layout: &Layout) -> f64 {
    let of = |stage| {
        let states = states::states(layout, stage);
        states.parameters + states.gradients + states.optimizer
    };
    stages::candidate_fullest_stages(layout).iter().map(of).fold(0.0, f64::max)
}

/// Returns the memory of the fullest GPU.
pub fn memory_with(layout: &Layout, constants: &MemoryConstants) -> Memory {
    if layout.system == System::Worker && layout.worker.cpu {
        return worker::memory(layout);
    }
    let capacity_bytes = layout.hardware.memory_bytes;
    let (parts, reserve) = parts(layout, constants);
    let per_gpu_bytes = parts.total();
    let (states, saving) = if layout.system == System::Worker {
        worker_gpu::peak_checkpoint(&parts)
    } else {
        host::peak_checkpoint(layout)
    };
    let beside = reserve.context + reserve.driver;
    let (below, above) = constants.ends(layout);
    let around = |low: f64, high: f64| Interval { low: low * (1.0 - below), high: high * (1.0 + above) };
    // Ranks hold what the router sends to their experts: the mean is expected, the upper bound has the
    // fullest expert's load.
    let overload = if may_be_uneven(layout) {
        EXPERT_OVERLOAD * activations::routed_bytes(layout, parts.activations)
    } else {
        0.0
    };
    let interval = around(per_gpu_bytes, per_gpu_bytes + overload);
    Memory {
        per_gpu_bytes,
        capacity_bytes,
        fits: capacity_bytes.map(|capacity| per_gpu_bytes <= capacity),
        interval,
        host_bytes: Some(host::host_bytes(layout, constants)),
        host_interval: Some(host::host_interval(layout, constants)),
        peak_checkpoint_bytes: Some(saving + beside),
        // No run of the table measured this moment: the errors of step peaks are assumed, and the low end has
        // no gathered unit, since a sharded checkpoint needs none.
        peak_checkpoint_interval: Some(around(states + beside, saving + beside)),
        part_intervals: part_intervals::split_peak_interval(&parts, interval),
        parts,
    }
}

/// Returns the memory of the fullest GPU by part, bytes, without hosts and checkpoints.
pub fn gpu_memory_parts(layout: &Layout, constants: &MemoryConstants) -> MemoryParts {
    if layout.system == System::Worker && layout.worker.cpu {
        return worker::memory(layout).parts;
    }
    parts(layout, constants).0
}

fn parts(layout: &Layout, constants: &MemoryConstants) -> (MemoryParts, Reserve) {
    let peak = peak(layout);
    let reserve = reserve::reserve(peak.total(), layout, layout.hardware.memory_bytes, constants);
    (MemoryParts { reserve: reserve.total(), ..peak }, reserve)
}

/// Returns the parts of the peak on a GPU, without its reserve.
fn peak(layout: &Layout) -> MemoryParts {
    if layout.system == System::Worker { worker_gpu::parts(layout) } else { moments::peak(layout) }
}

/// Predicts the peak in bytes that an instrument would show for a layout, on the GPU that its code reports.
pub fn peak_by_instrument(layout: &Layout, kind: MeasuredAs, constants: &MemoryConstants) -> f64 {
    let capacity = layout.hardware.memory_bytes;
    let peak =
        if layout.code.reports_first_stage() { moments::peak_of_first_stage(layout) } else { peak(layout) };
    let peak = peak.total();
    let reserve = reserve::reserve(peak, layout, capacity, constants);
    match kind {
        MeasuredAs::Allocated => peak,
        MeasuredAs::Reserved => peak + reserve.slack,
        MeasuredAs::Whole => peak + reserve.slack + reserve.context,
    }
}

/// Returns true if ranks share the work and exchange gradients.
fn has_collectives(layout: &Layout) -> bool {
    layout.system != System::DeviceMap && layout.degrees.ranks() > 1.0
}

#[cfg(test)]
mod law_tests;
#[cfg(test)]
mod tests;
