//! Compute time of a GPU: matrix multiplications by a roofline, attention, elementwise traffic, launches,
//! logits, optimizer.

use super::{Machine, Name, RecomputedWork, recomputed_work};
use crate::layout::{
    AdapterKind, Attention, Code, Dispatcher, ExpertKernel, FlashKernel, Fp8Recipe, GpuKind, Layout,
    Quantisation, Sharding, System,
};

/// Times of one micro-batch through one layer and the head, forward and backward, seconds.
pub(super) struct Pass {
    /// The GPU's work on one layer.
    pub(super) gpu: f64,
    /// The host's work to launch the layer.
    pub(super) host: f64,
    /// Head, logits and loss.
    pub(super) head: f64,
    /// The part of `gpu` that is the attention core.
    pub(super) attention: f64,
    /// Recomputed share of the forward pass.
    pub(super) again: RecomputedWork,
}

pub(super) fn compute_pass(layout: &Layout, machine: &Machine) -> Pass {
    let (model, degrees) = (&layout.model, &layout.degrees);
    let c = |name| machine.get(name);
    let t = degrees.tensor.max(1.0);
    let s = layout.work.sequence_length;
    let tokens = layout.tokens_at_once();
    let again = recomputed_work(layout);
    let rounds = 3.0 + again.rest;
    // A frozen matrix has only the gradient of its input.
    let weight_rounds = if layout.lora.is_some() { 2.0 } else { 3.0 } + again.products;
    let (peak, bandwidth) = (machine.peak, machine.bandwidth);
    let fast = peak
        * layout.precision.fp8_recipe().map_or(1.0, |recipe| {
            c(match recipe {
                Fp8Recipe::Tensorwise => Name::Fp8,
                Fp8Recipe::Rowwise => Name::Fp8Rowwise,
                Fp8Recipe::Blockwise => Name::Fp8Blockwise,
                Fp8Recipe::Mxfp8 => Name::Mxfp8,
                Fp8Recipe::Nvfp4 => Name::Nvfp4,
            })
        });
    let ridge = ridge(machine);
    let h = model.hidden;
    let (width, kv) = (model.heads * model.head_dim / t, model.kv_heads * model.head_dim / t);
    let inner = model.ffn / t;
    let copies = local_experts(layout).unwrap_or(1.0);
    let shapes @ [.., head] = products(layout);
    let [qkv, output, up, down, _] = shapes.map(|shape| product_seconds(machine, shape, fast));
    let mut matrices = qkv + output + copies * ((model.ffn_matrices - 1.0) * up + down);
    if model.experts == 0.0 {
        // Cross-attention and similar: other parameters of the layers.
        let plain =
            2.0 * h * model.head_dim * (model.heads + model.kv_heads) + model.ffn_matrices * h * model.ffn;
        matrices *= (model.linear_parameters / (model.layers * plain)).clamp(1.0, 2.0);
    }
    let core = 4.0 * s * tokens * width;
    let attention = match layout.attention {
        Attention::Flash => flash_seconds(layout, machine, again.attention),
        Attention::Eager => {
            let again = again.attention;
            let products = core * (3.0 + again) / (peak * machine.gpu.gemm)
                * (1.0 + ridge * (2.0 / s + 1.0 / model.head_dim));
            let traffic =
                c(Name::Scores) * model.heads / t * s * tokens * 2.0 * (3.0 + again) / 3.0 / bandwidth;
            let odd = if model.head_dim % 8.0 == 0.0 { 1.0 } else { c(Name::OddHeads) };
            (products + traffic) * odd
        }
    };
    let kernels = match layout.code {
        _ if layout.compiled => c(Name::Compiled),
        Code::Megatron | Code::MegatronCore | Code::MegatronDeepspeed | Code::Nanotron => c(Name::Fused),
        Code::HuggingFace => c(Name::EagerTransformers),
        _ => c(Name::Eager),
    };
    let wide =
        0.5 * h + (model.ffn_matrices - 1.0) / 8.0 * model.ffn * copies.min(model.active_experts.max(1.0));
    // Norms and residuals are repeated on every tensor rank, unless the sequence is split there.
    let split = match (t > 1.0, layout.sequence_parallel) {
        (false, _) => 1.0,
        (true, true) => 1.0 / t,
        (true, false) => 0.45 + 0.55 / t,
    };
    let traffic_rounds = 1.0 + again.rest * c(Name::ForwardTraffic);
    let elementwise = kernels * 2.0 * tokens * wide * traffic_rounds / bandwidth * split;
    let launches = machine.gpu.launch * rounds / 3.0;
    let collectives = match layout.code {
        _ if t <= 1.0 => 1.0,
        Code::Nanotron => {
            let is_spread = degrees.pipeline > 1.0 && layout.hardware.nodes > 1.0;
            c(Name::NanotronLaunches) + if is_spread { t * c(Name::NanotronPipeline) } else { 0.0 }
        }
        _ => 1.0 + c(Name::TensorLaunches) * (rounds + 1.0) / 4.0,
    };
    let (adapter, adapter_launches) = match layout.lora {
        Some(lora) if lora.kind == AdapterKind::LowRank => {
            let flop = 2.0 * tokens * lora.trainable / model.layers.max(1.0) / t * (3.0 + again.products);
            (c(Name::Adapter) * flop / (peak * machine.gpu.gemm), 1.0 + c(Name::AdapterLaunches))
        }
        _ => (0.0, 1.0),
    };
    let logits = if layout.code == Code::Nanotron { Name::NanotronLogits } else { Name::Logits };
    let head = if model.head_vocab > 0.0 {
        product_seconds(machine, head, peak) * if layout.lora.is_some() { 2.0 } else { 3.0 }
            + c(logits) * tokens * model.head_vocab / t / bandwidth
    } else {
        0.0
    };
    Pass {
        gpu: matrices * weight_rounds
            + attention
            + adapter
            + elementwise
            + ring_merge_bytes(layout, tokens * width, again.attention) / bandwidth
            + weight_handling_seconds(layout, machine)
            + fp8_cast_bytes(layout, tokens, (width, kv, inner), again.products) / bandwidth
            + dequantise_seconds(layout, machine, weight_rounds)
            + launches * expert_wait(layout, machine),
        host: launches
            * (collectives * adapter_launches
                + expert_launches(layout, machine, copies)
                + ring_launches(layout, machine))
            + expert_fetch_seconds(layout, machine, copies),
        head,
        attention,
        again,
    }
}

/// Returns the unhidden part of the roofline's ridge, in elements.
fn ridge(machine: &Machine) -> f64 {
    machine.get(Name::Roofline) * machine.peak / machine.bandwidth
}

/// Returns the number of a layer's experts on one GPU; `None` without experts.
fn local_experts(layout: &Layout) -> Option<f64> {
    let experts = layout.model.experts;
    (experts > 0.0).then(|| (experts / layout.degrees.expert.max(1.0)).max(1.0))
}

/// Returns the matrix products of a layer and of the head on one GPU, as rows, inner dimension and columns:
/// query, key and value; output; up (or gate); down; head.
pub(super) fn products(layout: &Layout) -> [[f64; 3]; 5] {
    let model = &layout.model;
    let t = layout.degrees.tensor.max(1.0);
    let tokens = layout.tokens_at_once();
    let (width, kv) = (model.heads * model.head_dim / t, model.kv_heads * model.head_dim / t);
    let (h, inner) = (model.hidden, model.ffn / t);
    // Tokens are distributed over the experts; all selected ones of a layer together process `active` times
    // as many.
    let routed = local_experts(layout).map_or(tokens, |local| tokens * model.active_experts / local);
    [
        [tokens, h, width + 2.0 * kv],
        [tokens, width, h],
        [routed, h, inner],
        [routed, inner, h],
        [tokens, h, model.head_vocab / t],
    ]
}

/// Returns the time of a matrix product at a peak in FLOP/s, by the roofline.
pub(super) fn product_seconds(machine: &Machine, [m, k, n]: [f64; 3], peak: f64) -> f64 {
    // Layers without attention or without a feed-forward part have none.
    if m * k * n <= 0.0 {
        return 0.0;
    }
    2.0 * m * k * n / (peak * machine.gpu.gemm) * (1.0 + ridge(machine) * (1.0 / m + 1.0 / k + 1.0 / n))
}

/// Returns the time of FlashAttention in one layer and micro-batch: forward, backward and the repeated share
/// of the forward pass.
pub(super) fn flash_seconds(layout: &Layout, machine: &Machine, again: f64) -> f64 {
    let model = &layout.model;
    let width = model.heads * model.head_dim / layout.degrees.tensor.max(1.0);
    let core = 4.0 * layout.work.sequence_length * layout.tokens_at_once() * width;
    // The kernel always recomputes the scores: 2.5 times the forward pass's FLOP. A causal mask halves the
    // work.
    let seen = if model.causal { 0.5 } else { 1.0 };
    let times = 1.0 + machine.get(Name::FlashBackward) + again;
    seen * core * times * flash_slowness(layout, machine) / machine.peak
}

/// Returns the time of FlashAttention over that at the GPU's peak.
fn flash_slowness(layout: &Layout, machine: &Machine) -> f64 {
    let gpu = &machine.gpu;
    let kind = layout.hardware.gpu.map(GpuKind::kind_of_constants);
    let newer = match layout.flash {
        FlashKernel::First => 1.0,
        // Kernels of the third version need Hopper; elsewhere the second one runs.
        FlashKernel::Third if matches!(kind, Some(GpuKind::H100 | GpuKind::B200)) => gpu.flash3,
        FlashKernel::Second | FlashKernel::Third => gpu.flash2,
    };
    let narrow = 1.0 + machine.get(Name::NarrowHeads) / layout.model.head_dim;
    // Blocks at the diagonal and at the ends of a sequence are not full. A ring passes blocks of the
    // sequence.
    let parts = if layout.ulysses { 1.0 } else { layout.degrees.context.max(1.0) };
    let short = 1.0 + machine.get(Name::FlashLength) * parts / layout.work.sequence_length.max(1.0);
    narrow * short / (gpu.flash * newer)
}

/// Returns the launches that the experts of a GPU add to a layer, a share of a layer's.
fn expert_launches(layout: &Layout, machine: &Machine, experts: f64) -> f64 {
    if layout.model.experts <= 0.0 {
        return 0.0;
    }
    experts
        * machine.get(match layout.expert_kernel {
            ExpertKernel::Grouped => Name::ExpertLaunches,
            ExpertKernel::Loop => Name::LoopLaunches,
        })
}

/// Returns the launches of the blocks of a context ring beyond the first: attention, and the merging of its
/// output by separate operations. Megatron's are fused.
fn ring_launches(layout: &Layout, machine: &Machine) -> f64 {
    if layout.ulysses || layout.code.is_megatron() {
        return 0.0;
    }
    (layout.degrees.context - 1.0).max(0.0) * machine.get(Name::RingLaunches)
}

/// Returns the share of a layer's launches for which the GPU waits, since the host waits for the number of
/// tokens of each expert.
fn expert_wait(layout: &Layout, machine: &Machine) -> f64 {
    let exchanges = layout.model.experts > 0.0 && layout.degrees.expert > 1.0;
    if exchanges && layout.dispatcher == Dispatcher::AllToAll { machine.get(Name::ExpertWait) } else { 0.0 }
}

/// Returns the time in which ZeRO-3 gathers the matrices of a layer's experts one by one: a loop reaches
/// them in another order in each pass, so that nothing is prefetched (DeepSpeed,
/// `PartitionedParameterCoordinator`).
fn expert_fetch_seconds(layout: &Layout, machine: &Machine, experts: f64) -> f64 {
    let fetches = layout.system == System::DeepSpeed
        && layout.sharding == Sharding::Full
        && layout.expert_kernel == ExpertKernel::Loop
        && layout.model.experts > 0.0;
    // Once forward, once backward with the recomputed forward pass.
    if fetches { 2.0 * experts * layout.model.ffn_matrices * machine.get(Name::ZeroFetch) } else { 0.0 }
}

/// Bytes per element to merge a block's output into the accumulated output: PyTorch's ring attention widens
/// the block to 32 bit and adds `sigmoid(difference of the sums) · (block - output)` operation by operation.
const MERGE: f64 = 6.0 + 12.0 + 8.0 + 12.0;

/// Bytes per element of a block's gradients of query, key and value that are accumulated in 32 bit.
const SUM: f64 = 3.0 * 10.0;

/// Returns the traffic of merging the blocks of a context ring in one layer, bytes.
fn ring_merge_bytes(layout: &Layout, outputs: f64, share: f64) -> f64 {
    let steps = (layout.degrees.context - 1.0).max(0.0);
    steps * outputs * ((1.0 + share) * MERGE + SUM)
}

/// Bytes per element of a product's operand that is scaled by its maximum and rounded to 8 bit: read for the
/// maximum, read again, written in rows and in columns (torchao's roofline of tensorwise scaling, kernels 1
/// and 3 of `get_tensor_memory_traffic_ovhd_s`, pytorch/ao torchao/testing/training/roofline_utils.py).
/// Weights are gathered in 8 bit and rounded in shards, which is negligible.
const CAST: f64 = 2.0 + 2.0 + 2.0;

/// Returns the traffic of rounding a layer's inputs and gradients of outputs to 8 bit, bytes. `again` is the
/// share of the products that recomputation repeats.
fn fp8_cast_bytes(layout: &Layout, tokens: f64, (width, kv, inner): (f64, f64, f64), again: f64) -> f64 {
    if layout.precision.fp8_recipe().is_none() {
        return 0.0;
    }
    let model = &layout.model;
    let t = layout.degrees.tensor.max(1.0);
    let h = if layout.sequence_parallel { model.hidden / t } else { model.hidden };
    let (experts, gates) = (model.active_experts.max(1.0), model.ffn_matrices - 1.0);
    // Products with the same input share its rounded copy.
    let inputs = h + width + h + inner * experts;
    let gradients = width + 2.0 * kv + h + gates * inner * experts + h;
    CAST * tokens * (inputs * (1.0 + again) + gradients)
}

/// Returns the time to handle a layer's weights and gradients in one pass, outside the products: see
/// [`Name::Weights`].
///
/// On one GPU without accumulation, the product's output is the gradient, and nothing is gathered.
fn weight_handling_seconds(layout: &Layout, machine: &Machine) -> f64 {
    let degrees = &layout.degrees;
    let alone = degrees.data_parallel_ranks() <= 1.0 && layout.work.passes <= 1.0;
    let constant = match (layout.system, layout.code) {
        _ if alone || layout.lora.is_some() => return 0.0,
        (System::Megatron, Code::Nanotron) => Name::Accumulation,
        (System::Megatron, _) => return 0.0,
        _ => Name::Weights,
    };
    let stages = if layout.system == System::DeviceMap { 1.0 } else { degrees.pipeline.max(1.0) };
    let own = layout.model.parameters / (degrees.tensor.max(1.0) * stages);
    machine.get(constant) * own / (layout.model.layers / stages).ceil().max(1.0) / machine.bandwidth
}

/// Returns the time to unpack a layer's quantised weights in each round: 4 or 8 bit read, 16 bit written and
/// read.
fn dequantise_seconds(layout: &Layout, machine: &Machine, rounds: f64) -> f64 {
    let packed = match layout.quantisation {
        None => return 0.0,
        Some(Quantisation::Nf4 { .. }) => 0.53,
        Some(Quantisation::Int8) => 1.0,
    };
    let weights =
        layout.model.linear_parameters / layout.model.layers.max(1.0) / layout.degrees.tensor.max(1.0);
    machine.get(Name::Dequantise) * weights * (packed + 4.0) * rounds / machine.bandwidth
}

/// Returns the time of the optimizer's step over the parameters that this GPU updates.
pub(super) fn optimizer_seconds(layout: &Layout, machine: &Machine) -> f64 {
    let degrees = &layout.degrees;
    let trained = layout.lora.map_or(layout.model.parameters, |lora| lora.trainable);
    let stages = if layout.system == System::DeviceMap { 1.0 } else { degrees.pipeline.max(1.0) };
    let sharded = if layout.sharding == Sharding::None { 1.0 } else { degrees.shard.max(1.0) };
    let own = trained / (degrees.tensor.max(1.0) * stages) / sharded;
    machine.get(Name::Optimizer) * 16.0 * own / machine.bandwidth
}

#[cfg(test)]
mod tests {
    use super::super::tests::gpt2_30b;
    use super::{Layout, fp8_cast_bytes};
    use crate::layout::{Fp8Recipe, Precision};

    /// By hand, of Llama 3 8B, one of its layers and 16,384 tokens: inputs of 4,096 (query, key and value),
    /// 4,096 (output), 4,096 (gate and up) and 14,336 (down); gradients of 4,096 + 2,048, 4,096, 28,672 and
    /// 4,096; 6 bytes an element.
    #[test]
    fn operands_of_8_bit_are_read_twice_and_written_twice() {
        let mut layout = gpt2_30b(1.0, 8.0, 8192.0, 2.0, 16.0);
        layout.model.hidden = 4096.0;
        (layout.model.ffn, layout.model.ffn_matrices) = (14_336.0, 3.0);
        let sizes = (4096.0, 1024.0, 14_336.0);
        let of = |layout: &Layout, again: f64| fp8_cast_bytes(layout, 16_384.0, sizes, again);
        assert!(of(&layout, 0.0).abs() < f64::EPSILON, "16 bit is rounded nowhere");
        layout.precision = Precision::Fp8(Fp8Recipe::Tensorwise);
        let (inputs, gradients) = (26_624.0, 43_008.0);
        assert!((of(&layout, 0.0) / (6.0 * 16_384.0 * (inputs + gradients)) - 1.0).abs() < 1e-12);
        // Recomputation rounds its inputs again.
        assert!((of(&layout, 1.0) - of(&layout, 0.0) - 6.0 * 16_384.0 * inputs).abs() < 1.0);
    }
}
