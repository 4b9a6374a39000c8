//! What the cost model says, in the form of plan.json.

use super::json::{Interval, Memory, MemoryParts};
use crate::ir::Plan;
use crate::predict::{self, Layout, Unknown};

/// Why nothing can be predicted of a plan, if so: a lowercase fragment.
pub(super) fn unknown(plan: &Plan) -> Option<&'static str> {
    Layout::of_plan(plan).err().map(|Unknown(why)| why)
}

/// Memory of the fullest GPU; null where something is not known.
pub(super) fn memory(plan: &Plan) -> Memory {
    let capacity = plan.machine.as_ref().and_then(|machine| machine.gpu_memory_bytes);
    let Ok(layout) = Layout::of_plan(plan) else {
        return Memory { capacity_bytes: capacity, ..Memory::default() };
    };
    let memory = predict::memory::memory(&layout);
    let parts = whole_parts(&memory.parts);
    let sum = [
        parts.parameters,
        parts.gradients,
        parts.optimizer,
        parts.activations,
        parts.gathered,
        parts.logits,
        parts.buffers,
        parts.reserve,
    ];
    // The sum of the rounded parts, so that the parts of the page add up to its whole.
    let per_gpu = sum.into_iter().flatten().sum();
    Memory {
        per_gpu_bytes: Some(per_gpu),
        capacity_bytes: capacity,
        fits: memory.fits,
        interval: Some(Interval { low: memory.interval.low, high: memory.interval.high }),
        host_bytes: memory.host_bytes.map(whole),
        peak_checkpoint_bytes: memory.peak_checkpoint_bytes.map(whole),
        parts,
    }
}

fn whole_parts(parts: &predict::MemoryParts) -> MemoryParts {
    MemoryParts {
        parameters: Some(whole(parts.parameters)),
        gradients: Some(whole(parts.gradients)),
        optimizer: Some(whole(parts.optimizer)),
        activations: Some(whole(parts.activations)),
        gathered: Some(whole(parts.gathered)),
        logits: Some(whole(parts.logits)),
        buffers: Some(whole(parts.buffers)),
        reserve: Some(whole(parts.reserve)),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, held above zero")]
fn whole(bytes: f64) -> u64 {
    bytes.max(0.0).round() as u64
}
