//! Host memory of a node, and the peak while a checkpoint is saved.

use super::constants::MemoryConstants;
use super::moments;
use super::stages::{Stage, candidate_fullest_stages};
use super::{activations, states, units};
use crate::layout::{Layout, System};
use crate::prediction::Interval;

fn processes_per_node(layout: &Layout) -> f64 {
    if layout.system == System::DeviceMap { 1.0 } else { layout.hardware.gpus_per_node }
}

fn fullest(layout: &Layout) -> Option<Stage> {
    candidate_fullest_stages(layout).into_iter().max_by(|a, b| a.parameters().total_cmp(&b.parameters()))
}

/// Host memory of a node by part, bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostParts {
    /// Its processes.
    pub processes: f64,
    /// Offloaded state.
    pub offloaded: f64,
    /// Copy of a checkpoint being saved.
    pub checkpoint: f64,
}

/// Returns the bytes of a node's processes, given those of a Python process with torch and CUDA. A rank of
/// the worker has no interpreter, but loads the same libraries.
fn process_bytes(layout: &Layout, python: f64) -> f64 {
    processes_per_node(layout) * python
}

/// Returns the host memory of a node: processes, offloaded state, and the copy of a checkpoint being saved.
pub fn host_parts(layout: &Layout, constants: &MemoryConstants) -> HostParts {
    HostParts {
        processes: process_bytes(layout, constants.process),
        offloaded: layout.hardware.gpus_per_node * offloaded_per_gpu(layout),
        checkpoint: checkpoint_staging(layout),
    }
}

/// Returns the total of [`host_parts`].
pub(super) fn host_bytes(layout: &Layout, constants: &MemoryConstants) -> f64 {
    let parts = host_parts(layout, constants);
    parts.processes + parts.offloaded + parts.checkpoint
}

/// Returns the expected interval of a host's memory, bytes. No run of the table measured a host, so the ends
/// are bounds: the processes between the lowest and the highest observed value, and data from the GPUs with
/// the error of step peaks. The low end excludes the checkpoint, which may be written in parts, and paged
/// states, which move only when necessary.
pub(super) fn host_interval(layout: &Layout, constants: &MemoryConstants) -> Interval {
    let (least, most) = constants.process_between;
    let mut unpaged = layout.clone();
    unpaged.offload.paged = false;
    let gpus = layout.hardware.gpus_per_node;
    let moved = gpus * offloaded_per_gpu(layout) + checkpoint_staging(layout);
    Interval {
        low: process_bytes(layout, least)
            + gpus * offloaded_per_gpu(&unpaged) * (1.0 - constants.ends(layout).0),
        high: process_bytes(layout, most) + moved * (1.0 + constants.ends(layout).1),
    }
}

/// Returns the state offloaded by one GPU.
fn offloaded_per_gpu(layout: &Layout) -> f64 {
    let Some(stage) = fullest(layout) else { return 0.0 };
    let kept = Layout { offload: crate::layout::Offload::default(), ..layout.clone() };
    let on_gpu = states::states(&kept, &stage);
    let left = states::states(layout, &stage);
    let in_memory = |is_on_disk: bool, bytes: f64| if is_on_disk { 0.0 } else { bytes };
    let with_optimizer = (on_gpu.gradients - left.gradients) + (on_gpu.optimizer - left.optimizer);
    let moved = in_memory(layout.offload.parameters_on_disk, on_gpu.parameters - left.parameters)
        + in_memory(layout.offload.optimizer_on_disk, with_optimizer);
    let activations = if moments::offloads_activations(layout) {
        let work = &layout.work;
        let tokens = work.sequence_length * work.sequences_at_once() / layout.degrees.context;
        activations::saved_activations(layout).kept * tokens * stage.layers
    } else {
        0.0
    };
    moved.max(0.0) + activations
}

/// Returns the weights and optimizer states of the node's ranks on their way to storage: sharded checkpoints
/// are first copied to the host (`torch.distributed.checkpoint`), full ones gathered there by rank 0
/// (`FullStateDictConfig`).
fn checkpoint_staging(layout: &Layout) -> f64 {
    let Some(stage) = fullest(layout) else { return 0.0 };
    let states = states::states(layout, &stage);
    let share = layout.hardware.gpus_per_node * (states.parameters + states.optimizer);
    share.min(16.0 * layout.model.parameters)
}

/// Returns the number of parameters that are gathered at once for a checkpoint.
fn gathered_at_once(layout: &Layout, stage: &Stage) -> f64 {
    if layout.one_unit {
        stage.parameters()
    } else {
        2.0 * super::stages::layer_parameters(layout) + stage.outer_parameters
    }
}

/// Returns the GPU memory while a checkpoint is saved, bytes: the states alone, and with one gathered unit if
/// weights are sharded.
pub(super) fn peak_checkpoint(layout: &Layout) -> (f64, f64) {
    let most = |(least, peak): (f64, f64), (states, all): (f64, f64)| (least.max(states), peak.max(all));
    candidate_fullest_stages(layout)
        .iter()
        .map(|stage| {
            let states = states::states(layout, stage);
            let units = units::units(layout, stage);
            let states = states.parameters + states.gradients + states.optimizer;
            let unit = units::compute_width(layout) * gathered_at_once(layout, stage);
            (states, states + units.gathered.min(unit))
        })
        .fold((0.0, 0.0), most)
}
