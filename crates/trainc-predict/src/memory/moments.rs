//! The three moments of a step at which memory can be highest.

use super::stages::{Stage, candidate_fullest_stages};
use super::states::{self, StateBytes};
use super::units::{Units, units};
use super::{activations, loss, schedule};
use crate::layout::{Code, Layout, Recompute, Sharding, System};
use crate::prediction::MemoryParts;

/// Returns the peak of allocations on the fullest GPU, without the reserve.
pub(super) fn peak(layout: &Layout) -> MemoryParts {
    highest(layout, &candidate_fullest_stages(layout))
}

/// Returns the peak of allocations on the GPUs of the first pipeline stage, without the reserve.
pub(super) fn peak_of_first_stage(layout: &Layout) -> MemoryParts {
    let stages = candidate_fullest_stages(layout);
    highest(layout, stages.get(..1).unwrap_or_default())
}

fn highest(layout: &Layout, stages: &[Stage]) -> MemoryParts {
    let peaks = stages.iter().flat_map(|stage| peaks_of_stage(layout, stage));
    peaks.max_by(|a, b| a.total().total_cmp(&b.total())).unwrap_or_default()
}

/// Activations on the GPU, those that a layer adds in its backward pass, and those of the first layer, whose
/// backward pass is last; bytes.
#[derive(Clone, Copy)]
struct Activations {
    kept: f64,
    again: f64,
    first: f64,
}

/// Returns the tokens of one micro-batch on one GPU.
fn tokens(layout: &Layout) -> f64 {
    layout.work.sequence_length * layout.work.sequences_at_once() / layout.degrees.context
}

/// Returns true if offloaded activations leave the GPU.
///
/// They require checkpointing; SMP v1 moves them only between the micro-batches of one batch ("when used with
/// only one microbatch, it does not save memory", SageMaker developer guide), if more than one of them is in
/// flight: to SMP v1, passes that accumulate gradients are separate batches.
pub fn offloads_activations(layout: &Layout) -> bool {
    let work = &layout.work;
    let between = work.num_micro_batches > 1.0 && work.num_active_micro_batches != Some(1.0);
    layout.offload.activations
        && layout.recompute == Recompute::Full
        && (layout.system != System::SmpV1 || between)
}

fn activations(layout: &Layout, stage: &Stage) -> Activations {
    let saved = activations::saved_activations(layout);
    let tokens = tokens(layout);
    let mut layers = stage.layers;
    if offloads_activations(layout) {
        // As many layers as are loaded in advance, by default four (`activation_loading_horizon`).
        let on_gpu = if layout.system == System::SmpV1 { layout.offload.horizon.unwrap_or(4.0) } else { 2.0 };
        return Activations {
            kept: saved.kept * tokens * layers.min(on_gpu),
            again: saved.again * tokens,
            first: saved.whole * tokens,
        };
    }
    if layout.degrees.pipeline > 1.0 && layout.code == Code::MegatronDeepspeed {
        // DeepSpeed's pipeline buffers keep the received and sent activations of a stage in addition to the
        // checkpoints.
        let whole = activations::Kept::from_layout(layout);
        layers += 2.0 * activations::checkpoint_bytes_per_token(layout, &whole) / saved.kept.max(1.0);
    }
    let in_flight = schedule::micro_batches_in_flight(layout, stage);
    // nanotron keeps what a stage sends until its backward pass; what it receives is the input of its first
    // layer.
    let sent = if layout.code == Code::Nanotron && !stage.last {
        let split = if layout.sequence_parallel { layout.degrees.tensor } else { 1.0 };
        in_flight * 2.0 * tokens * layout.model.hidden / split
    } else {
        0.0
    };
    Activations {
        kept: saved.kept * tokens * layers * in_flight + sent,
        again: saved.again * tokens,
        first: saved.whole * tokens,
    }
}

fn peaks_of_stage(layout: &Layout, stage: &Stage) -> [MemoryParts; 3] {
    let states = states::states(layout, stage);
    let units = units(layout, stage);
    let activations = activations(layout, stage);
    [
        memory_at_loss(layout, stage, &states, &units, activations),
        memory_in_layer_backward(&states, &units, activations),
        memory_in_optimizer_step(layout, &states, &units),
    ]
}

fn resident_parts(states: &StateBytes, units: &Units) -> MemoryParts {
    MemoryParts {
        parameters: states.parameters,
        gradients: states.gradients,
        optimizer: states.optimizer,
        gathered: units.gathered,
        buffers: units.buffers,
        ..MemoryParts::default()
    }
}

/// Returns the memory at the loss: all activations and the logits; gradients only if they persist.
fn memory_at_loss(
    layout: &Layout,
    stage: &Stage,
    states: &StateBytes,
    units: &Units,
    activations: Activations,
) -> MemoryParts {
    if !stage.last {
        return MemoryParts::default();
    }
    MemoryParts {
        gradients: if states.gradients_stay { states.gradients } else { 0.0 },
        activations: activations.kept,
        logits: loss::logits_and_loss_bytes(layout),
        ..resident_parts(states, units)
    }
}

/// Returns the memory in the backward pass of a layer: the last one with all activations, or the first one
/// with all gradients.
fn memory_in_layer_backward(states: &StateBytes, units: &Units, activations: Activations) -> MemoryParts {
    let last = activations.kept + activations.again;
    let first = activations.first;
    if states.gradients_stay || last > first + states.gradients {
        let gradients = if states.gradients_stay { states.gradients } else { 0.0 };
        MemoryParts { gradients, activations: last, ..resident_parts(states, units) }
    } else {
        MemoryParts { activations: first, ..resident_parts(states, units) }
    }
}

/// Returns the memory in the optimizer's step: nothing is gathered; `foreach` kernels copy the tensors that
/// they update (torch.optim documentation: "uses ~ sizeof(params) more peak memory").
fn memory_in_optimizer_step(layout: &Layout, states: &StateBytes, units: &Units) -> MemoryParts {
    let copies = if layout.optimizer_copies && !layout.offload.optimizer && layout.lora.is_none() {
        states.parameters.min(states.optimizer)
    } else {
        0.0
    };
    let buffers = if layout.sharding == Sharding::None { units.buffers } else { units.buffers.max(copies) };
    MemoryParts { gathered: 0.0, buffers: buffers.max(copies), ..resident_parts(states, units) }
}
