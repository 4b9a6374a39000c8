//! A rank of engine `worker` on CPUs. Its buffers are allocated once, before the first step, and persist:
//! there is one moment, no allocator that keeps freed blocks and no device context, so every part is counted,
//! not fitted.
//!
//! Everything is stored in 32 bit: on CPUs bf16 is rounding (`crates/trainc-worker/README.md`).
//! `crates/trainc-worker/src/fsdp/memory_parts.rs` is the worker's own account; tests compare the two.

use crate::layout::{Layout, Model};
use crate::part_intervals::{Basis, PartInterval};
use crate::prediction::{Interval, Memory, MemoryParts};

/// Bytes of an element.
const WIDTH: f64 = 4.0;
/// Alignment of shards, in elements (`ALIGN` of the worker's `fsdp.rs`).
const ALIGN: f64 = 16.0;
/// Rows of logits that exist at once (`CHUNK` of its `model/root.rs`).
const LOGIT_ROWS: f64 = 256.0;
/// Rows of attention scores that exist at once (`TILE` of its `kernels/attention.rs`).
const SCORE_ROWS: f64 = 64.0;
/// Elements of one message of a sum between ranks, and number of a rank's messages in flight (`CHUNK` of its
/// `comm/shm.rs`).
const MESSAGE: f64 = 32.0 * 1024.0;
const MESSAGES: f64 = 2.0;
/// Bytes of a channel's counters per rank, and of a rank's line on the liveness board (its `comm/memory.rs`).
const COUNTERS: f64 = 256.0;
const BOARD: f64 = 1_024.0 + 128.0;
/// Largest difference between the worker's own account and this one, a fraction; tests check every part.
const WITHIN: f64 = 0.08;

/// Memory of one rank.
pub(super) fn memory(layout: &Layout) -> Memory {
    let parts = parts(layout);
    let total = parts.total();
    let within = |bytes: f64| Interval { low: bytes * (1.0 - WITHIN), high: bytes * (1.0 + WITHIN) };
    let host = layout.hardware.gpus_per_node * total;
    Memory {
        per_gpu_bytes: total,
        capacity_bytes: None,
        fits: None,
        interval: within(total),
        // The ranks are the host's own processes, and their memory does not change between the first and the
        // last step.
        host_bytes: Some(host),
        host_interval: Some(within(host)),
        peak_checkpoint_bytes: Some(total),
        peak_checkpoint_interval: Some(within(total)),
        part_intervals: parts.map(|bytes| PartInterval { interval: within(bytes), basis: Basis::Account }),
        parts,
    }
}

/// Elements of the units that are gathered, freed and reduced together.
pub(super) struct Units {
    pub(super) embed: f64,
    pub(super) block: f64,
    pub(super) head: f64,
    /// The adapters of one block; 0 if every weight is trained.
    pub(super) adapter: f64,
    pub(super) layers: f64,
    pub(super) degree: f64,
}

impl Units {
    pub(super) fn from_layout(layout: &Layout) -> Self {
        let model = &layout.model;
        let tokens = model.vocab * model.hidden;
        let norm = if model.rms_norm { model.hidden } else { 2.0 * model.hidden };
        let matrix = if model.tied { 0.0 } else { model.head_vocab * model.hidden };
        let positions = model.outer_parameters - tokens - norm - matrix;
        // The table has a row for each token of a training sequence, regardless of the model's configured
        // length.
        let positions =
            if positions >= model.hidden { layout.work.sequence_length * model.hidden } else { 0.0 };
        Self {
            embed: tokens + positions,
            block: model.layer_parameters,
            head: norm + matrix,
            adapter: layout.lora.map_or(0.0, |lora| lora.trainable / model.layers.max(1.0)),
            layers: model.layers,
            degree: layout.degrees.shard.max(1.0),
        }
    }

    /// Elements of a rank's shard of a unit.
    pub(super) fn shard_elements(&self, unit: f64) -> f64 {
        ((unit / self.degree).ceil() / ALIGN).ceil() * ALIGN
    }

    /// Elements of a rank's shards of all units but the adapters.
    pub(super) fn weight_shards(&self) -> f64 {
        self.shard_elements(self.embed)
            + self.layers * self.shard_elements(self.block)
            + self.shard_elements(self.head)
    }

    /// Elements of a rank's shards of all adapters.
    pub(super) fn adapter_shards(&self) -> f64 {
        self.layers * self.shard_elements(self.adapter)
    }

    /// Elements of a whole unit with its padding.
    pub(super) fn padded_elements(&self, unit: f64) -> f64 {
        self.shard_elements(unit) * self.degree
    }

    pub(super) fn largest(&self) -> f64 {
        self.embed.max(self.block).max(self.head)
    }
}

fn parts(layout: &Layout) -> MemoryParts {
    let (model, units) = (&layout.model, Units::from_layout(layout));
    let (weights, adapters) = (units.weight_shards(), units.adapter_shards());
    let trained = if layout.lora.is_some() { adapters } else { weights };
    let rows = layout.work.sequence_length * layout.work.micro_batch_size;
    MemoryParts {
        parameters: WIDTH * (weights + adapters),
        gradients: WIDTH * trained,
        optimizer: 2.0 * WIDTH * trained,
        activations: WIDTH * activation_elements(layout, rows),
        gathered: WIDTH * gathered_elements(layout, &units) + prefetched_shard_bytes(layout, &units),
        logits: WIDTH * (rows * (2.0 * model.hidden + 2.0) + LOGIT_ROWS.min(rows) * model.head_vocab),
        // Parameters and both moments are copied, so that training continues while they are written.
        buffers: message_buffer_bytes(layout) + 3.0 * WIDTH * trained,
        reserve: 0.0,
    }
}

/// Returns the elements of a row of all query heads, and of all heads.
pub(super) fn attention_widths(model: &Model) -> (f64, f64) {
    let query = model.heads * model.head_dim;
    (query, query + 2.0 * model.kv_heads * model.head_dim)
}

/// Returns the elements that a block keeps, those that one block needs in its backward pass, and those of the
/// stream and its gradient.
fn activation_elements(layout: &Layout, rows: f64) -> f64 {
    let model = &layout.model;
    let (query, qkv) = attention_widths(model);
    let up = (model.ffn_matrices - 1.0) * model.ffn;
    let middle = if model.parallel_blocks { 0.0 } else { model.hidden };
    // Input, both norms' outputs and statistics, query, key and value, softmax's sums, attention's output,
    // the input of the second half, the feed-forward part before and after its non-linearity.
    let kept = rows * (3.0 * model.hidden + middle + 4.0 + qkv + model.heads + query + up + model.ffn);
    let all = match layout.recompute {
        crate::layout::Recompute::None => model.layers * kept,
        _ => model.layers * rows * model.hidden + kept,
    };
    let sequence = layout.work.sequence_length;
    let scratch = rows * (model.ffn + up + 2.0 * model.hidden + query + qkv)
        + 2.0 * SCORE_ROWS.min(sequence) * sequence;
    let rank = layout.worker.adapter_rank;
    let adapters = if layout.lora.is_some() { 2.0 * rows * rank + 2.0 * model.hidden } else { 0.0 };
    all + scratch + adapters + 2.0 * rows * model.hidden
}

/// Returns the elements of temporarily whole units, and of one whole gradient.
fn gathered_elements(layout: &Layout, units: &Units) -> f64 {
    let tied = layout.model.tied;
    let at_once = if layout.worker.reshard { 1.0 } else { units.layers };
    let block = at_once * units.padded_elements(units.block);
    // If a rank has everything, weights are used in place; adapters are added to a copy of a block.
    let in_place = units.degree <= 1.0 && layout.precision == crate::layout::Precision::Fp32;
    let whole = match (in_place, layout.lora) {
        (true, None) => 0.0,
        (true, Some(_)) => block,
        (false, _) => {
            let [embed, head] = [units.embed, units.head].map(|unit| units.padded_elements(unit));
            // The embedding's buffer is free for a unit of its size, unless it is also the head.
            let again = !tied && (embed == units.padded_elements(units.block) || embed == head);
            block + head + if again { 0.0 } else { embed } + at_once * units.padded_elements(units.adapter)
        }
    };
    let gradient = if layout.lora.is_some() {
        units.padded_elements(units.adapter)
    } else {
        units.padded_elements(units.largest()) + if tied { units.padded_elements(units.embed) } else { 0.0 }
    };
    whole + gradient
}

/// Returns the bytes of the shards that a rank provides before their use: one in flight, one that others
/// still read, and the prefetched ones.
fn prefetched_shard_bytes(layout: &Layout, units: &Units) -> f64 {
    if units.degree <= 1.0 {
        return 0.0;
    }
    let largest = units.shard_elements(units.largest().max(units.adapter));
    COUNTERS + (layout.worker.prefetch + 2.0) * WIDTH * largest
}

/// Returns the bytes of messages between ranks: of all, of a shard group, of the replicas of a shard.
fn message_buffer_bytes(layout: &Layout) -> f64 {
    let degrees = &layout.degrees;
    let groups = [degrees.ranks(), degrees.shard, degrees.replicas];
    let groups = groups.into_iter().filter(|members| *members > 1.0).count() as f64;
    groups * (COUNTERS + MESSAGES * WIDTH * MESSAGE) + BOARD
}
