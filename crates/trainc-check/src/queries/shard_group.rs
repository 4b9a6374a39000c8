//! The shard group: the GPUs that hold one copy of the model's states.

use trainc_diag::source::Span;
use trainc_ir::{Mesh, Parallel, Plan};

/// Bytes of weight, gradient and AdamW state per parameter in the usual mixed precision (ZeRO paper, 2+2+12).
pub(crate) const STATE_BYTES: u64 = 16;

/// Returns the number of GPUs in a shard group.
pub(crate) fn group_gpus(mesh: &Mesh) -> u64 {
    mesh.states_degree() * mesh.tensor_degree.value * mesh.pipeline_degree.value
}

/// Returns the place of the value that decides the size of the group.
pub(crate) fn group_span(parallel: &Parallel, mesh: &Mesh) -> Span {
    mesh.shard_degree.span_or(parallel.strategy.span().unwrap_or(parallel.span))
}

/// Returns the nodes that a shard group should have, one per 3 billion parameters; 0 under an adapter, whose
/// frozen weights have neither gradients nor optimizer states.
pub(crate) fn minimum_nodes(plan: &Plan, mesh: &Mesh) -> u64 {
    mesh.minimum_nodes.as_ref().filter(|_| plan.job.adapter.is_none()).map_or(0, |minimum| minimum.value)
}
