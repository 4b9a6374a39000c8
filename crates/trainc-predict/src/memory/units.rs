//! Weights gathered for the moment, and the buffers of collectives.

use super::stages::{self, Stage};
use super::states::frozen_bytes_per_parameter;
use crate::layout::{Layout, Precision, Prefetch, Sharding, System};

/// Bytes of what is gathered and of buffers while a layer is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Units {
    /// Whole weights of sharded units, their gradients before the reduce-scatter, 16-bit copies of weights.
    pub(super) gathered: f64,
    /// Buckets and scratch.
    pub(super) buffers: f64,
}

/// Parameters that DeepSpeed lets live at once (`stage3_max_live_parameters`).
const LIVE_PARAMETERS: f64 = 1e9;

/// Elements of a reduce bucket of DeepSpeed (`reduce_bucket_size`).
const BUCKET: f64 = 5e8;

/// Bytes of one element as it is gathered and multiplied.
pub(super) fn compute_width(layout: &Layout) -> f64 {
    if layout.precision == Precision::Fp32 { 4.0 } else { 2.0 }
}

/// Gathered units and buffers of a stage.
pub(super) fn units(layout: &Layout, stage: &Stage) -> Units {
    let width = compute_width(layout);
    let sharded = layout.degrees.shard > 1.0;
    let count = stage.parameters();
    match layout.system {
        System::Fsdp | System::SmpV2 if sharded && layout.sharding == Sharding::Full => {
            fully_sharded(layout, stage, live_units(layout, stage))
        }
        System::Worker if sharded => fully_sharded(layout, stage, live_units(layout, stage)),
        System::Fsdp | System::SmpV2 if sharded && layout.sharding == Sharding::Gradients => {
            // Frozen weights stay gathered as they are stored, and have no gradient.
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
            let bucket = width * BUCKET.min(count);
            let gathered =
                if layout.sharding == Sharding::Full { width * LIVE_PARAMETERS.min(count) } else { 0.0 };
            Units { gathered, buffers: if layout.sharding == Sharding::None { 0.0 } else { bucket } }
        }
        System::SmpV1 if layout.sharding == Sharding::Full => {
            // The layer that is computed is gathered whatever the bound.
            let live = layout.gathering.live_parameters.max(stages::layer_parameters(layout));
            Units { gathered: width * live.min(count), buffers: width * layout.gathering.bucket.min(count) }
        }
        System::Megatron => Units { gathered: 0.0, buffers: megatron_buffers(layout, count) },
        System::Ddp => data_parallel(layout, count),
        _ => Units::default(),
    }
}

/// Units that are gathered at once, in the backward pass, together with one unit's gradient.
///
/// FSDP: this one and the next, which `BACKWARD_PRE` gathers ahead; without it this one alone (FullyShardedDataParallel
/// documentation, `backward_prefetch`: "the next set of parameters" is held beside "the current set of parameters"
/// under `BACKWARD_PRE` only). Without `limit_all_gathers` nothing bounds how far the host runs ahead but the
/// allocator, which waits for freed blocks when the card is full: one more unit is counted. The worker's pool has one
/// slot and `prefetch` more, and one for each block where blocks are not freed.
fn live_units(layout: &Layout, stage: &Stage) -> f64 {
    let live = match layout.system {
        System::Worker if !layout.worker.reshard => stage.layers,
        System::Worker => 1.0 + layout.worker.prefetch,
        _ => {
            let ahead = if layout.gathering.prefetch == Prefetch::Before { 2.0 } else { 1.0 };
            ahead + if layout.gathering.limited { 0.0 } else { 1.0 }
        }
    };
    live.min(stage.layers.max(1.0))
}

/// FSDP: `live` units and the root unit are gathered, and one unit's whole gradient waits for its reduce-scatter.
///
/// Two units by default: `limit_all_gathers`, or FSDP2's two all-gather outputs (PyTorch #104900, #128884). The root unit
/// (embeddings and head) stays gathered through forward and backward (FullyShardedDataParallel documentation).
fn fully_sharded(layout: &Layout, stage: &Stage, live: f64) -> Units {
    let width = compute_width(layout);
    if layout.one_unit {
        // The root unit is everything: whole weights, and their whole gradient before it is scattered.
        let gradients = if layout.lora.is_some() { 0.0 } else { stage.parameters() };
        return Units { gathered: width * (stage.parameters() + gradients), buffers: 0.0 };
    }
    let unit = stages::layer_parameters(layout);
    let root = stage.outer_parameters;
    if layout.lora.is_some() && layout.quantisation.is_some() {
        return quantised(layout, stage, live);
    }
    if layout.lora.is_some() {
        // Frozen weights have no gradient. Where they are flattened together with the adapter's each gathered unit stays
        // until the backward pass is over (litgpt's runs; before PyTorch 2.1 every script's).
        let whole = if layout.frees_frozen { live * unit + root } else { stage.parameters() };
        return Units { gathered: width * (whole + unit), buffers: 0.0 };
    }
    if layout.degrees.pipeline > 1.0 {
        // Beside a pipeline a stage stays gathered from its first micro-batch to its last, and so does its gradient,
        // in 32 bit (torchtitan: `reshard_after_forward` "never" for pipelines, gradients reduced after the last one).
        return Units { gathered: (width + 4.0) * stage.parameters(), buffers: 0.0 };
    }
    let gradients = unit + root;
    Units { gathered: width * (live * unit + root + gradients), buffers: 0.0 }
}

/// Quantised matrices under FSDP travel as they are stored, in units of their own that nothing trains, so that each is
/// freed after use, and one matrix at a time is expanded to be multiplied (QLoRA, section 3; `peft` and `transformers`
/// documentation of FSDP with QLoRA: `bnb_4bit_quant_storage`, adapters wrapped apart). Embedding and head are not
/// quantised and stay gathered as the root.
fn quantised(layout: &Layout, stage: &Stage, live: f64) -> Units {
    let width = compute_width(layout);
    let unit = stages::layer_parameters(layout);
    let stored = frozen_bytes_per_parameter(layout.quantisation);
    let matrix = layout.model.hidden * layout.model.ffn;
    Units { gathered: live * unit * stored + width * (stage.outer_parameters + matrix), buffers: 0.0 }
}

/// Buckets of Megatron's engines.
///
/// Megatron-LM reduces in its own gradient buffer. DeepSpeed flattens gradients into buckets of 5e8 elements, two
/// where communication overlaps in ZeRO, 32-bit in its bf16 optimizer, and gathers updated weights in such buckets.
fn megatron_buffers(layout: &Layout, count: f64) -> f64 {
    use crate::layout::Code;
    let bucket = BUCKET.min(count);
    match (layout.code, layout.precision) {
        (Code::MegatronDeepSpeed, Precision::Mixed { bf16: true }) => (4.0 + 2.0) * bucket,
        (Code::MegatronDeepSpeed, _) => 2.0 * 2.0 * bucket,
        _ => 0.0,
    }
}

/// DDP: autocast keeps a 16-bit copy of each weight that a matrix product uses, from the forward pass to its end;
/// buckets hold a copy of all gradients (`DistributedDataParallel` documentation, `gradient_as_bucket_view`).
fn data_parallel(layout: &Layout, count: f64) -> Units {
    if layout.lora.is_some() {
        return Units::default();
    }
    let copies = if matches!(layout.precision, Precision::Mixed { .. }) { 2.0 * count } else { 0.0 };
    let gradient = if matches!(layout.precision, Precision::Pure16 { .. }) { 2.0 } else { 4.0 };
    let buffers = if layout.degrees.ranks() > 1.0 { gradient * count } else { 0.0 };
    Units { gathered: copies, buffers }
}
