//! The dimensions of the model that degrees split.

use trainc_ir::architecture::Architecture;
use trainc_ir::{Mesh, Plan};

/// The help if no tensor degree divides the model.
pub(crate) const NO_TENSOR_DEGREE: &str = "remove `tensor-degree` and shard instead: no degree divides both \
    the model's dimensions and the world size";

/// Returns the dimensions of which each tensor rank holds an equal part, by name.
pub(crate) fn tensor_dimensions(architecture: &Architecture) -> [(&'static str, u64); 4] {
    [
        ("heads", architecture.heads),
        ("kv-heads", architecture.kv_heads),
        ("hidden", architecture.hidden),
        ("ffn", architecture.ffn),
    ]
}

/// Returns the number whose divisors are the valid tensor degrees: those that divide all dimensions and the
/// world size, and the ranks of a node if the written group is larger than a node.
pub(crate) fn tensor_degree_multiple(mesh: &Mesh, architecture: &Architecture) -> u64 {
    let per_node = mesh.ranks_per_node();
    let room = if per_node.is_multiple_of(mesh.tensor_degree.value) { mesh.world_size } else { per_node };
    let dims = tensor_dimensions(architecture).into_iter().filter(|(_, n)| *n > 0);
    dims.fold(gcd(mesh.world_size, room), |common, (_, n)| gcd(common, n))
}

/// Returns [`tensor_degree_multiple`] if the written tensor degree does not divide the model.
pub(crate) fn tensor_degree_multiple_if_invalid(plan: &Plan, mesh: &Mesh) -> Option<u64> {
    let architecture = plan.model.as_ref()?.architecture.as_ref()?;
    let broken =
        |n: u64| n > 0 && mesh.tensor_degree.value > 0 && !n.is_multiple_of(mesh.tensor_degree.value);
    let mut dims = tensor_dimensions(architecture).into_iter();
    dims.any(|(_, n)| broken(n)).then(|| tensor_degree_multiple(mesh, architecture))
}

/// Returns the greatest common divisor.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns whether the sequence is longer than the model's table of learned positions: every step would fail.
pub(crate) fn exceeds_positions(plan: &Plan) -> bool {
    let architecture = plan.model.as_ref().and_then(|model| model.architecture.as_ref());
    let limit = architecture.and_then(Architecture::sequence_limit);
    let length = plan.job.train.sequence_length.get();
    length.zip(limit).is_some_and(|(length, limit)| limit > 0 && length > limit)
}
