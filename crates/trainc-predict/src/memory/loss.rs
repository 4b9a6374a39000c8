//! Logits and loss.

use crate::layout::{Code, Layout, Precision, System};

/// Returns the bytes per logit during the backward pass of the loss.
///
/// transformers: 32-bit logits, their shifted copy and the log-softmax (4 + 4 + 4), and one 32-bit gradient; if
/// neither autocast nor the model widens them (GPT-2 and similar models under DeepSpeed and SMP v1), the same in 16 bit
/// and a gradient. Megatron's parallel cross entropy: 16-bit logits, 32-bit ones, and the gradient (2 + 4 + 4);
/// torchtitan's also keeps a 16-bit gradient. torchtune computes the loss in eight chunks: 16-bit logits and a chunk in
/// 32 bit. Composer uses flash-attention's fused cross entropy, whose gradient overwrites the logits.
fn bytes_per_logit(layout: &Layout) -> f64 {
    let narrow = !layout.model.rms_norm && matches!(layout.system, System::DeepSpeed | System::SmpV1);
    match (layout.code, layout.precision) {
        (Code::HuggingFace, Precision::Fp32) => 4.0 * 4.0,
        (Code::HuggingFace, _) if narrow => 4.0 * 2.0,
        (Code::HuggingFace, _) => 3.0 * 4.0,
        (Code::TorchTune, _) => 2.0 + 4.0 / 8.0,
        (Code::Composer, _) => 2.0 + 2.0,
        (Code::TorchTitan, _) => 2.0 + 4.0 + 4.0 + 2.0,
        (_, Precision::Fp32) => 3.0 * 4.0,
        (Code::Megatron | Code::MegatronDeepSpeed | Code::LitGpt | Code::Worker, _) => 2.0 + 4.0 + 4.0,
    }
}

/// Returns the bytes of logits and loss of one micro-batch on one GPU: the tensor degree divides a split head.
pub(super) fn logits_and_loss_bytes(layout: &Layout) -> f64 {
    let work = &layout.work;
    let tokens = work.sequence_length * work.sequences_at_once() / layout.degrees.context;
    bytes_per_logit(layout) * tokens * layout.model.head_vocab / layout.degrees.tensor
}
