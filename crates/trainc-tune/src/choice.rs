//! One layout of the space.

use trainc_ir::Axis;
use trainc_ir::engine::Law;
use trainc_predict::{Layout, Recompute, Sharding};

/// Parallel degrees, and the sharded states. The rest of the world size is replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Degrees {
    /// Ranks of the shard axis.
    pub shard: u64,
    /// Ranks that each layer is split over.
    pub tensor: u64,
    /// Pipeline stages.
    pub pipeline: u64,
    /// Parts of the sequence.
    pub context: u64,
    /// Parts of the sequence outside attention, and of the heads inside it.
    pub ulysses: u64,
    /// Parts of the experts.
    pub expert: u64,
    /// Sharded states.
    pub sharding: Sharding,
}

impl Degrees {
    /// Nothing is split.
    pub(super) const ONE: Self = Self {
        shard: 1,
        tensor: 1,
        pipeline: 1,
        context: 1,
        ulysses: 1,
        expert: 1,
        sharding: Sharding::None,
    };

    /// Returns the degree of an axis; 1 for replicas, which the others leave.
    pub(super) fn degree(&self, axis: Axis) -> u64 {
        match axis {
            Axis::Replica => 1,
            Axis::Shard => self.shard,
            Axis::Tensor => self.tensor,
            Axis::Pipeline => self.pipeline,
            Axis::Context => self.context,
            Axis::Ulysses => self.ulysses,
            Axis::Expert => self.expert,
        }
    }

    /// Returns the same with another degree of an axis.
    pub(super) fn with_degree(mut self, axis: Axis, degree: u64) -> Self {
        match axis {
            Axis::Replica => {}
            Axis::Shard => self.shard = degree,
            Axis::Tensor => self.tensor = degree,
            Axis::Pipeline => self.pipeline = degree,
            Axis::Context => self.context = degree,
            Axis::Ulysses => self.ulysses = degree,
            Axis::Expert => self.expert = degree,
        }
        self
    }

    /// Returns the ranks of each replica and shard: the product of the degrees of the law's other factors.
    pub(super) fn beside_shards(&self, law: &Law) -> u64 {
        let axes = law.factors.iter().map(|factor| factor.axis).filter(|axis| *axis != Axis::Shard);
        axes.map(|axis| self.degree(axis)).product()
    }

    /// Returns the ranks over which one copy of the states is divided.
    pub(super) fn states(&self, law: &Law) -> u64 {
        law.states_over.iter().map(|axis| self.degree(*axis)).product()
    }

    /// Returns true if the degrees of axes inside others divide theirs.
    pub(super) fn are_parts_whole(&self, law: &Law) -> bool {
        let product = |axes: &[Axis]| axes.iter().map(|axis| self.degree(*axis)).product::<u64>().max(1);
        law.inside.iter().all(|inside| {
            let part = self.degree(inside.degree.axis);
            let (room, whole) = (product(inside.of), product(inside.whole));
            part <= 1 || room.is_multiple_of(part) && part.is_multiple_of(whole)
        })
    }
}

/// State offloaded to host memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostOffload {
    /// Checkpointed activations.
    pub activations: bool,
    /// Parameters and optimizer states.
    pub states: bool,
    /// Optimizer states alone.
    pub optimizer: bool,
}

impl HostOffload {
    /// Returns what a layout offloads.
    pub(super) fn of_layout(layout: &Layout) -> Self {
        let offload = &layout.offload;
        Self {
            activations: offload.activations,
            states: offload.parameters,
            optimizer: offload.optimizer && !offload.parameters,
        }
    }
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
    /// Sequences per step. The search keeps those of the manifest.
    pub global_sequences: u64,
    /// Settings that the search leaves as they are.
    pub switches: Switches,
}

/// Settings that a change near the manifest's layout turns on; false for what the manifest has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// FSDP gathers layer by layer instead of the whole model at once.
    pub wrap: bool,
    /// The kernels of FlashAttention.
    pub flash: bool,
    /// FSDP instead of a complete copy of the model on every rank.
    pub fsdp: bool,
    /// Frozen weights in 4 bits.
    pub nf4: bool,
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
