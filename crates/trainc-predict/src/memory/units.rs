//! Temporarily gathered weights, and the buffers of collectives.

use super::stages::{self, Stage};
use super::states::frozen_bytes_per_parameter;
use crate::layout::{Layout, Precision, Prefetch, Sharding, System};

/// Bytes of gathered tensors and of buffers while a layer is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Units {
    /// Whole weights of sharded units, their gradients before the reduce-scatter, 16-bit copies of weights.
    pub(super) gathered: f64,
    /// Buckets and scratch.
    pub(super) buffers: f64,
}

/// Elements of a reduce bucket of Megatron-DeepSpeed (`reduce_bucket_size`).
const BUCKET: f64 = 5e8;

/// Returns the bytes of one element when gathered and multiplied.
pub(super) fn compute_width(layout: &Layout) -> f64 {
    if layout.precision == Precision::Fp32 { 4.0 } else { 2.0 }
}

/// Returns the gathered units and buffers of a stage.
pub(super) fn units(layout: &Layout, stage: &Stage) -> Units {
    let width = compute_width(layout);
    let sharded = layout.degrees.shard > 1.0;
    let count = stage.parameters();
    match layout.system {
        System::Fsdp | System::SmpV2 if sharded && layout.sharding == Sharding::Full => {
            fully_sharded(layout, stage, live_units(layout, stage))
        }
        System::Fsdp | System::SmpV2 if sharded && layout.sharding == Sharding::Gradients => {
            // Frozen weights are gathered as they are stored, and have no gradient.
            if layout.lora.is_some() {
                return match layout.quantisation {
                    Some(_) => quantised(layout, stage, stage.layers),
                    None => Units { gathered: width * count, buffers: 0.0 },
                };
            }
            let unit = if layout.one_unit { count } else { stages::layer_parameters(layout) };
            Units { gathered: width * (count + unit), buffers: 0.0 }
        }
        System::DeepSpeed => {
            let gathered = if layout.sharding == Sharding::Full { live_bytes(layout, stage) } else { 0.0 };
            Units { gathered, buffers: zero_bucket_bytes(layout) }
        }
        System::SmpV1 if layout.sharding == Sharding::Full => {
            // The current layer is gathered regardless of the bound.
            let live = layout.gathering.live_parameters.max(stages::layer_parameters(layout));
            Units { gathered: width * live.min(count), buffers: width * layout.gathering.bucket.min(count) }
        }
        System::Megatron => Units { gathered: 0.0, buffers: megatron_buffers(layout, count) },
        System::Ddp => data_parallel(layout, count),
        _ => Units::default(),
    }
}

/// Returns the bytes of the parameters that ZeRO-3 has gathered when the loss is computed, and of the largest
/// gradient before its reduction.
///
/// A module is freed after its use unless it is used again within `stage3_max_reuse_distance` elements: after
/// the forward pass the last half of that distance is whole, each parameter of which is passed once forward
/// and once backward; always the largest module, and inside the layers the current matrix with what is
/// prefetched (DeepSpeed 0.19.8, runtime/zero/partitioned_param_coordinator.py, `__params_to_release`,
/// `fetch_sub_module`). DeepSpeed's own estimators count four bytes for each parameter of the largest module,
/// which is this with 16-bit weights.
fn live_bytes(layout: &Layout, stage: &Stage) -> f64 {
    let width = compute_width(layout);
    let limits = &layout.gathering;
    let (largest, matrix) = (stages::largest_module(layout), stages::largest_matrix(layout));
    let ahead = (0.5 * limits.reuse_distance).max(matrix + limits.prefetched_parameters);
    let live = ahead.min(limits.live_parameters).max(largest).min(stage.parameters());
    let frozen = layout.lora.is_some();
    match layout.quantisation.filter(|_| frozen) {
        // Matrices are gathered as they are stored, and dequantised one at a time.
        Some(stored) => {
            let outer = largest.min(stage.outer_parameters);
            let of_layers = (live - outer).max(0.0) * frozen_bytes_per_parameter(Some(stored));
            width * (outer + matrix) + of_layers
        }
        None => width * (live + if frozen { 0.0 } else { largest }),
    }
}

/// Returns the bytes of ZeRO's buckets of gradients, which are allocated whole: one, or two below stage 3 if
/// reductions overlap with the backward pass (DeepSpeed 0.19.8, runtime/zero/stage3.py, `ipg_buckets`;
/// stage_1_and_2.py, `buf_0` and `buf_1`). Updated weights are gathered in place, whatever
/// `allgather_bucket_size`.
fn zero_bucket_bytes(layout: &Layout) -> f64 {
    let buckets = match layout.sharding {
        Sharding::None => 0.0,
        Sharding::Optimizer | Sharding::Gradients if layout.gathering.overlapped => 2.0,
        Sharding::Optimizer | Sharding::Gradients | Sharding::Full => 1.0,
    };
    buckets * compute_width(layout) * layout.gathering.bucket
}

/// Returns the number of units that are gathered at once in the backward pass, together with one unit's
/// gradient.
///
/// FSDP: this one and the next, which `BACKWARD_PRE` gathers in advance; without it this one alone
/// (FullyShardedDataParallel documentation, `backward_prefetch`: "the next set of parameters" is held in
/// addition to "the current set of parameters" under `BACKWARD_PRE` only). Without `limit_all_gathers` only
/// the allocator, which waits for freed blocks when the card is full, limits how far the host runs ahead: one
/// more unit is counted.
fn live_units(layout: &Layout, stage: &Stage) -> f64 {
    let ahead: f64 = if layout.gathering.prefetch == Prefetch::Before { 2.0 } else { 1.0 };
    let live = ahead + if layout.gathering.limited { 0.0 } else { 1.0 };
    live.min(stage.layers.max(1.0))
}

/// FSDP: `live` units and the root unit are gathered, and one unit's whole gradient is held until its
/// reduce-scatter.
///
/// Two units by default: `limit_all_gathers`, or FSDP2's two all-gather outputs (PyTorch #104900, #128884).
/// The root unit (embeddings and head) stays gathered through forward and backward (FullyShardedDataParallel
/// documentation).
fn fully_sharded(layout: &Layout, stage: &Stage, live: f64) -> Units {
    let width = compute_width(layout);
    if layout.one_unit {
        // The root unit is the whole model: whole weights, and their whole gradient before the scatter.
        let gradients = if layout.lora.is_some() { 0.0 } else { stage.parameters() };
        return Units { gathered: width * (stage.parameters() + gradients), buffers: 0.0 };
    }
    let unit = stages::layer_parameters(layout);
    let root = stage.outer_parameters;
    if layout.lora.is_some() && layout.quantisation.is_some() {
        return quantised(layout, stage, live);
    }
    if layout.lora.is_some() {
        // Frozen weights have no gradient. If they are flattened together with the adapter's, each gathered
        // unit stays until the backward pass is over (litgpt's runs; before PyTorch 2.1 every script's).
        let whole = if layout.frees_frozen { live * unit + root } else { stage.parameters() };
        return Units { gathered: width * (whole + unit), buffers: 0.0 };
    }
    if layout.degrees.pipeline > 1.0 {
        // With a pipeline a stage stays gathered from its first micro-batch to its last, and so does its
        // gradient, in 32 bit (torchtitan: `reshard_after_forward` "never" for pipelines, gradients reduced
        // after the last one).
        return Units { gathered: (width + 4.0) * stage.parameters(), buffers: 0.0 };
    }
    let gradients = unit + root;
    Units { gathered: width * (live * unit + root + gradients), buffers: 0.0 }
}

/// Quantised matrices under FSDP are communicated as they are stored, in separate frozen units, so that each
/// is freed after use, and one matrix at a time is dequantised for its product (QLoRA, section 3; `peft` and
/// `transformers` documentation of FSDP with QLoRA: `bnb_4bit_quant_storage`, adapters wrapped separately).
/// Embedding and head are not quantised and stay gathered as the root.
fn quantised(layout: &Layout, stage: &Stage, live: f64) -> Units {
    let width = compute_width(layout);
    let unit = stages::layer_parameters(layout);
    let stored = frozen_bytes_per_parameter(layout.quantisation);
    let matrix = layout.model.hidden * layout.model.ffn;
    Units { gathered: live * unit * stored + width * (stage.outer_parameters + matrix), buffers: 0.0 }
}

/// Returns the bytes of the buckets of Megatron's engines.
///
/// Megatron-LM reduces in its own gradient buffer. DeepSpeed flattens gradients into buckets of 5e8 elements,
/// two if communication overlaps in ZeRO, 32-bit in its bf16 optimizer, and gathers updated weights in such
/// buckets.
fn megatron_buffers(layout: &Layout, count: f64) -> f64 {
    use crate::layout::Code;
    let bucket = BUCKET.min(count);
    match (layout.code, layout.precision) {
        (Code::MegatronDeepspeed, Precision::Mixed { bf16: true }) => (4.0 + 2.0) * bucket,
        (Code::MegatronDeepspeed, _) => 2.0 * 2.0 * bucket,
        _ => 0.0,
    }
}

/// DDP: autocast keeps a 16-bit copy of each weight that a matrix product uses until the end of the forward
/// pass; buckets hold a copy of all gradients (`DistributedDataParallel` documentation,
/// `gradient_as_bucket_view`).
fn data_parallel(layout: &Layout, count: f64) -> Units {
    if layout.lora.is_some() {
        return Units::default();
    }
    let copies = if matches!(layout.precision, Precision::Mixed { .. }) { 2.0 * count } else { 0.0 };
    let gradient = if matches!(layout.precision, Precision::Pure16 { .. }) { 2.0 } else { 4.0 };
    let buffers = if layout.degrees.ranks() > 1.0 { gradient * count } else { 0.0 };
    Units { gathered: copies, buffers }
}
