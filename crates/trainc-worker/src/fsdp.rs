//! Fully sharded data parallelism: each rank holds a shard of every unit, and a unit's full parameters exist
//! only around their use. The engine of CPU ranks is here, that of GPUs in `aten`.

mod cpu;
mod memory_parts;
pub mod schedule;
mod vectors;

use std::borrow::Cow;

use crate::comm::shm::Plan;
use crate::comm::{Groups, Topology, Wire};
use crate::config::{Config, Format, Optimizer};
use crate::exit::Failure;
use crate::model::layout::{Shape, Unit};

pub use cpu::CpuEngine;
pub use memory_parts::MemoryParts;
pub(crate) use vectors::{Place as VectorPlace, vector_places};

/// Alignment of shards in elements.
const ALIGN: usize = 16;

/// Returns the elements of one shard of a unit of `len` elements.
pub fn shard_len(len: usize, degree: usize) -> usize {
    len.div_ceil(degree).next_multiple_of(ALIGN)
}

/// Place of a rank's shard in its unit. Shards are padded at the end with elements that stay 0.
#[derive(Clone, Debug)]
pub struct Shard {
    /// Unit that is sharded.
    pub unit: Unit,
    /// Index of its first element in the unit.
    pub start: usize,
    /// Its elements.
    pub len: usize,
}

/// Returns the shards of rank `rank` of a shard group of `degree` ranks, in order of use.
pub(crate) fn shards(shape: &Shape, rank: usize, degree: usize) -> Vec<Shard> {
    let place = |unit: Unit| {
        let len = shard_len(unit.len, degree);
        Shard { start: rank * len, len, unit }
    };
    shape.units().into_iter().map(place).collect()
}

/// Values of a trained shard that a checkpoint holds, all in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// Master weights.
    Master,
    /// AdamW's first moment.
    ExpAvg,
    /// AdamW's second moment.
    ExpAvgSq,
}

impl StateKind {
    /// All of them, in the order of a checkpoint.
    pub const ALL: [Self; 3] = [Self::Master, Self::ExpAvg, Self::ExpAvgSq];

    /// Returns the name in a checkpoint.
    pub fn name(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::ExpAvg => "exp_avg",
            Self::ExpAvgSq => "exp_avg_sq",
        }
    }
}

/// Results of a step's passes on this rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassSums {
    /// Sum of the loss in nats over this rank's counted labels.
    pub loss: f64,
    /// This rank's part of the squared norm of the full gradient.
    pub squared_norm: f64,
}

/// Training state of one rank. All engines issue the collectives of [`schedule`] in its order, and hold the
/// same shards.
pub trait Engine {
    /// Returns the groups for messages between hosts: sums of a few numbers, and values that a checkpoint
    /// needs.
    fn groups(&mut self) -> &mut Groups;
    /// Returns this rank's shards in order of use: embed, blocks, head, adapters.
    fn shards(&self) -> &[Shard];
    /// Returns the rows of a micro-batch: sequences times their length.
    fn rows(&self) -> usize;
    /// Sets the start of each row's document in its sequence for the following passes; empty if documents are
    /// joined.
    fn set_document_starts(&mut self, begins: &[u32]);
    /// Runs the forward and backward pass of a micro-batch, and adds the gradients of `scale` times the sum
    /// of its loss to the shards.
    fn micro_step(&mut self, tokens: &[u32], labels: &[u32], scale: f64) -> Result<(), Failure>;
    /// Returns the sum of the loss over a micro-batch, without gradients.
    fn evaluate(&mut self, tokens: &[u32], labels: &[u32]) -> Result<f64, Failure>;
    /// Returns the logits of a micro-batch, row by row.
    fn logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, Failure>;
    /// Sums the gradients over replicas. Returns the sums of all passes since the last update, once they are
    /// complete.
    fn reduce(&mut self) -> Result<PassSums, Failure>;
    /// Updates the shards with the gradients times `factor` and clears the gradients; `step` counts from 0.
    fn update(&mut self, optimizer: &Optimizer, step: usize, rate: f64, factor: f64) -> Result<(), Failure>;
    /// Drops the gradients and the loss of a partial step.
    fn clear_gradients(&mut self) -> Result<(), Failure>;
    /// Returns values of shard `shard`.
    fn read_shard(&self, shard: usize, state: StateKind) -> Result<Cow<'_, [f32]>, Failure>;
    /// Copies values of shard `shard`; `to` has its length.
    fn copy_shard(&self, shard: usize, state: StateKind, to: &mut [f32]) -> Result<(), Failure> {
        to.copy_from_slice(&self.read_shard(shard, state)?);
        Ok(())
    }
    /// Prepares memory that is never freed for fast copies, where that makes a difference.
    #[expect(clippy::mut_mut, reason = "the memory itself is replaced")]
    fn pin(&self, _memory: &mut &'static mut [f32]) {}
    /// Replaces values of shard `shard`; `values` has its length.
    fn write_shard(&mut self, shard: usize, state: StateKind, values: &[f32]) -> Result<(), Failure>;
    /// Returns a unit's full master weights in f32. Every rank of the shard group must call it.
    fn gather_master_weights(&mut self, unit: usize) -> Result<Vec<f32>, Failure>;
    /// Returns the most memory in bytes that this rank has used so far: of the GPU, or of the process on a
    /// CPU rank.
    fn peak_memory(&self) -> u64;
    /// Returns the memory currently allocated by this rank, without shared memory and copies for a save.
    fn allocated(&self) -> MemoryParts;
}

impl dyn Engine + '_ {
    /// Returns the indices of the trained shards, which are those in a checkpoint.
    pub fn trained(&self) -> Vec<usize> {
        (0..self.shards().len()).filter(|at| self.shards()[*at].unit.trained).collect()
    }
}

/// Returns the layout of the shared memory for a config.
pub fn shared_memory_plan(config: &Config) -> Plan {
    let shards = config.mesh.shard_degree;
    let mut units = Shape::from_model(&config.model).units();
    if config.uses_gpus() {
        // Their units are gathered by NCCL.
        units.clear();
    }
    Plan {
        topology: topology(config),
        largest_shard: units.iter().map(|u| shard_len(u.len, shards)).max().unwrap_or(ALIGN),
        prefetch: config.memory.prefetch,
        host: None,
    }
}

/// Returns the ranks and hosts of a config.
pub fn topology(config: &Config) -> Topology {
    Topology {
        shards: config.mesh.shard_degree,
        replicas: config.mesh.data_parallel_replicas,
        hosts: config.cluster.nodes,
    }
}

fn wire(format: Format) -> Wire {
    match format {
        Format::F32 => Wire::F32,
        Format::Bf16 => Wire::Bf16,
    }
}
