//! Activations of layers that a model's dimensions alone do not describe: experts, latent attention, norms of
//! queries and keys, mixers without attention, layers of several kinds.

use super::layout::Code;
use trainc_ir::architecture::{
    Activation, ActivationCode, Architecture, FlopsRecompute, LayerKind, Norm, SavedPart,
};

/// The parts that the formulas of `memory/activations.rs` count from a model's dimensions.
const DENSE_PARTS: [&str; 3] = ["gqa", "mlp", "norms"];

/// The codes whose saved tensors `trainc_ir` knows.
const CODES: [ActivationCode; 3] =
    [ActivationCode::Transformers, ActivationCode::Megatron, ActivationCode::Torchtitan];

/// What the layers keep for the backward pass, compared with dense layers of the same dimensions. Bytes per
/// token, with activations of 2 bytes, on one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerActivations {
    /// Norms of the hidden width in a layer.
    pub norms: f64,
    /// Share of the layers that compute attention.
    pub attention: f64,
    /// Bytes that exist on the ranks of the chosen experts, a mean over the layers.
    pub routed: f64,
    /// Bytes of the inputs of products in addition to those of a dense layer, a mean over the layers.
    pub inputs: f64,
    by_code: [CodeActivations; 3],
}

/// The part that depends on the code.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CodeActivations {
    /// Bytes that a layer keeps in addition to a dense one, a mean over the layers; negative if it keeps
    /// less.
    pub beyond: f64,
    /// Bytes that the largest layer keeps in addition to the mean.
    pub largest: f64,
}

impl LayerActivations {
    /// Returns the activations of an architecture whose dense layers would have a feed-forward width of `ffn`
    /// for all chosen experts together; `None` if its layers are dense and equal.
    pub fn from_architecture(a: &Architecture, ffn: f64) -> Option<Self> {
        let dense = |kind: &LayerKind| kind.parts.iter().all(|part| DENSE_PARTS.contains(part));
        let attention = dense_attention(a, ActivationCode::Transformers);
        let plain = a.layer_kinds.iter().all(|kind| {
            let parts = parts_of(kind, ActivationCode::Transformers);
            dense(kind) && parts.into_iter().all(|(part, bytes)| part != "gqa" || bytes == attention)
        });
        let layers = a.layer_kinds.iter().map(|kind| kind.count).sum::<u64>().max(1) as f64;
        let mean = |of: &dyn Fn(&LayerKind) -> f64| {
            a.layer_kinds.iter().map(|kind| kind.count as f64 * of(kind)).sum::<f64>() / layers
        };
        let hidden = (a.hidden as f64).max(1.0);
        let norms = mean(&|kind| norms_of(kind, |norms| norms.megatron)) / (2.0 * hidden);
        if plain && (a.parallel || norms <= 2.0) {
            return None;
        }
        let sums = mean(&|kind| kind.saved.iter().map(|part| part.log_sum_exp as f64).sum());
        let routed = mean(&|kind| kind.saved.iter().map(|part| part.routed as f64).sum());
        let inputs = mean(&|kind| kind.saved.iter().map(|part| part.inputs as f64).sum());
        // Norms that scale by 1 + w in 32 bit keep that product too.
        let usual = norms * (6.0 * hidden + 4.0);
        let wide = if a.norm == Norm::RmsNorm {
            (mean(&|kind| norms_of(kind, |norms| norms.transformers)) - usual).max(0.0)
        } else {
            0.0
        };
        Some(Self {
            norms,
            attention: if a.heads > 0 { (sums / (4.0 * a.heads as f64)).min(1.0) } else { 0.0 },
            routed,
            inputs: inputs - 2.0 * (a.attention_width() as f64 + ffn),
            by_code: CODES.map(|code| {
                let bytes =
                    |kind: &LayerKind| parts_of(kind, code).iter().map(|(_, bytes)| bytes).sum::<f64>();
                let own = mean(&bytes);
                let dense = dense_attention(a, code) + dense_feed_forward(a, code, ffn);
                CodeActivations {
                    beyond: own - dense + if code == ActivationCode::Transformers { wide } else { 0.0 },
                    largest: (a.layer_kinds.iter().map(bytes).fold(0.0, f64::max) - own).max(0.0),
                }
            }),
        })
    }

    /// Returns the part of a code: engines of which no table exists keep what the eager modules of
    /// transformers keep.
    pub fn of(&self, code: Code) -> CodeActivations {
        let [transformers, megatron, torchtitan] = self.by_code;
        match code {
            Code::Torchtitan => torchtitan,
            Code::Nanotron => megatron,
            code if code.is_megatron() => megatron,
            _ => transformers,
        }
    }
}

/// Returns bytes of the norms of a layer, all of the hidden width.
fn norms_of(kind: &LayerKind, bytes: fn(&SavedPart) -> Option<u64>) -> f64 {
    let norms = kind.saved.iter().find(|part| part.part == "norms");
    norms.and_then(bytes).map_or(0.0, |bytes| bytes as f64)
}

/// Returns the bytes of each part of a layer except its norms. Where the code was not measured, those of
/// transformers; where that was not either, the inputs and outputs of the matrices.
fn parts_of(kind: &LayerKind, code: ActivationCode) -> Vec<(&'static str, f64)> {
    let own = kind.activations(code, FlopsRecompute::None, false);
    let eager = kind.activations(ActivationCode::Transformers, FlopsRecompute::None, false);
    let fused = |part: &str| {
        // torchtitan's attention always has a log-sum-exp, which is counted with attention.
        let saved = kind.saved.iter().find(|saved| saved.part == part);
        if code == ActivationCode::Torchtitan { saved.map_or(0, |saved| saved.log_sum_exp) } else { 0 }
    };
    own.iter()
        .zip(&eager)
        .filter(|(part, _)| part.part != "norms")
        .map(|(part, eager)| {
            let known = part.per_token.map(|bytes| bytes.saturating_sub(fused(part.part)));
            (part.part, known.or(eager.per_token).unwrap_or(part.matrices) as f64)
        })
        .collect()
}

/// Returns the bytes of attention with grouped heads, without norms of queries and keys: `gqa` of trainc-ir's
/// `parts.toml`.
fn dense_attention(a: &Architecture, code: ActivationCode) -> f64 {
    let (query, key) = (a.attention_width() as f64, a.kv_width() as f64);
    let masks =
        if a.family.has_dropout() && code == ActivationCode::Megatron { a.hidden as f64 } else { 0.0 };
    2.0 * a.hidden as f64 + 4.0 * query + 4.0 * key + masks
}

/// Returns the bytes of a feed-forward layer: `mlp` of the same table, but with the activated gate, which the
/// formulas of `memory/activations.rs` count for every code and Megatron's fused kernel does not keep.
fn dense_feed_forward(a: &Architecture, code: ActivationCode, ffn: f64) -> f64 {
    let per_channel = match (code, a.gated) {
        (_, true) => 8.0,
        (ActivationCode::Transformers, false) if a.activation == Activation::GeluTanh => 10.0,
        (_, false) => 4.0,
    };
    let masks =
        if a.family.has_dropout() && code == ActivationCode::Megatron { a.hidden as f64 } else { 0.0 };
    2.0 * a.hidden as f64 + per_channel * ffn + masks
}
