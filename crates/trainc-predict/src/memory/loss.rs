//! Logits and loss.

use crate::layout::{Code, Layout, Loss, Precision, System};

/// Bytes of a 16-bit element.
const HALF: f64 = 2.0;

/// Chunks of a chunked loss (torchtune and torchtitan: 8).
const CHUNKS: f64 = 8.0;

/// Returns the bytes per logit during the backward pass of the loss.
///
/// transformers: 32-bit logits, their shifted copy and the log-softmax (4 + 4 + 4), and one 32-bit gradient;
/// if neither autocast nor the model widens them (GPT-2 and similar models under DeepSpeed and SMP v1), the
/// same in 16 bit and a gradient. Megatron's parallel cross entropy: 16-bit logits, 32-bit ones, and the
/// gradient (2 + 4 + 4); torchtitan's also keeps a 16-bit gradient. torchtune computes the loss in eight
/// chunks: 16-bit logits and a chunk in 32 bit. Composer uses flash-attention's fused cross entropy, whose
/// gradient overwrites the logits.
fn bytes_per_logit(layout: &Layout) -> f64 {
    let narrow = !layout.model.rms_norm && matches!(layout.system, System::DeepSpeed | System::SmpV1);
    match (layout.code, layout.precision) {
        _ if layout.loss == Some(Loss::Chunked) => HALF + 4.0 / CHUNKS,
        (Code::HuggingFace, Precision::Fp32) => 4.0 * 4.0,
        (Code::HuggingFace, _) if narrow => 4.0 * 2.0,
        (Code::HuggingFace, _) => 3.0 * 4.0,
        (Code::Torchtune, _) => HALF + 4.0 / CHUNKS,
        (Code::Composer, _) => 2.0 + 2.0,
        (Code::Torchtitan, _) => 2.0 + 4.0 + 4.0 + 2.0,
        (_, Precision::Fp32) => 3.0 * 4.0,
        (
            Code::Megatron
            | Code::MegatronCore
            | Code::MegatronDeepspeed
            | Code::Nanotron
            | Code::Litgpt
            | Code::Worker,
            _,
        ) => 2.0 + 4.0 + 4.0,
    }
}

/// Returns the bytes of logits and loss of one micro-batch on one GPU: the tensor degree divides a split
/// head, unless the logits are gathered for the loss, as by the plans of transformers (5.24.0,
/// `models/llama/modeling_llama.py`, `_tp_plan`: `colwise_gather_output`).
pub(super) fn logits_and_loss_bytes(layout: &Layout) -> f64 {
    let work = &layout.work;
    let tokens = work.sequence_length * work.sequences_at_once() / layout.degrees.context;
    let model = &layout.model;
    let bytes = bytes_per_logit(layout);
    if layout.loss == Some(Loss::Fused) {
        // Liger's fused linear cross entropy computes the logits of `hidden / vocabulary` of the tokens at a
        // time, and holds the gradients of its input and of the head (linkedin/Liger-Kernel,
        // ops/fused_linear_cross_entropy.py).
        let chunk = (tokens * model.hidden / model.head_vocab.max(1.0)).clamp(1.0, tokens);
        return model.head_vocab * (bytes * chunk + HALF * model.hidden) + HALF * tokens * model.hidden;
    }
    let is_gathered = layout.system == System::Fsdp && layout.code == Code::HuggingFace;
    bytes * tokens * model.head_vocab / if is_gathered { 1.0 } else { layout.degrees.tensor }
}
