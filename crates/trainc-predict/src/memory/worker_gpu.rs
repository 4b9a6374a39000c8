//! A rank of engine `worker` on a GPU: its shards in 32 bit, gathered units and activations in bf16, products
//! and matrices of PyTorch's libraries, no autograd and no Python.
//!
//! `MemoryParts::on_gpu` in `crates/trainc-worker/src/fsdp/memory_parts.rs` is the worker's own account,
//! which its tests compare with the tensors of a pass; `tests/run_memory.rs` compares the two. One run on one
//! GPU was measured: the interval is that of the measured runs of other engines.

use super::worker::{Units, attention_widths};
use super::{GIB, MemoryParts};
use crate::layout::{Layout, Recompute};

/// Bytes of master weights, gradients, residuals and temporaries of the backward pass.
const WIDE: f64 = 4.0;
/// Bytes of gathered weights, saved activations and logits.
const HALF: f64 = 2.0;
/// Bytes of the CUDA context, of the workspaces of cuBLAS and cuDNN, and of NCCL's buffers: an estimate. On
/// one H200 without NCCL they were 1.8 GB (`gpu-report.json` of the worker). Processes of PyTorch have 0.7 GB
/// for the context and 1.1 GB for NCCL (`memory.context_bytes` and `memory.nccl_bytes` of `constants.toml`),
/// and a workspace of cuBLAS has 32 MiB on Hopper (PyTorch, CUDA semantics).
const CONTEXT: f64 = 2.0 * GIB;
/// Logits whose loss is computed at once, and fewest rows of such a chunk.
const CHUNK_LOGITS: f64 = 67_108_864.0;
const FEWEST_CHUNK_ROWS: f64 = 128.0;
/// Bytes for each logit of a chunk: logits, their softmax and two gradients in 32 bit.
const CHUNK_BYTES: f64 = 16.0;
/// Whole gradients that exist at once: one is computed while another is reduced. As many shards of reduced
/// gradients.
const GRADIENTS: f64 = 2.0;

/// Returns the parts of a rank's memory, bytes, without the share of the card that the driver reserves.
pub(super) fn parts(layout: &Layout) -> MemoryParts {
    let units = Units::from_layout(layout);
    let (weights, adapters) = (units.weight_shards(), units.adapter_shards());
    let trained = if layout.lora.is_some() { adapters } else { weights };
    let rows = layout.work.sequence_length * layout.work.micro_batch_size;
    MemoryParts {
        parameters: WIDE * (weights + adapters),
        gradients: WIDE * trained,
        optimizer: 2.0 * WIDE * trained,
        activations: activation_bytes(layout, rows),
        gathered: gathered_bytes(layout, &units),
        logits: logit_bytes(layout, rows),
        buffers: CONTEXT,
        reserve: 0.0,
    }
}

/// Returns the bytes while a checkpoint is saved: the states alone, and with the buffers that stay allocated.
/// Shards are copied to the host as they are, so that nothing is gathered for it.
pub(super) fn peak_checkpoint(parts: &MemoryParts) -> (f64, f64) {
    let states = parts.parameters + parts.gradients + parts.optimizer + parts.buffers;
    (states, states + parts.gathered)
}

/// Bytes of a block for each row.
struct BlockBytes {
    /// What the backward pass keeps of the block besides its input.
    saved: f64,
    /// The most that is alive beside that in the backward pass.
    passing: f64,
}

impl BlockBytes {
    fn from_layout(layout: &Layout) -> Self {
        let model = &layout.model;
        let (attention, qkv) = attention_widths(model);
        let (hidden, inner) = (model.hidden, model.ffn);
        let up = (model.ffn_matrices - 1.0) * inner;
        let middle = if model.parallel_blocks { 0.0 } else { hidden };
        // Both norms' outputs; query, key and value; attention's output; the feed-forward part before and
        // after its non-linearity. In 32 bit: softmax's sums, the input of the second half, and statistics of
        // the norms.
        let saved =
            HALF * (2.0 * hidden + qkv + attention + up + inner) + WIDE * (model.heads + middle + 4.0);
        let stream = WIDE * hidden;
        let feed_forward = stream + HALF * (hidden + up + 2.0 * inner);
        let attending = 2.0 * stream + HALF * (attention + 2.0 * qkv);
        // Positions are turned as complex numbers in 32 bit.
        let turning = 2.0 * stream + (HALF + 2.0 * WIDE) * qkv;
        let projecting = 5.0 * stream + HALF * (qkv + hidden);
        Self { saved, passing: feed_forward.max(attending).max(turning).max(projecting) }
    }
}

fn activation_bytes(layout: &Layout, rows: f64) -> f64 {
    let bytes = BlockBytes::from_layout(layout);
    let layers = layout.model.layers;
    // The input of each block, and the activations of the blocks that are not recomputed.
    let blocks = if layout.recompute == Recompute::None { layers } else { 1.0 };
    rows * (layers * WIDE * layout.model.hidden + blocks * bytes.saved + bytes.passing)
}

/// Returns the bytes of the units that are whole in bf16, of the whole gradients before their reduction, and
/// of their reduced shards.
fn gathered_bytes(layout: &Layout, units: &Units) -> f64 {
    let ahead = if layout.worker.reshard { 1.0 + layout.worker.prefetch } else { units.layers };
    let blocks = ahead.min(units.layers.max(1.0));
    let block = units.padded_elements(units.block) + units.padded_elements(units.adapter);
    let whole = units.padded_elements(units.embed) + units.padded_elements(units.head) + blocks * block;
    // A tied embedding has a buffer of its own, since its gradient is summed from the head to the embedding.
    let (in_turn, embedding) = match (layout.lora.is_some(), layout.model.tied) {
        (true, _) => (units.adapter, 0.0),
        (false, true) => (units.block.max(units.head), units.embed),
        (false, false) => (units.largest(), 0.0),
    };
    let held = |unit: f64| units.padded_elements(unit) + units.shard_elements(unit);
    HALF * whole + WIDE * (GRADIENTS * held(in_turn) + if embedding > 0.0 { held(embedding) } else { 0.0 })
}

/// Returns the bytes by which the head or the gradient of the token table exceeds the temporaries of a block,
/// which it follows or precedes.
fn logit_bytes(layout: &Layout, rows: f64) -> f64 {
    let (model, vocab) = (&layout.model, layout.model.head_vocab);
    let chunk = rows.min((CHUNK_LOGITS / vocab.max(1.0)).floor().max(FEWEST_CHUNK_ROWS));
    let head = HALF * rows * vocab + CHUNK_BYTES * chunk * vocab + rows * (HALF + WIDE) * model.hidden;
    let tables = match (layout.lora.is_some(), model.tied) {
        (true, _) => 0.0,
        (false, true) => 2.0,
        (false, false) => 1.0,
    };
    let table = tables * WIDE * vocab * model.hidden;
    (head.max(table) - rows * BlockBytes::from_layout(layout).passing).max(0.0)
}
