//! Model states: weights, gradients and optimizer states that persist between steps.

use super::stages::Stage;
use crate::layout::{Code, Layout, Moments, Precision, Quantisation, Sharding, System};

/// Bytes of the states of one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StateBytes {
    /// Weights.
    pub parameters: f64,
    /// Gradients.
    pub gradients: f64,
    /// Master copies and moments.
    pub optimizer: f64,
    /// True if gradients exist before the first backward pass: allocated once, or kept from the previous
    /// pass.
    pub gradients_stay: bool,
}

/// Bytes per parameter, before sharding.
#[derive(Clone, Copy)]
struct Recipe {
    weights: f64,
    gradients: f64,
    /// 32-bit copies of weights and gradients that belong to the optimizer.
    copies: f64,
    moments: f64,
}

/// Bytes of two moments in 8 bit, per parameter, with their scales.
const INT8_MOMENTS: f64 = 2.0 + 2.0 * 4.0 / 2048.0;

/// Bytes of two moments in 32 bit.
const WIDE_MOMENTS: f64 = 8.0;

/// Returns the number of parameters whose moments stay in 32 bit while the others are in 8 bit: token
/// embeddings, if the script requests it.
pub fn wide_moments(layout: &Layout) -> f64 {
    match layout.moments {
        Moments::TwoInt8 { wide_embeddings: true } => layout.model.vocab * layout.model.hidden,
        _ => 0.0,
    }
}

/// Returns the bytes of moments per parameter, with moments of `width` bytes.
///
/// 8-bit Adam: two bytes and two 32-bit scales per block of 2048 (Dettmers et al. 2022, section 2). Adafactor
/// keeps row and column means: nothing per parameter, to three digits.
fn moment_bytes(moments: Moments, width: f64) -> f64 {
    match moments {
        Moments::Two => 2.0 * width,
        Moments::TwoInt8 { .. } => INT8_MOMENTS,
        Moments::One => width,
        Moments::Zero | Moments::Factored => 0.0,
    }
}

/// Returns the bytes per parameter by system and precision.
///
/// 32-bit: 4 + 4 + 8. Mixed precision with master weights: 2 + 2 + 12 (Rajbhandari et al. 2020, section 3.1).
/// Megatron adds 32-bit main gradients: 20 in fp16, 18 in bf16 (README of Megatron-LM, distributed
/// optimizer); DeepSpeed's bf16 optimizer keeps them too. FSDP keeps 32-bit shards and casts gathered
/// weights; autocast (DDP) keeps 32-bit weights. All in 16 bit: 2 + 2 + 4.
fn recipe(layout: &Layout) -> Recipe {
    let wide =
        Recipe { weights: 4.0, gradients: 4.0, copies: 0.0, moments: moment_bytes(layout.moments, 4.0) };
    let master = Recipe { weights: 2.0, gradients: 2.0, copies: 4.0, ..wide };
    let narrow =
        Recipe { weights: 2.0, gradients: 2.0, copies: 0.0, moments: moment_bytes(layout.moments, 2.0) };
    match (layout.precision, layout.system) {
        (Precision::Fp32, _) => wide,
        (Precision::Pure16 { .. }, _) => narrow,
        (Precision::Mixed { bf16 }, System::Megatron) => {
            let main_gradients = match layout.code {
                Code::MegatronDeepspeed => 0.0,
                // Products accumulate into the buffer of gradients.
                Code::MegatronCore => layout.gradient_bytes.unwrap_or(4.0) - 2.0,
                _ if bf16 => 2.0,
                _ => 4.0,
            };
            Recipe { gradients: 2.0 + main_gradients, ..master }
        }
        (Precision::Mixed { .. }, System::DeepSpeed | System::SmpV1) => master,
        // Transformer Engine also caches the weights in 8 bit; recipes of NeMo and Megatron-Bridge reduce
        // gradients in bf16 (`grad_reduce_in_fp32 = false`).
        (Precision::Fp8(_), System::Megatron) => Recipe {
            weights: 3.0,
            gradients: layout.gradient_bytes.unwrap_or(if layout.code == Code::MegatronCore {
                2.0
            } else {
                4.0
            }),
            ..master
        },
        (Precision::Mixed { .. } | Precision::Fp8(_), _) => wide,
    }
}

/// Returns the bytes per trained parameter that a full resumption needs: the weights, their 32-bit copy if
/// there is one, and the moments.
pub fn resumed_bytes_per_parameter(layout: &Layout) -> f64 {
    let Recipe { weights, copies, moments, .. } = recipe(layout);
    weights + copies + moments
}

/// Difference in bytes between the moments of a parameter in 32 bit and in 8 bit.
pub const WIDER_MOMENTS: f64 = WIDE_MOMENTS - INT8_MOMENTS;

/// Returns the bytes per parameter of frozen weights; `quantised` are those inside the layers' matrices.
///
/// NF4: half a byte and a 32-bit scale per 64 weights; with double quantisation an 8-bit scale per 64 and a
/// 32-bit one per 256 of those (Dettmers et al. 2023, section 3). int8: one byte and a 16-bit scale per row.
pub fn frozen_bytes_per_parameter(quantisation: Option<Quantisation>) -> f64 {
    match quantisation {
        None => 2.0,
        Some(Quantisation::Nf4 { double: false }) => 0.5 + 4.0 / 64.0,
        Some(Quantisation::Nf4 { double: true }) => 0.5 + 1.0 / 64.0 + 4.0 / (64.0 * 256.0),
        Some(Quantisation::Int8) => 1.0,
    }
}

/// Returns the bytes of a stage's frozen weights on one GPU, before sharding.
fn frozen_bytes(layout: &Layout, stage: &Stage) -> f64 {
    let model = &layout.model;
    // The worker keeps 32-bit weights regardless of its compute precision.
    let wide = layout.precision == Precision::Fp32 || layout.system == System::Worker;
    let Some(_) = layout.quantisation else {
        return stage.parameters() * if wide { 4.0 } else { 2.0 };
    };
    // Weights that are not quantised: PEFT's `prepare_model_for_kbit_training` casts them to 32 bit.
    let rest = if layout.code == Code::HuggingFace { 4.0 } else { 2.0 };
    let share = model.linear_parameters / (model.layer_parameters * model.layers).max(1.0);
    let quantised = stage.layer_parameters * share.min(1.0);
    quantised * frozen_bytes_per_parameter(layout.quantisation) + (stage.parameters() - quantised) * rest
}

/// Returns the states of an adapter with frozen weights.
fn adapter_states(layout: &Layout, stage: &Stage, trainable: f64) -> StateBytes {
    let degrees = &layout.degrees;
    let own = trainable / degrees.tensor / degrees.pipeline.max(1.0);
    // FSDP also shards the weights between steps under `SHARD_GRAD_OP`.
    let fsdp = matches!(layout.system, System::Fsdp | System::SmpV2 | System::Worker);
    let sharded = layout.sharding == Sharding::Full || fsdp && layout.sharding == Sharding::Gradients;
    let shard = if sharded { degrees.shard } else { 1.0 };
    let narrow = matches!(layout.precision, Precision::Pure16 { .. });
    let width = if narrow { 2.0 } else { 4.0 };
    let stays = |is_away: bool, bytes: f64| if is_away { 0.0 } else { bytes / shard };
    let offload = &layout.offload;
    StateBytes {
        parameters: stays(offload.parameters, frozen_bytes(layout, stage) + width * own),
        gradients: stays(offload.parameters, width * own),
        // Pages of a paged optimizer are moved to host memory when room is short (Dettmers et al. 2023,
        // section 3).
        optimizer: stays(offload.optimizer || offload.paged, moment_bytes(layout.moments, width) * own),
        gradients_stay: true,
    }
}

/// Returns the states of a stage on one GPU.
///
/// ZeRO: stage 1 divides the optimizer's states by the shard degree, stage 2 also the gradients, stage 3 also
/// the weights (Rajbhandari et al. 2020, section 5). MiCS and hybrid sharding: by the degree of the shard
/// group only.
pub(super) fn states(layout: &Layout, stage: &Stage) -> StateBytes {
    if let Some(lora) = layout.lora {
        return adapter_states(layout, stage, lora.trainable);
    }
    let recipe = recipe(layout);
    let count = stage.parameters();
    let degrees = &layout.degrees;
    let group = match layout.sharding {
        Sharding::None => 1.0,
        // Optimizer states alone are divided over all ranks with the same weights.
        Sharding::Optimizer => degrees.data_parallel_ranks(),
        Sharding::Gradients | Sharding::Full => degrees.shard,
    };
    let by = |stages: &[Sharding]| if stages.contains(&layout.sharding) { group } else { 1.0 };
    let for_weights = by(&[Sharding::Full]);
    let for_gradients = by(&[Sharding::Full, Sharding::Gradients]);
    let for_optimizer = by(&[Sharding::Full, Sharding::Gradients, Sharding::Optimizer]);
    // The expert degree is a part of the data-parallel axis: each of the E parts of the experts is sharded
    // over G/E ranks.
    let experts = stage.expert_parameters;
    let shard_of = |group: f64| (count - experts) / group + experts / (group / degrees.expert).max(1.0);
    let mut gradients = recipe.gradients * shard_of(for_gradients);
    // Token embeddings are on the first stage.
    let wide = if stage.index == 0.0 { wide_moments(layout) / degrees.tensor } else { 0.0 };
    let wide = wide.min(stage.outer_parameters) * (WIDE_MOMENTS - INT8_MOMENTS);
    let mut optimizer = (recipe.copies + recipe.moments) * shard_of(for_optimizer) + wide / for_optimizer;
    if layout.code == Code::MegatronDeepspeed && layout.system == System::Megatron {
        gradients += match layout.precision {
            // `BF16_Optimizer`: 32-bit gradients of all parameters at every stage.
            Precision::Mixed { bf16: true } | Precision::Fp8(_) => 4.0 * count,
            // ZeRO-1 in fp16: 32-bit gradients of the rank's part only.
            Precision::Mixed { bf16: false } => 4.0 * count / for_optimizer,
            Precision::Fp32 | Precision::Pure16 { .. } => 0.0,
        };
    }
    // FSDP also shards the weights between steps under `SHARD_GRAD_OP`.
    let fsdp = matches!(layout.system, System::Fsdp | System::SmpV2 | System::Worker);
    let mut weights = recipe.weights
        * shard_of(if fsdp && layout.sharding == Sharding::Gradients { group } else { for_weights });
    if layout.offload.parameters {
        weights = 0.0;
        gradients = 0.0;
    }
    if layout.offload.optimizer {
        optimizer = 0.0;
        if layout.system == System::DeepSpeed {
            gradients = 0.0;
        }
    }
    if layout.offload.paged {
        optimizer = 0.0;
    }
    // torch frees gradients between steps (`zero_grad(set_to_none=True)`); DeepSpeed and Megatron allocate
    // once.
    let freed = matches!(layout.system, System::Ddp | System::Fsdp | System::SmpV2 | System::DeviceMap);
    StateBytes {
        parameters: weights,
        gradients,
        optimizer,
        gradients_stay: !freed || layout.work.passes > 1.0,
    }
}
