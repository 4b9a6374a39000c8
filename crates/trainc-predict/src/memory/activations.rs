//! Activations saved for the backward pass, tensor by tensor.
//!
//! Korthikanti et al. 2022, section 4.1, gives for a GPT layer of Megatron: `s b h (34 + 5 a s / h)` bytes.
//! For other layers and implementations, this module counts the tensors that each operation saves;
//! `tests/python/saved_tensors.py` records them from PyTorch itself.

use crate::layout::{AdapterKind, Attention, Code, Layout, Model, Precision, Recompute, System};

/// Bytes of a 16-bit element.
const HALF: f64 = 2.0;

/// Tensors that a layer saves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept {
    /// Bytes of an activation's element.
    pub width: f64,
    /// Bytes of an element of the residual stream: autocast keeps it in 32 bit.
    pub stream: f64,
    /// True if root-mean-square norms run in 32 bit and keep their normalised input.
    pub wide_norm: bool,
    /// True if attention probabilities are computed in 32 bit and then cast.
    pub wide_softmax: bool,
    /// True if keys and values are repeated for every query head.
    pub repeats_heads: bool,
    /// True if the attention's output is copied into the memory order of the next product.
    pub copies_output: bool,
    /// True if one matrix computes query, key and value, so that rotated copies keep its whole output alive.
    pub fused_projection: bool,
    /// True if a compiler recomputes cheap operations instead of keeping their results.
    pub compiled: bool,
    /// True if products with frozen weights also keep their inputs (bitsandbytes' `MatMul4Bit`).
    pub frozen_inputs: bool,
    /// True if weights are frozen because of an adapter.
    pub frozen: bool,
    /// True if activations between tensor-parallel products are gathered before they are kept.
    pub gathers_inputs: bool,
    /// True if query and key are rotated in 32 bit, and these copies are kept with the result.
    pub wide_rotation: bool,
    /// Bytes of an element of a product's input: 1 if it is kept in 8 bit.
    pub input_width: f64,
    /// Bytes of an element of the non-linearity's input.
    pub inner_width: f64,
    /// True if a gated activation is one kernel that keeps its input alone.
    pub fused_gate: bool,
}

impl Kept {
    /// Returns the tensors that the layout's code saves.
    pub fn from_layout(layout: &Layout) -> Self {
        let code = layout.code;
        let width = if layout.precision == Precision::Fp32 { 4.0 } else { 2.0 };
        let autocast = layout.system == System::Ddp
            && matches!(layout.precision, Precision::Mixed { .. })
            && code == Code::HuggingFace;
        let eager =
            code == Code::Torchtune || matches!(code, Code::HuggingFace | Code::Litgpt) && !layout.compiled;
        Self {
            width,
            stream: if autocast { 4.0 } else { width },
            wide_norm: layout.model.rms_norm && eager && layout.precision != Precision::Fp32,
            wide_softmax: autocast || layout.model.rms_norm && code == Code::HuggingFace,
            repeats_heads: code == Code::HuggingFace,
            copies_output: code == Code::HuggingFace && layout.attention == Attention::Flash,
            fused_projection: code == Code::Litgpt,
            // torchtune compiles layers one by one; measurements show that they keep the same tensors as
            // eager code.
            compiled: layout.compiled && code != Code::Torchtune || code == Code::Torchtitan,
            frozen_inputs: layout.quantisation.is_some(),
            frozen: layout.lora.is_some(),
            gathers_inputs: code == Code::Torchtitan,
            wide_rotation: code == Code::Nanotron,
            // Transformer Engine keeps the rounded input; torchao's layers keep what they were given.
            input_width: match layout.precision {
                Precision::Fp8(_) if code == Code::MegatronCore => 1.0,
                _ => width,
            },
            // Recipes with weights in 8 bit alone also set `activation_func_fp8_input_store`
            // (mlcommons/training_results_v5.0, NVIDIA, llama2_70b_lora,
            // megatron_gpt_peft_tuning_config.yaml).
            inner_width: if layout.narrow_weights { 1.0 } else { width },
            // megatron/core/fusions/fused_bias_swiglu.py, `SwiGLUFunction`, saves its input (from memory, not
            // checked).
            fused_gate: code == Code::MegatronCore,
        }
    }
}

/// The tensor degree's part of a layer, and of the tensors between its products.
#[derive(Clone, Copy)]
struct Split {
    inside: f64,
    between: f64,
}

/// Returns the bytes that one layer keeps per token of its GPU's sequence; `attention` determines the score
/// matrix.
pub fn layer_bytes_per_token(layout: &Layout, kept: &Kept, attention: Attention) -> f64 {
    let model = &layout.model;
    let tensor = layout.degrees.tensor;
    let split = Split { inside: tensor, between: if layout.sequence_parallel { tensor } else { 1.0 } };
    let own = model.activations.map(|own| {
        let narrower = (1.0 - kept.input_width / kept.width) * own.inputs;
        (own.attention, own.of(layout.code).beyond - narrower)
    });
    let (attending, beyond) = own.unwrap_or((1.0, 0.0));
    let dense = norms(model, kept, split)
        + projections(model, kept, split)
        + attending * attention_core_bytes(layout, kept, attention) / split.inside
        + feed_forward(model, kept, split)
        + dropout_masks(model, split)
        + adapter_inputs(layout, kept);
    let all = dense + beyond * kept.width / HALF / split.inside;
    if own.is_some() { all.max(checkpoint_bytes_per_token(layout, kept)) } else { all }
}

/// Returns the bytes that the largest layer keeps per token in addition to [`layer_bytes_per_token`].
fn largest_layer_bytes(layout: &Layout, kept: &Kept) -> f64 {
    let own = layout.model.activations.map_or(0.0, |own| own.of(layout.code).largest);
    own * kept.width / HALF / layout.degrees.tensor
}

/// Returns the tensors of norms: norms keep their input (and a 32-bit one its normalised input), products
/// keep the norms' output.
fn norms(model: &Model, kept: &Kept, split: Split) -> f64 {
    // One norm per product of the stream; some models have further ones, whose output is no product's input.
    let products = if model.parallel_blocks { 1.0 } else { 2.0 };
    let norms = model.activations.map_or(products, |own| own.norms);
    let h = model.hidden;
    let trained = if kept.frozen { 0.0 } else { kept.width * h };
    let input = if kept.wide_norm { 4.0 * h + trained } else { kept.stream * h };
    let output = if kept.compiled && !kept.gathers_inputs || kept.frozen && !kept.frozen_inputs {
        0.0
    } else {
        kept.input_width * h
    };
    // Megatron keeps its part and gathers again in the backward pass; others keep the gathered tensor.
    let output =
        if kept.gathers_inputs { compiled_gather(output, kept, split) } else { output / split.between };
    norms * input / split.between + products * output
}

/// Returns the kept output of a norm: a compiled layer without a split keeps none; with a split it keeps the
/// gathered output.
fn compiled_gather(output: f64, kept: &Kept, split: Split) -> f64 {
    if kept.compiled && split.between <= 1.0 { 0.0 } else { output }
}

/// Query, key, value, and the input of the output projection.
///
/// A tensor rank holds at least one head of keys and values: with more ranks than such heads, ranks hold
/// copies of them, while the weights are still divided (Megatron-LM @d98e8a64,
/// `core/transformer/attention.py`).
fn projections(model: &Model, kept: &Kept, split: Split) -> f64 {
    let query = model.heads * model.head_dim;
    let kv_heads = model.kv_heads.max(split.inside.min(model.heads));
    let key = if kept.repeats_heads { query } else { kv_heads * model.head_dim };
    // The value is a view of the fused product and keeps the unrotated query and key with it.
    let whole = if kept.fused_projection { query + key } else { 0.0 };
    let output = if kept.copies_output { 2.0 * query } else { query };
    let rotated = if kept.wide_rotation { (4.0 + kept.width) * (query + key) } else { 0.0 };
    let output = kept.input_width * query + kept.width * (output - query);
    (kept.width * (query + 2.0 * key + whole) + output + rotated) / split.inside
}

/// The attention core: probabilities, their dropped copy and its mask; or one 32-bit sum per row (flash).
fn attention_core_bytes(layout: &Layout, kept: &Kept, attention: Attention) -> f64 {
    let heads = layout.model.heads;
    if attention == Attention::Flash {
        return 4.0 * heads;
    }
    let probabilities = if kept.wide_softmax { 4.0 + kept.width } else { kept.width };
    let dropped = match (layout.model.dropout, kept.wide_softmax) {
        (true, true) => 1.0,
        (true, false) => 1.0 + kept.width,
        (false, _) => 0.0,
    };
    heads * layout.work.sequence_length / layout.degrees.context * (probabilities + dropped)
}

/// Up, the activation and down; gated: gate, its activation, up and their product, of every expert that a
/// token uses.
fn feed_forward(model: &Model, kept: &Kept, split: Split) -> f64 {
    let experts = model.active_experts.max(1.0);
    let last = if kept.frozen && !kept.frozen_inputs { 0.0 } else { 1.0 };
    // What layers of several kinds keep is counted with the kernels of their code.
    let fused = kept.fused_gate && model.activations.is_none();
    let tensors = if model.ffn_matrices > 2.5 {
        (if kept.compiled || fused { 2.0 } else { 3.0 }) + last
    } else if model.composite_gelu && kept.repeats_heads && !kept.compiled {
        // x, its hyperbolic tangent, one more than it, half of x: one tensor for each operation of
        // `gelu_new`.
        4.0 + last
    } else {
        1.0 + last
    };
    // The last of them is the input of the second product.
    let bytes = kept.inner_width * (tensors - last) + kept.input_width * last;
    bytes * experts * model.ffn / split.inside
}

/// Two masks of one byte per element, after the attention and after the feed-forward part.
fn dropout_masks(model: &Model, split: Split) -> f64 {
    if model.dropout { 2.0 * model.hidden / split.between } else { 0.0 }
}

/// LoRA keeps its dropped input and the mask (Hu et al. 2021); scaled products keep their unscaled result.
fn adapter_inputs(layout: &Layout, kept: &Kept) -> f64 {
    let model = &layout.model;
    match layout.lora.map(|lora| lora.kind) {
        Some(AdapterKind::LowRank) => (kept.width + 1.0) * model.hidden,
        Some(AdapterKind::Scaled) => {
            let attention = (model.heads + 2.0 * model.kv_heads) * model.head_dim;
            kept.width * (attention + 2.0 * model.hidden + (model.ffn_matrices - 1.0) * model.ffn)
        }
        Some(AdapterKind::Prompt) | None => 0.0,
    }
}

/// Returns the part of the activations at a peak, `activations` bytes, that the chosen experts hold: with
/// full recomputation of one layer, otherwise of all of them.
pub(super) fn routed_bytes(layout: &Layout, activations: f64) -> f64 {
    let Some(own) = layout.model.activations.filter(|own| own.routed > 0.0) else { return 0.0 };
    let kept = Kept::from_layout(layout);
    let layer = layer_bytes_per_token(layout, &kept, layout.attention);
    let routed = own.routed * kept.width / HALF / layout.degrees.tensor;
    let layers = layout.model.layers / layout.degrees.pipeline.max(1.0);
    let share = match layout.recompute {
        Recompute::Full => routed / (checkpoint_bytes_per_token(layout, &kept) * layers + layer),
        _ => routed / layer,
    };
    activations * share.min(1.0)
}

/// Returns the bytes per token of the input of a checkpointed layer.
pub(super) fn checkpoint_bytes_per_token(layout: &Layout, kept: &Kept) -> f64 {
    let split = if layout.sequence_parallel { layout.degrees.tensor } else { 1.0 };
    kept.stream * layout.model.hidden / split
}

/// Saved and recomputed activations of a layer, bytes per token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Saved {
    pub(super) kept: f64,
    pub(super) again: f64,
    /// Activations of a layer during its backward pass, saved and recomputed.
    pub(super) whole: f64,
}

/// Returns the saved and recomputed activations of a layer, by the kind of recomputation.
///
/// Selective: the attention core is recomputed (Korthikanti et al. 2022, section 5). By operation: every
/// other matrix product and the attention's output are kept instead, including the last product of a layer
/// only if it is read, which no gradient does.
pub(super) fn saved_activations(layout: &Layout) -> Saved {
    let kept = Kept::from_layout(layout);
    let all = layer_bytes_per_token(layout, &kept, layout.attention);
    let largest = all + largest_layer_bytes(layout, &kept);
    let checkpoint = checkpoint_bytes_per_token(layout, &kept);
    match layout.recompute {
        Recompute::None => {
            let again = widest_gradients(layout, &kept);
            Saved { kept: all, again, whole: all + again }
        }
        Recompute::Full => Saved { kept: checkpoint, again: largest, whole: largest },
        Recompute::Share(share) => {
            Saved { kept: checkpoint * share + all * (1.0 - share), again: largest, whole: largest }
        }
        Recompute::Operations => {
            let model = &layout.model;
            let query = model.heads * model.head_dim;
            let core = attention_core_bytes(layout, &kept, Attention::Flash);
            let some = (kept.width * (model.kept_product_elements() + query) + core) / layout.degrees.tensor
                + checkpoint;
            Saved { kept: some.min(all), again: largest, whole: largest }
        }
        Recompute::Selective => {
            let without = layer_bytes_per_token(layout, &kept, Attention::Flash);
            Saved { kept: without, again: (all - without).max(0.0), whole: all }
        }
    }
}

/// Gradients of the widest tensors, which exist during the backward pass of a layer.
fn widest_gradients(layout: &Layout, kept: &Kept) -> f64 {
    let model = &layout.model;
    let wide = kept.width * model.ffn * (model.ffn_matrices - 1.0);
    let scores = match layout.attention {
        Attention::Flash => 0.0,
        Attention::Eager => {
            2.0 * kept.width * model.heads * layout.work.sequence_length / layout.degrees.context
        }
    };
    wide.max(scores) / layout.degrees.tensor
}
