//! Bytes that are kept for the backward pass, by part of a layer, code and recomputation.
//!
//! Formulas and sources: `data/parts.toml`.

use super::flops::FlopsRecompute;
use super::modules::LayerKind;

/// The code that runs the layers, which decides what autograd keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationCode {
    /// The eager modules of transformers.
    Transformers,
    /// Megatron-LM, with its fused bias, activation and dropout.
    Megatron,
    /// torchtitan.
    Torchtitan,
}

/// What a part of a layer keeps, in bytes with activations of 2 bytes, on one rank, without recomputation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedPart {
    /// The part, as `data/parts.toml` names it.
    pub part: &'static str,
    /// Bytes per token of the code of transformers, without scores; `None` if it was not measured.
    pub transformers: Option<u64>,
    /// Bytes per token of Megatron-LM.
    pub megatron: Option<u64>,
    /// Bytes per token of torchtitan.
    pub torchtitan: Option<u64>,
    /// Bytes per token of torchtitan with selective recomputation.
    pub torchtitan_selective: Option<u64>,
    /// Bytes per token and key of transformers' attention that is not fused: softmax, and with dropout its
    /// mask and result.
    pub scores: u64,
    /// Bytes per token and key of Megatron-LM's attention that is not fused.
    pub megatron_scores: u64,
    /// Bytes per token of fused attention's log-sum-exp.
    pub log_sum_exp: u64,
    /// Bytes per token that exist on the ranks of the chosen experts, whatever the code: a lower bound.
    pub routed: u64,
    /// Bytes per token of the inputs of products in the part, without that of the part itself.
    pub inputs: u64,
    /// Bytes per token of the inputs and outputs of the part's matrices: an estimate for parts that were not
    /// measured.
    pub matrices: u64,
}

/// What a part of a layer keeps for one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartActivations {
    /// The part, as `data/parts.toml` names it, or `input`.
    pub part: &'static str,
    /// Bytes per token, whatever the length of the sequence; `None` if it was not measured.
    pub per_token: Option<u64>,
    /// Bytes per token and key, in addition.
    pub per_token_and_key: u64,
    /// Bytes per token of the inputs and outputs of the part's matrices: an estimate for parts that were not
    /// measured.
    pub matrices: u64,
}

impl PartActivations {
    /// Returns the bytes per token of a sequence in which each token sees `keys` keys; `None` if it was not
    /// measured.
    pub fn bytes_per_token(&self, keys: u64) -> Option<u64> {
        Some(self.per_token?.saturating_add(self.per_token_and_key.saturating_mul(keys)))
    }
}

impl LayerKind {
    /// Returns the bytes that one layer of this kind keeps for the backward pass, by part; activations of 2
    /// bytes, one rank without tensor or context parallelism.
    ///
    /// `fused` tells whether attention keeps the log-sum-exp instead of the matrices of tokens by keys, as
    /// torchtitan's always does. Selective recomputation of transformers and Megatron-LM recomputes these
    /// matrices; that of torchtitan keeps the layer's input and every other matrix product. Full
    /// recomputation keeps the layer's input; during its backward pass, one layer keeps in addition what it
    /// keeps without recomputation.
    ///
    /// Korthikanti et al. 2022 (arXiv 2205.05198), sections 4.1 and 5: 34 h + 5 a s, and 34 h with selective
    /// recomputation, for a layer with dropout, as many key as query heads and a feed-forward width of 4 h.
    pub fn activations(
        &self,
        code: ActivationCode,
        recompute: FlopsRecompute,
        fused: bool,
    ) -> Vec<PartActivations> {
        let input = PartActivations {
            part: "input",
            per_token: Some(self.input_bytes),
            per_token_and_key: 0,
            matrices: 0,
        };
        if recompute == FlopsRecompute::Full {
            return vec![input];
        }
        let selective = recompute == FlopsRecompute::Selective;
        let parts = self.saved.iter().map(|saved| {
            let (bytes, scores) = match code {
                ActivationCode::Transformers => (saved.transformers, saved.scores),
                ActivationCode::Megatron => (saved.megatron, saved.megatron_scores),
                ActivationCode::Torchtitan if selective => (saved.torchtitan_selective, 0),
                ActivationCode::Torchtitan => (saved.torchtitan, 0),
            };
            let fused = fused || code == ActivationCode::Torchtitan;
            PartActivations {
                part: saved.part,
                per_token: bytes.map(|bytes| bytes.saturating_add(if fused { saved.log_sum_exp } else { 0 })),
                per_token_and_key: if fused || selective { 0 } else { scores },
                matrices: saved.matrices,
            }
        });
        let kept = (selective && code == ActivationCode::Torchtitan).then_some(input);
        kept.into_iter().chain(parts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::{Architecture, Family};
    use serde_json::json;

    /// Returns the sum over the parts of the first kind of layer, per token and per token and key.
    fn sum(a: &Architecture, code: ActivationCode, recompute: FlopsRecompute, fused: bool) -> (u64, u64) {
        let parts = a.layer_kinds[0].activations(code, recompute, fused);
        let keys = parts.iter().map(|part| part.per_token_and_key).sum();
        (parts.iter().map(|part| part.per_token.unwrap()).sum(), keys)
    }

    fn read(config: &serde_json::Value) -> Architecture {
        Architecture::from_hf_config(config).unwrap()
    }

    #[test]
    fn megatron_keeps_what_korthikanti_derived() {
        let gpt2 = read(&json!({"model_type": "gpt2", "n_embd": 512, "n_layer": 2, "n_head": 8}));
        let megatron = |recompute, fused| sum(&gpt2, ActivationCode::Megatron, recompute, fused);
        assert_eq!(megatron(FlopsRecompute::None, false), (34 * 512, 5 * 8));
        assert_eq!(megatron(FlopsRecompute::Selective, false), (34 * 512, 0));
        assert_eq!(megatron(FlopsRecompute::Full, false), (2 * 512, 0));
        assert_eq!(megatron(FlopsRecompute::None, true), (34 * 512 + 4 * 8, 0));
        let attention =
            gpt2.layer_kinds[0].activations(ActivationCode::Megatron, FlopsRecompute::None, false);
        assert_eq!(attention[0].part, "gqa");
        // 11 s b h + 5 a s^2 b.
        assert_eq!(attention[0].bytes_per_token(1_024), Some(11 * 512 + 5 * 8 * 1_024));
    }

    /// Saved tensors of layers of transformers in bf16 (`tests/python/saved_tensors.py`, 256 tokens a
    /// sequence).
    #[test]
    fn transformers_keeps_what_autograd_saved() {
        let llama = |kv_heads: u64, ffn: u64| {
            read(
                &json!({"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 8,
                "num_key_value_heads": kv_heads, "intermediate_size": ffn}),
            )
        };
        let gpt2 = read(&json!({"model_type": "gpt2", "n_embd": 256, "n_layer": 1, "n_head": 8}));
        for (model, fused, measured) in
            [(llama(8, 688), true, 11_688), (llama(4, 896), true, 12_840), (llama(8, 688), false, 23_944)]
        {
            let (bytes, keys) = sum(&model, ActivationCode::Transformers, FlopsRecompute::None, fused);
            assert_eq!(bytes + 256 * keys, measured);
        }
        // GPT-2 was measured without dropout, whose mask and result have 3 bytes per head, token and key.
        // Statistics of norms have 2 bytes on a CPU and 4 on a GPU.
        for (fused, measured) in [(true, 14_376), (false, 18_440)] {
            let (bytes, keys) = sum(&gpt2, ActivationCode::Transformers, FlopsRecompute::None, fused);
            let keys = keys.saturating_sub(if fused { 0 } else { 3 * 8 });
            assert_eq!(bytes + 256 * keys, measured + 2 * 2 * 2);
        }
    }

    #[test]
    fn experts_and_latent_heads() {
        let qwen3 = read(
            &json!({"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 2, "num_attention_heads": 32,
            "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
            "moe_intermediate_size": 768}),
        );
        let parts =
            qwen3.layer_kinds[0].activations(ActivationCode::Transformers, FlopsRecompute::None, true);
        let bytes = |name: &str| parts.iter().find(|part| part.part == name).unwrap().per_token.unwrap();
        // 50 kB of attention, 28 kB of them norms of queries and keys in fp32, and 8 (4 h + 8 i) of experts.
        assert_eq!(bytes("gqa"), 4_096 + 18_432 + 36 * (6 * 128 + 4) + 128);
        assert_eq!(bytes("moe"), 114_688 + 4_096 + 4 * 128 + 8 * 8 + 8 * 26);
        let deepseek =
            read(&json!({"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 4,
            "num_attention_heads": 128}));
        let parts = deepseek.layer_kinds[0].activations(ActivationCode::Megatron, FlopsRecompute::None, true);
        // Queries and keys of 192 channels, values and output of 128.
        assert_eq!(parts[0].per_token, Some(2 * 7_168 + 4 * (1_536 + 512) + 2 * 128 * 640 + 4 * 128));
    }

    #[test]
    fn torchtitan_keeps_every_other_product() {
        let llama = read(
            &json!({"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 8,
            "intermediate_size": 688}),
        );
        let (bytes, keys) = sum(&llama, ActivationCode::Torchtitan, FlopsRecompute::Selective, false);
        // Input, query, value and output of attention, log-sum-exp, first and last product of the
        // feed-forward layer.
        assert_eq!((bytes, keys), (4 * 512 + 4 * 8 + 2 * 688 + 512, 0));
        let (all, _) = sum(&llama, ActivationCode::Torchtitan, FlopsRecompute::None, true);
        assert_eq!(all, 2 * (2 * 256 + 4) + 5 * 512 + 4 * 8 + 512 + 8 * 688);
    }

    #[test]
    fn parts_that_were_not_measured_are_none() {
        let mamba = read(
            &json!({"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128}),
        );
        let parts = mamba.layer_kinds[0].activations(ActivationCode::Megatron, FlopsRecompute::None, true);
        assert_eq!((parts[0].part, parts[0].per_token), ("mamba1", None));
        assert!(!Family::from_model_type("mamba").unwrap().has_dropout());
    }
}
