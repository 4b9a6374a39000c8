//! Host memory of a node, and the peak while a checkpoint is saved.

use super::moments;
use super::stages::{Stage, stages};
use super::{activations, states, units};
use crate::predict::layout::{Layout, System};

/// Host memory of one Python process with torch and CUDA loaded, bytes. Judgement of the trade: 2 to 4 GB are seen.
const PROCESS_BYTES: f64 = 3e9;

/// The least of it that is seen.
const LEAST_PROCESS_BYTES: f64 = 2e9;

/// Processes of a node.
fn processes(layout: &Layout) -> f64 {
    if layout.system == System::DeviceMap { 1.0 } else { layout.hardware.gpus_per_node }
}

fn fullest(layout: &Layout) -> Option<Stage> {
    stages(layout).max_by(|a, b| a.parameters().total_cmp(&b.parameters()))
}

/// What one node's host holds, bytes by part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostParts {
    /// Its processes.
    pub processes: f64,
    /// What is offloaded to it.
    pub offloaded: f64,
    /// The copy of a checkpoint on its way out.
    pub checkpoint: f64,
}

/// What one node's host holds: its processes, what is offloaded to it, and the copy of a checkpoint on its way out.
pub fn host_parts(layout: &Layout) -> HostParts {
    let process = if layout.system == System::Worker { PROCESS_BYTES / 10.0 } else { PROCESS_BYTES };
    HostParts {
        processes: processes(layout) * process,
        offloaded: layout.hardware.gpus_per_node * offloaded_per_gpu(layout),
        checkpoint: checkpoint_staging(layout),
    }
}

/// [`host_parts`] in all.
pub(super) fn bytes(layout: &Layout) -> f64 {
    let parts = host_parts(layout);
    parts.processes + parts.offloaded + parts.checkpoint
}

/// What one node's host holds at least, bytes: its processes and what is offloaded, less `below`, the share by which
/// memory may lie under its prediction. A checkpoint may pass in parts, and paged states move only when they must.
pub(super) fn least_bytes(layout: &Layout, below: f64) -> f64 {
    let process =
        if layout.system == System::Worker { LEAST_PROCESS_BYTES / 10.0 } else { LEAST_PROCESS_BYTES };
    let mut unpaged = layout.clone();
    unpaged.offload.paged = false;
    processes(layout) * process + layout.hardware.gpus_per_node * offloaded_per_gpu(&unpaged) * (1.0 - below)
}

/// What one GPU moves to its host.
fn offloaded_per_gpu(layout: &Layout) -> f64 {
    let Some(stage) = fullest(layout) else { return 0.0 };
    let kept = Layout { offload: crate::predict::layout::Offload::default(), ..layout.clone() };
    let on_gpu = states::states(&kept, &stage);
    let left = states::states(layout, &stage);
    let moved = (on_gpu.parameters - left.parameters)
        + (on_gpu.gradients - left.gradients)
        + (on_gpu.optimizer - left.optimizer);
    let activations = if moments::offloads(layout) {
        let work = &layout.work;
        let tokens = work.sequence_length * work.sequences_at_once() / layout.degrees.context;
        activations::saved(layout).kept * tokens * stage.layers
    } else {
        0.0
    };
    moved.max(0.0) + activations
}

/// Weights and optimizer states of the node's ranks on their way to storage: sharded checkpoints are copied to the
/// host first (`torch.distributed.checkpoint`), full ones gathered there by rank 0 (`FullStateDictConfig`).
fn checkpoint_staging(layout: &Layout) -> f64 {
    let Some(stage) = fullest(layout) else { return 0.0 };
    let states = states::states(layout, &stage);
    let share = layout.hardware.gpus_per_node * (states.parameters + states.optimizer);
    share.min(16.0 * layout.model.parameters)
}

/// Parameters that are gathered at once on their way into a checkpoint.
fn gathered_at_once(layout: &Layout, stage: &Stage) -> f64 {
    if layout.one_unit {
        stage.parameters()
    } else {
        2.0 * super::stages::layer_parameters(layout) + stage.outer_parameters
    }
}

/// GPU memory while a checkpoint is saved: the states, and one gathered unit where weights are sharded; bytes.
pub(super) fn peak_checkpoint(layout: &Layout) -> f64 {
    stages(layout)
        .map(|stage| {
            let states = states::states(layout, &stage);
            let units = units::units(layout, &stage);
            states.parameters
                + states.gradients
                + states.optimizer
                + units.gathered.min(units::compute_width(layout) * gathered_at_once(layout, &stage))
        })
        .fold(0.0, f64::max)
}
