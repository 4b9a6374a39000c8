//! Memory of a rank by part, computed from its config.

use super::schedule::Schedule;
use super::vectors::Vectors;
use super::{shard_len, shared_memory_plan};
use crate::config::{Config, Format, Recompute};
use crate::model::block::{SavedActivations, Scratch};
use crate::model::embedding_head::HeadScratch;
use crate::model::gradients::Workspace;
use crate::model::layout::{Shape, Unit};

/// Memory of a rank by part, in bytes; the names are those of plan.json.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MemoryParts {
    /// Master weights.
    pub parameters: usize,
    /// Gradient shards.
    pub gradients: usize,
    /// AdamW states.
    pub optimizer: usize,
    /// Stored activations and scratch buffers.
    pub activations: usize,
    /// Gathered units, prefetched shards, the full gradient of one unit; with bf16 the vectors of all units.
    pub gathered: usize,
    /// A chunk of logits and the head's scratch buffers.
    pub logits: usize,
    /// This rank's part of the shared memory for sums, and the copy for a save.
    pub buffers: usize,
}

impl MemoryParts {
    /// Computes the memory of a rank.
    pub fn from_config(config: &Config) -> Self {
        if config.uses_gpus() { Self::on_gpu(config) } else { Self::on_cpu(config) }
    }

    /// Computes the memory of a GPU rank. Temporary tensors go through PyTorch's allocator: their peak is
    /// counted from the operators of a pass, without fragmentation.
    pub fn on_gpu(config: &Config) -> Self {
        /// CUDA's context, workspaces of cuBLAS and cuDNN, and NCCL's buffers: 1.8 GB on one H200 without
        /// NCCL (gpu-report.json).
        const LIBRARIES: usize = 2 << 30;
        let shape = Shape::from_model(&config.model);
        let degree = config.mesh.shard_degree;
        let units = shape.units();
        let held = |u: &Unit| shard_len(u.len, degree);
        let shards: usize = units.iter().map(held).sum();
        let trained: usize = units.iter().filter(|u| u.trained).map(held).sum();
        let width = |format| if format == Format::F32 { 4 } else { 2 };
        let (k, rows) = (width(config.precision.compute), config.batch.micro * shape.heads.sequence);
        // Gathered units, two full gradients with their sums, a third of a tied embedding, vectors.
        let tied = shape.tied && shape.adapter.is_none();
        let in_turn = units.iter().skip(usize::from(tied)).filter(|u| u.trained).map(held);
        let embedding = if tied { held(&units[0]) } else { 0 };
        let sums = (2 * in_turn.max().unwrap_or(0) + embedding) * (degree + 1);
        let sent = if config.precision.reduce == Format::F32 { 4 } else { 4 + 2 };
        let vectors = if k == 4 { 0 } else { Vectors::elements(&units) };
        let gathered = k * Schedule::for_pass(config).gather_elements() + sent * sums + 4 * vectors;
        // What the backward pass keeps, in bytes a row.
        let (h, f, up) = (shape.hidden, shape.inner, shape.up_width());
        let (a, wide) = (shape.attention_width(), shape.heads.width());
        let middle = if shape.parallel { 0 } else { h };
        let block = k * (2 * h + wide + a + up + f) + 4 * (shape.heads.heads + middle + 4);
        let again = config.memory.recompute == Recompute::Block;
        let kept = 4 * h * shape.layers + block * if again { 1 } else { shape.layers };
        // The most that is alive beside it: in the feed-forward layers, the attention, or its projection.
        let feed_forward = 4 * h + k * (h + up + 2 * f);
        let attention = 8 * h + k * (a + 2 * wide);
        let rotation = 8 * h + k * wide + 8 * wide;
        let projection = 8 * h + k * (wide + h) + 12 * h;
        let passing = feed_forward.max(attention).max(rotation).max(projection);
        let chunk = crate::aten::chunk_rows(rows, shape.vocab);
        // Logits in the compute format, four f32 tensors of a chunk, and the gradient of the token table.
        let head = k * rows * shape.vocab + 16 * chunk * shape.vocab + rows * (k + 4) * h;
        let table = if shape.adapter.is_some() { 0 } else { 4 * shape.vocab * h * if tied { 2 } else { 1 } };
        Self {
            parameters: 4 * shards,
            gradients: 4 * trained,
            optimizer: 8 * trained,
            activations: rows * (kept + passing),
            gathered,
            logits: head.max(table).saturating_sub(rows * passing),
            buffers: LIBRARIES,
        }
    }

    fn on_cpu(config: &Config) -> Self {
        let shape = Shape::from_model(&config.model);
        let degree = config.mesh.shard_degree;
        let units = shape.units();
        let held = |u: &Unit| shard_len(u.len, degree);
        let shards: usize = units.iter().map(held).sum();
        let trained: usize = units.iter().filter(|u| u.trained).map(held).sum();
        let vectors = if config.precision.compute == Format::Bf16 { Vectors::elements(&units) } else { 0 };
        let (units, adapters) = units.split_at(shape.layers + 2);
        let rows = config.batch.micro * shape.heads.sequence;
        let kept = if config.memory.recompute == Recompute::Block {
            (shape.layers) * rows * shape.hidden + SavedActivations::<f32>::elements(&shape, rows)
        } else {
            shape.layers * SavedActivations::<f32>::elements(&shape, rows)
        };
        let full = |u: &Unit| shard_len(u.len, degree) * degree;
        // The full gradient of one unit; frozen units have none.
        let largest = units.iter().filter(|u| u.trained).map(full).max().unwrap_or(0);
        let room =
            shape.adapter.as_ref().map_or(0, |l| Workspace::<f32>::elements(rows, shape.hidden, l.rank));
        let adapter_gradient = adapters.iter().map(full).max().unwrap_or(0);
        let blocks = || units.iter().take(units.len().saturating_sub(1)).skip(1).map(full);
        let at_once = if config.memory.reshard_after_forward { 1 } else { shape.layers };
        let gathered = if degree > 1 || config.precision.compute == Format::Bf16 {
            let ends: usize = [units.first(), units.last()].into_iter().flatten().map(full).sum();
            // The embedding is freed before the next gather, unless it is also the head.
            let embed = units.first().map_or(0, full);
            let again = blocks().next() == Some(embed) || units.last().map(full) == Some(embed);
            let spared = if again && !shape.tied { embed } else { 0 };
            let adapters: usize = adapters.iter().map(full).take(at_once).sum();
            ends + blocks().take(at_once).sum::<usize>() + adapters - spared
        } else if adapters.is_empty() {
            // Master weights are used in place.
            0
        } else {
            // Adapters are added to a copy.
            blocks().take(at_once).sum()
        };
        let tied = if shape.tied && adapters.is_empty() { units.first().map_or(0, full) } else { 0 };
        let plan = shared_memory_plan(config);
        let ahead = plan.gather_bytes() / plan.ranks();
        let saving = config.checkpoint.every_steps.is_some() || config.checkpoint.every_seconds.is_some();
        let copy = if saving { 12 * trained } else { 0 };
        Self {
            parameters: 4 * shards,
            gradients: 4 * trained,
            optimizer: 8 * trained,
            activations: 4 * (kept + Scratch::<f32>::elements(&shape, rows) + room + 2 * rows * shape.hidden),
            gathered: 4 * (gathered + largest + tied + adapter_gradient + vectors) + ahead,
            logits: 4 * HeadScratch::<f32>::elements(&shape, rows),
            buffers: plan.bytes() / plan.ranks() - ahead + copy,
        }
    }

    /// Returns the sum of all parts.
    pub fn total(&self) -> usize {
        self.parameters
            + self.gradients
            + self.optimizer
            + self.activations
            + self.gathered
            + self.logits
            + self.buffers
    }

    /// Formats the parts in MiB.
    pub fn describe(&self) -> String {
        let mib = |bytes: usize| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        format!(
            "parameters {} + gradients {} + optimizer {} + activations {} + gathered {} + logits \
                {} + buffers {} = {} MiB",
            mib(self.parameters),
            mib(self.gradients),
            mib(self.optimizer),
            mib(self.activations),
            mib(self.gathered),
            mib(self.logits),
            mib(self.buffers),
            mib(self.total())
        )
    }
}
