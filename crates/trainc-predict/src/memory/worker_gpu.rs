//! A rank of engine `worker` on a GPU: its shards in 32 bit, gathered units and activations in bf16, products and matrices
//! of PyTorch's libraries, no autograd and no Python.
//!
//! The bytes follow from the engine's own buffers, which are allocated once. No run of this engine was measured:
//! [`CONTEXT`] is an estimate, and the interval is that of the measured runs of other engines.

use super::worker::Units;
use super::{GIB, MemoryParts};
use crate::layout::{Layout, Recompute};

/// Bytes of master weights, gradients, residuals and temporaries of the backward pass.
const WIDE: f64 = 4.0;
/// Bytes of gathered weights, saved activations and logits.
const HALF: f64 = 2.0;
/// Bytes of the CUDA context, of the workspaces of cuBLAS and cuDNN, and of NCCL's buffers: an estimate, without a
/// measured run. Processes of PyTorch have 0.7 GB for the context and 1.1 GB for NCCL (`memory.context_bytes` and
/// `memory.nccl_bytes` of `constants.toml`), and a workspace of cuBLAS has 32 MiB on Hopper (PyTorch, CUDA semantics).
const CONTEXT: f64 = 2.0 * GIB;
/// Logits whose loss is computed at once, and fewest rows of such a chunk.
const CHUNK_LOGITS: f64 = 67_108_864.0;
const FEWEST_CHUNK_ROWS: f64 = 128.0;
/// Bytes for each logit of a chunk: logits, their softmax and their gradient in 32 bit.
const CHUNK_BYTES: f64 = 12.0;
/// Whole gradients that exist at once: one is computed while another is reduced. As many shards of reduced gradients.
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

/// Returns the bytes while a checkpoint is saved: the states alone, and with the buffers that stay allocated. Shards are
/// copied to the host as they are, so that nothing is gathered for it.
pub(super) fn peak_checkpoint(parts: &MemoryParts) -> (f64, f64) {
    let states = parts.parameters + parts.gradients + parts.optimizer + parts.buffers;
    (states, states + parts.gathered)
}

/// Widths of the tensors of a block, in elements for each row.
struct BlockWidths {
    hidden: f64,
    /// All query heads; keys and values are expanded to as many.
    attention: f64,
    /// The output of the first feed-forward product: gate and up, or up alone.
    up: f64,
    inner: f64,
    gated: bool,
}

impl BlockWidths {
    fn from_layout(layout: &Layout) -> Self {
        let model = &layout.model;
        Self {
            hidden: model.hidden,
            attention: model.heads * model.head_dim,
            up: (model.ffn_matrices - 1.0) * model.ffn,
            inner: model.ffn,
            gated: model.ffn_matrices > 2.5,
        }
    }

    /// Returns the bytes that a block saves for each row: both norms' outputs, query, key and value, attention's output
    /// as its kernel and as the next product lay it out, the feed-forward part before and after its activation, the gated
    /// product, and the stream.
    fn saved(&self) -> f64 {
        let gated = if self.gated { self.inner } else { 0.0 };
        HALF * (2.0 * self.hidden + 5.0 * self.attention + self.up + self.inner + gated) + WIDE * self.hidden
    }

    /// Returns the bytes of the temporaries of a block's backward pass for each row.
    fn temporaries(&self) -> f64 {
        WIDE * (self.up + 2.0 * self.inner + 4.0 * self.hidden + 3.0 * self.attention)
    }
}

fn activation_bytes(layout: &Layout, rows: f64) -> f64 {
    let widths = BlockWidths::from_layout(layout);
    let layers = layout.model.layers;
    let kept = match layout.recompute {
        Recompute::None => layers * widths.saved(),
        // The input of each block, and what the block that is recomputed saves.
        _ => layers * WIDE * widths.hidden + widths.saved(),
    };
    rows * (kept + widths.temporaries())
}

/// Returns the bytes of the units that are whole in bf16, of the whole gradients before their reduction, and of their
/// reduced shards.
fn gathered_bytes(layout: &Layout, units: &Units) -> f64 {
    let ahead = if layout.worker.reshard { 1.0 + layout.worker.prefetch } else { units.layers };
    let blocks = ahead.min(units.layers.max(1.0));
    let block = units.padded_elements(units.block) + units.padded_elements(units.adapter);
    let whole = units.padded_elements(units.embed) + units.padded_elements(units.head) + blocks * block;
    let trained = if layout.lora.is_some() { units.adapter } else { units.largest() };
    let largest = units.largest().max(units.adapter);
    HALF * whole + WIDE * GRADIENTS * (units.padded_elements(trained) + units.shard_elements(largest))
}

/// Returns the bytes of all logits, and of the loss of one chunk of them.
fn logit_bytes(layout: &Layout, rows: f64) -> f64 {
    let vocab = layout.model.head_vocab;
    let chunk = rows.min((CHUNK_LOGITS / vocab.max(1.0)).floor().max(FEWEST_CHUNK_ROWS));
    HALF * rows * vocab + CHUNK_BYTES * chunk * vocab
}
