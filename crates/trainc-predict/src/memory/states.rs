//! Model states: weights, gradients and optimizer states that persist between steps.

use super::stages::Stage;
use crate::layout::{Code, Layout, Model, Moments, Precision, Quantisation, Sharding, System};

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
    /// Gradients that the optimizer's step makes of its own part, in the type of its copies.
    step_gradients: f64,
    /// Copies of weights that belong to the optimizer.
    copies: f64,
    moments: f64,
}

/// Numbers of ranks over which each kind of state is divided.
#[derive(Clone, Copy)]
struct Groups {
    weights: f64,
    gradients: f64,
    optimizer: f64,
}

impl Groups {
    /// ZeRO: stage 1 divides the optimizer's states by the shard degree, stage 2 also the gradients, stage 3
    /// also the weights (Rajbhandari et al. 2020, section 5). MiCS and hybrid sharding: by the degree of the
    /// shard group only.
    fn from_layout(layout: &Layout) -> Self {
        let degrees = &layout.degrees;
        let group = match layout.sharding {
            Sharding::None => 1.0,
            // Optimizer states alone are divided over all ranks with the same weights.
            Sharding::Optimizer => degrees.data_parallel_ranks(),
            Sharding::Gradients | Sharding::Full => degrees.shard,
        };
        let since = |stage: Sharding| if layout.sharding >= stage { group } else { 1.0 };
        // FSDP also shards the weights between steps under `SHARD_GRAD_OP`.
        let fsdp = matches!(layout.system, System::Fsdp | System::SmpV2 | System::Worker);
        Self {
            weights: since(if fsdp { Sharding::Gradients } else { Sharding::Full }),
            gradients: since(Sharding::Gradients),
            optimizer: since(Sharding::Optimizer),
        }
    }
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
/// weights, and accelerate and torchtitan make 32-bit parameters of a 16-bit checkpoint (accelerate 1.15.0,
/// utils/fsdp_utils.py:816; torchtitan 0.2.2, `training.dtype`); autocast (DDP) keeps 32-bit weights. All in
/// 16 bit: 2 + 2 + 4.
fn recipe(layout: &Layout) -> Recipe {
    if layout.system == System::DeepSpeed {
        return zero_recipe(layout);
    }
    let gradients = |of_engine: f64| layout.gradient_bytes.unwrap_or(of_engine);
    let wide = Recipe {
        weights: 4.0,
        gradients: gradients(4.0),
        step_gradients: 0.0,
        copies: 0.0,
        moments: moment_bytes(layout.moments, 4.0),
    };
    let master = Recipe { weights: 2.0, gradients: gradients(2.0), copies: 4.0, ..wide };
    let narrow = Recipe {
        weights: 2.0,
        gradients: gradients(2.0),
        moments: moment_bytes(layout.moments, 2.0),
        ..wide
    };
    match (layout.precision, layout.system) {
        (Precision::Fp32, _) => wide,
        (Precision::Pure16 { .. }, _) => narrow,
        (Precision::Mixed { bf16 }, System::Megatron) => {
            let main_gradients = match layout.code {
                Code::MegatronDeepspeed => 0.0,
                // Products accumulate into the buffer of gradients.
                Code::MegatronCore => gradients(4.0) - 2.0,
                _ if bf16 => 2.0,
                _ => 4.0,
            };
            Recipe { gradients: 2.0 + main_gradients, ..master }
        }
        (Precision::Mixed { .. }, System::SmpV1) => master,
        // Transformer Engine also caches the weights in 8 bit; recipes of NeMo and Megatron-Bridge reduce
        // gradients in bf16 (`grad_reduce_in_fp32 = false`).
        (Precision::Fp8(_), System::Megatron) => Recipe {
            weights: if layout.narrow_weights { narrow_bytes(&layout.model) } else { 3.0 },
            gradients: gradients(if layout.code == Code::MegatronCore { 2.0 } else { 4.0 }),
            ..master
        },
        (Precision::Mixed { .. } | Precision::Fp8(_), _) => wide,
    }
}

/// Returns the bytes per parameter of DeepSpeed's optimizers, before ZeRO divides them.
///
/// In 16 bit the stages up to 2 keep gradients in the model's type, and the step makes a 32-bit copy of its
/// own part: 2 + 2 + 4 + 4 + 8, which is `2 P + 18 P / N` at stage 2. At stage 3 DeepSpeed counts gradients
/// once, in 32 bit: `18 P / N` (0.19.8, runtime/zero/stage_1_and_2.py,
/// `estimate_zero2_model_states_mem_needs`, and stage3.py, `estimate_zero3_model_states_mem_needs`; its step
/// copies `sub_group_size` elements at a time). Without a precision block the model is in 32 bit: stages 1
/// and 2 clone the weights as a master copy all the same, stage 3 updates them in place (stage_1_and_2.py,
/// `weights_partition`; stage3.py, `_create_fp32_partitions`). `bf16_master_weights_and_grads` with
/// `bf16_optimizer_states` is the same with 2 bytes in place of 4.
fn zero_recipe(layout: &Layout) -> Recipe {
    let model = if layout.precision == Precision::Fp32 { 4.0 } else { 2.0 };
    let master = if matches!(layout.precision, Precision::Pure16 { .. }) { 2.0 } else { 4.0 };
    let stored = layout.gradient_bytes.unwrap_or(model);
    let copy_of = |width: f64| if master > width { master } else { 0.0 };
    let cloned = matches!(layout.sharding, Sharding::Optimizer | Sharding::Gradients);
    let at_stage_3 = layout.sharding == Sharding::Full;
    Recipe {
        weights: model,
        gradients: if at_stage_3 { master.max(stored) } else { stored },
        step_gradients: if at_stage_3 { 0.0 } else { copy_of(stored) },
        copies: if cloned { master } else { copy_of(model) },
        moments: moment_bytes(layout.moments, master),
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

/// Returns the bytes per parameter of weights of which linear layers are kept in 8 bit alone.
fn narrow_bytes(model: &Model) -> f64 {
    2.0 - (model.linear_parameters / model.parameters.max(1.0)).min(1.0)
}

/// Returns the bytes of a stage's frozen weights on one GPU, before sharding.
fn frozen_bytes(layout: &Layout, stage: &Stage) -> f64 {
    let model = &layout.model;
    // The worker keeps 32-bit weights regardless of its compute precision.
    let wide = layout.precision == Precision::Fp32 || layout.system == System::Worker;
    let Some(_) = layout.quantisation else {
        let bytes = if layout.narrow_weights { narrow_bytes(model) } else { 2.0 };
        return stage.parameters() * if wide { 4.0 } else { bytes };
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
    let frozen = frozen_bytes(layout, stage);
    let groups = Groups::from_layout(layout);
    if layout.system == System::DeepSpeed {
        let recipe = recipe(layout);
        let states = Divided {
            weights: (frozen + recipe.weights * own) * (1.0 / groups.weights + second_copy(layout)),
            gradients: recipe.gradients * own / groups.gradients,
            step_gradients: recipe.step_gradients * own / groups.optimizer,
            optimizer: (recipe.copies + recipe.moments) * own / groups.optimizer,
        };
        return states.on_gpu(layout);
    }
    let shard = groups.weights;
    let narrow = matches!(layout.precision, Precision::Pure16 { .. });
    let width = if narrow { 2.0 } else { 4.0 };
    let states = Divided {
        weights: (frozen + width * own) / shard,
        gradients: width * own / shard,
        step_gradients: 0.0,
        optimizer: moment_bytes(layout.moments, width) * own / shard,
    };
    StateBytes { gradients_stay: true, ..states.on_gpu(layout) }
}

/// Returns the part of the weights that a rank of ZeRO-3 holds again for gathers inside its node (ZeRO++'s
/// hierarchical partitioning, Wang et al. 2023, section 3.2).
fn second_copy(layout: &Layout) -> f64 {
    let ranks = layout.gathering.secondary_shard;
    let has_copy = layout.system == System::DeepSpeed && layout.sharding == Sharding::Full && ranks > 1.0;
    if has_copy { 1.0 / ranks } else { 0.0 }
}

/// States of a rank, bytes, wherever they are.
struct Divided {
    weights: f64,
    gradients: f64,
    step_gradients: f64,
    optimizer: f64,
}

impl Divided {
    /// Returns what is left on the GPU.
    ///
    /// FSDP moves gradients with the parameters (`CPUOffload`). DeepSpeed moves parameters at stage 3 alone,
    /// and the gradients that a rank keeps from stage 2 on with the optimizer, whose step then runs on the
    /// host (0.19.8: stage3.py, `grad_partitions_flat_buffer`; stage_1_and_2.py, `copy_grads_in_partition`).
    fn on_gpu(self, layout: &Layout) -> StateBytes {
        let offload = &layout.offload;
        let zero = layout.system == System::DeepSpeed;
        let parameters = offload.parameters && (!zero || layout.sharding == Sharding::Full);
        let gradients = if zero {
            offload.optimizer && layout.sharding >= Sharding::Gradients
        } else {
            offload.parameters
        };
        let unless = |is_away: bool, bytes: f64| if is_away { 0.0 } else { bytes };
        // torch frees gradients between steps (`zero_grad(set_to_none=True)`); DeepSpeed and Megatron
        // allocate once.
        let freed = matches!(layout.system, System::Ddp | System::Fsdp | System::SmpV2 | System::DeviceMap);
        StateBytes {
            parameters: unless(parameters, self.weights),
            gradients: unless(gradients, self.gradients) + unless(offload.optimizer, self.step_gradients),
            // Pages of a paged optimizer are moved to host memory when room is short (Dettmers et al. 2023,
            // section 3).
            optimizer: unless(offload.optimizer || offload.paged, self.optimizer),
            gradients_stay: !freed || layout.work.passes > 1.0,
        }
    }
}

/// Returns the states of a stage on one GPU.
pub(super) fn states(layout: &Layout, stage: &Stage) -> StateBytes {
    if let Some(lora) = layout.lora {
        return adapter_states(layout, stage, lora.trainable);
    }
    let recipe = recipe(layout);
    let count = stage.parameters();
    let degrees = &layout.degrees;
    let groups = Groups::from_layout(layout);
    // The expert degree is a part of the data-parallel axis: each of the E parts of the experts is sharded
    // over G/E ranks.
    let experts = stage.expert_parameters;
    let shard_of = |group: f64| (count - experts) / group + experts / (group / degrees.expert).max(1.0);
    let mut gradients = recipe.gradients * shard_of(groups.gradients);
    // Token embeddings are on the first stage.
    let wide = if stage.index == 0.0 { wide_moments(layout) / degrees.tensor } else { 0.0 };
    let wide = wide.min(stage.outer_parameters) * (WIDE_MOMENTS - INT8_MOMENTS);
    if layout.code == Code::MegatronDeepspeed && layout.system == System::Megatron {
        gradients += match layout.precision {
            // `BF16_Optimizer`: 32-bit gradients of all parameters at every stage.
            Precision::Mixed { bf16: true } | Precision::Fp8(_) => 4.0 * count,
            // ZeRO-1 in fp16: 32-bit gradients of the rank's part only.
            Precision::Mixed { bf16: false } => 4.0 * count / groups.optimizer,
            Precision::Fp32 | Precision::Pure16 { .. } => 0.0,
        };
    }
    let states = Divided {
        weights: recipe.weights * (shard_of(groups.weights) + count * second_copy(layout)),
        gradients,
        step_gradients: recipe.step_gradients * shard_of(groups.optimizer),
        optimizer: (recipe.copies + recipe.moments) * shard_of(groups.optimizer) + wide / groups.optimizer,
    };
    states.on_gpu(layout)
}
