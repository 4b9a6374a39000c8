//! Dimensions of an architecture as written, defaults, and problems.

use super::kinds::Activation;

/// Dimensions as written, all optional. Field names are those of the manifest, with dashes.
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

/// A dimension set by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaulted {
    /// The name of the dimension in manifests.
    pub field: &'static str,
    /// Its value in manifest syntax.
    pub value: String,
    /// The rule, a lowercase fragment.
    pub rule: &'static str,
}

/// A missing or invalid dimension.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchitectureProblem {
    /// Required, without a default.
    #[error("`{key}` is missing; expected {expected}")]
    Missing {
        /// The name in the source: `kv-heads` in a manifest, `num_key_value_heads` in a config.
        key: String,
        /// The expected value.
        expected: String,
    },
    /// Invalid value.
    #[error("`{key}` is {found}; expected {expected}")]
    Unusable {
        /// The name in the source.
        key: String,
        /// The value.
        found: String,
        /// The expected value.
        expected: String,
    },
    /// A field whose meaning is not known, and which could change the count.
    #[error(
        "`{key}` is {found}, which is not known for this model type and could change the number of parameters"
    )]
    Unknown {
        /// The name in the source.
        key: String,
        /// The value.
        found: String,
    },
    /// A number that does not divide another.
    #[error("`{key}` is {found}; expected a divisor of `{of}`, {whole}")]
    Indivisible {
        /// The name in the source.
        key: String,
        /// The number.
        found: u64,
        /// The name of the dimension that it must divide.
        of: &'static str,
        /// The value of that dimension.
        whole: u64,
    },
}

impl ArchitectureProblem {
    /// Returns the dimension or config key.
    pub fn key(&self) -> &str {
        match self {
            Self::Missing { key, .. }
            | Self::Unusable { key, .. }
            | Self::Unknown { key, .. }
            | Self::Indivisible { key, .. } => key,
        }
    }
}
