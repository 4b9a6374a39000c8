//! What is written about an architecture, what is filled in, and what is refused.

use super::kinds::Activation;

/// What somebody wrote; everything may be missing. Field names are the manifest's, with dashes.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Dimensions {
    /// Channels of the residual stream.
    pub hidden: Option<u64>,
    /// Layers; of T5's encoder.
    pub layers: Option<u64>,
    /// Layers of T5's decoder.
    pub decoder_layers: Option<u64>,
    /// Query heads.
    pub heads: Option<u64>,
    /// Key and value heads.
    pub kv_heads: Option<u64>,
    /// Channels of one head.
    pub head_dim: Option<u64>,
    /// Channels inside the feed-forward part.
    pub ffn: Option<u64>,
    /// Rows of the token embedding.
    pub vocab: Option<u64>,
    /// Longest sequence, in tokens.
    pub positions: Option<u64>,
    /// Experts per layer.
    pub experts: Option<u64>,
    /// Experts that see a token.
    pub active_experts: Option<u64>,
    /// Output head shares the token embedding.
    pub tied: Option<bool>,
    /// Channels of the token embedding (OPT).
    pub word_embedding: Option<u64>,
    /// Token types (BERT, RoBERTa).
    pub types: Option<u64>,
    /// Buckets of relative distance (T5).
    pub buckets: Option<u64>,
    /// Base of the rotary frequencies.
    pub rope_theta: Option<u64>,
    /// Non-linearity.
    pub activation: Option<Activation>,
    /// Three feed-forward matrices (T5 1.1).
    pub gated: Option<bool>,
    /// Biases on query, key and value (Llama, StableLM, Qwen 3).
    pub qkv_bias: Option<bool>,
    /// Bias on the attention output (Llama, Qwen 3, GPT-NeoX).
    pub out_bias: Option<bool>,
    /// Biases on the feed-forward matrices (Llama).
    pub mlp_bias: Option<bool>,
    /// Attention and feed-forward side by side (Falcon, StableLM).
    pub parallel: Option<bool>,
    /// Norms in one layer (Falcon: 1 or 2; StableLM: 1 or 2).
    pub layer_norms: Option<u64>,
    /// Norm above the stack (OPT).
    pub final_norm: Option<bool>,
    /// Distance biases instead of rotation (Falcon).
    pub alibi: Option<bool>,
}

/// A value that nobody wrote, and the rule that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaulted {
    /// Which dimension, as manifests name it.
    pub field: &'static str,
    /// Its value, as a manifest would write it.
    pub value: String,
    /// Why: a lowercase fragment.
    pub rule: &'static str,
}

/// A dimension that is missing or cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchitectureProblem {
    /// Needed, and no rule gives it.
    #[error("`{key}` is missing; expected {expected}")]
    Missing {
        /// As the source names it: `kv-heads` in a manifest, `num_key_value_heads` in a config.
        key: String,
        /// What belongs there.
        expected: String,
    },
    /// Written, but it cannot be used.
    #[error("`{key}` is {found}; expected {expected}")]
    Unusable {
        /// As the source names it.
        key: String,
        /// What stands there.
        found: String,
        /// What belongs there.
        expected: String,
    },
    /// A number that should divide another, and does not.
    #[error("`{key}` is {found}; expected a divisor of `{of}`, {whole}")]
    Indivisible {
        /// As the source names it.
        key: String,
        /// The number that stands there.
        found: u64,
        /// The dimension that it should divide.
        of: &'static str,
        /// That dimension.
        whole: u64,
    },
}

impl ArchitectureProblem {
    /// The dimension or config key.
    pub fn key(&self) -> &str {
        match self {
            Self::Missing { key, .. } | Self::Unusable { key, .. } | Self::Indivisible { key, .. } => key,
        }
    }
}
