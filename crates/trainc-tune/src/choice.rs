//! One layout of the space.

use trainc_predict::{Recompute, Sharding};

/// Parallel degrees, and the states sharded over the shard group. The rest of the world size is replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Degrees {
    /// Ranks that one copy of the states is sharded over.
    pub shard: u64,
    /// Ranks that each layer is split over.
    pub tensor: u64,
    /// Pipeline stages.
    pub pipeline: u64,
    /// Parts of the sequence; divides the shard degree.
    pub context: u64,
    /// Parts of the experts; divides the shard degree.
    pub expert: u64,
    /// Sharded states.
    pub sharding: Sharding,
}

/// State offloaded to host memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostOffload {
    /// Checkpointed activations.
    pub activations: bool,
    /// Parameters and optimizer states.
    pub states: bool,
}

/// A layout: one value on each axis of the space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Index into [`Space::sites`](super::space::Space::sites).
    pub site: usize,
    /// Number of nodes.
    pub nodes: u64,
    /// Parallel degrees.
    pub degrees: Degrees,
    /// Sequences per micro-batch.
    pub micro_batch_size: u64,
    /// Micro-batches per pass through the pipeline; 1 without a pipeline.
    pub num_micro_batches: u64,
    /// Forward and backward passes per step: micro-batches per pass × accumulation.
    pub passes: u64,
    /// Activation recomputation.
    pub recompute: Recompute,
    /// Offload to host memory.
    pub host_offload: HostOffload,
}

/// Converts a count that a layout holds as a float.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small count, made from an integer"
)]
pub(super) fn round_to_count(count: f64) -> u64 {
    count.max(0.0).round() as u64
}
