//! Model families: names and common properties.

use super::kinds::{Activation, Class, Norm, Positions};

/// A model family: one Hugging Face modelling file and one formula for the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// GPT-2.
    Gpt2,
    /// GPT-Neo.
    GptNeo,
    /// GPT-J.
    GptJ,
    /// GPT-NeoX, Pythia.
    GptNeoX,
    /// GPT-BigCode: StarCoder, SantaCoder.
    GptBigCode,
    /// Llama 1 to 3, Code Llama, Vicuna, TinyLlama.
    Llama,
    /// Mistral.
    Mistral,
    /// Mixtral: Mistral with experts.
    Mixtral,
    /// Qwen 1.5 to 2.5, dense.
    Qwen2,
    /// Qwen 3, dense.
    Qwen3,
    /// Gemma 1.
    Gemma,
    /// Gemma 2.
    Gemma2,
    /// Phi 1, 1.5 and 2.
    Phi,
    /// Phi 3 and 4.
    Phi3,
    /// StableLM 3B and 2.
    StableLm,
    /// Falcon: old (7B) and new (40B) decoder.
    Falcon,
    /// OPT.
    Opt,
    /// BLOOM.
    Bloom,
    /// MPT.
    Mpt,
    /// BERT.
    Bert,
    /// RoBERTa.
    Roberta,
    /// DistilBERT.
    DistilBert,
    /// T5 1.0, 1.1 and Flan-T5.
    T5,
}

/// Module paths within a layer and outside the layers.
#[derive(Debug)]
pub(super) struct ModuleNames {
    /// Token embedding.
    pub(super) tokens: &'static str,
    /// Position embedding; empty where there is none.
    pub(super) positions: &'static str,
    /// One fused matrix, or query, key and value.
    pub(super) qkv: &'static [&'static str],
    /// Attention output.
    pub(super) out: &'static str,
    /// Up and down; or gate, up and down; or gate and up fused, and down.
    pub(super) mlp: &'static [&'static str],
    /// The norms of one layer, all over the hidden width.
    pub(super) norms: &'static [&'static str],
    /// The norm above the stack; empty where there is none.
    pub(super) final_norm: &'static str,
    /// The language-model head.
    pub(super) head: &'static str,
}

/// The default of the feed-forward width.
#[derive(Clone, Copy, Debug)]
pub(super) enum DefaultFfn {
    /// A multiple of the hidden width.
    Times(u64),
    /// 3.5 times the hidden width (Mistral).
    ThreeAndHalf,
    /// Two thirds of four times the hidden width, rounded up to a multiple of 256 (Llama's own code).
    TwoThirds,
    /// No rule applies to all sizes: it must be written.
    Written,
}

/// Fixed properties of a family and the defaults of its configuration class.
#[derive(Debug)]
pub(super) struct FamilySpec {
    /// Name in manifests.
    pub(super) name: &'static str,
    /// `model_type` in config.json.
    pub(super) model_type: &'static str,
    /// Prefix of its class names: `GPT2`, `Llama`.
    pub(super) prefix: &'static str,
    /// The class that is wrapped, checkpointed and counted as one layer.
    pub(super) layer: &'static str,
    /// The default class.
    pub(super) class: Class,
    pub(super) norm: Norm,
    pub(super) activation: Activation,
    pub(super) positions: Positions,
    /// Three matrices in the feed-forward part instead of two.
    pub(super) gated: bool,
    /// Biases on query, key and value; on the attention output; on the feed-forward matrices.
    pub(super) biases: [bool; 3],
    pub(super) head_bias: bool,
    pub(super) tied: bool,
    /// Attention and feed-forward read the same input and are added together.
    pub(super) parallel: bool,
    /// Dropout above zero in the default configuration.
    pub(super) dropout: bool,
    /// `vocab_size` and `max_position_embeddings` of the default configuration.
    pub(super) vocab: u64,
    pub(super) max_positions: u64,
    /// Default of the feed-forward width.
    pub(super) ffn: DefaultFfn,
    /// Head width of the default configuration where it is not `hidden / heads`, otherwise 0.
    pub(super) head_dim: u64,
    /// Dimensions that vary within the family; all others are fixed.
    pub(super) free: &'static [&'static str],
    pub(super) names: ModuleNames,
}

impl Family {
    /// All families, in the order of the manifest reference.
    pub const ALL: [Self; 23] = [
        Self::Gpt2,
        Self::GptNeo,
        Self::GptJ,
        Self::GptNeoX,
        Self::GptBigCode,
        Self::Llama,
        Self::Mistral,
        Self::Mixtral,
        Self::Qwen2,
        Self::Qwen3,
        Self::Gemma,
        Self::Gemma2,
        Self::Phi,
        Self::Phi3,
        Self::StableLm,
        Self::Falcon,
        Self::Opt,
        Self::Bloom,
        Self::Mpt,
        Self::Bert,
        Self::Roberta,
        Self::DistilBert,
        Self::T5,
    ];

    /// Returns the name in manifests: `gpt2`, `gpt-neox`, `llama`.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Returns all names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().map(Self::name)
    }

    /// Parses a manifest name or a `model_type`, with either separator (`gpt_neox`, `gpt-neox`).
    pub fn from_name(name: &str) -> Option<Self> {
        let plain = name.to_ascii_lowercase().replace('_', "-");
        Self::ALL.into_iter().find(|family| {
            let spec = family.spec();
            spec.name == plain || spec.model_type.replace('_', "-") == plain
        })
    }

    /// Returns the `model_type` of the Hugging Face config: `gpt_neox`.
    pub fn model_type(self) -> &'static str {
        self.spec().model_type
    }

    /// Returns the Hugging Face class of one layer, for FSDP's wrap policy and activation checkpointing.
    pub fn wrap_class(self) -> &'static str {
        self.spec().layer
    }

    /// Returns the default class: the language model for decoders, the bare model for encoders, text to text for T5.
    pub fn default_class(self) -> Class {
        self.spec().class
    }

    /// Returns whether attention is causal (for T5: in its decoder).
    pub fn is_causal(self) -> bool {
        !matches!(self, Self::Bert | Self::Roberta | Self::DistilBert)
    }

    /// Returns whether the default configuration trains with dropout, whose masks are kept for the backward pass.
    pub fn has_dropout(self) -> bool {
        self.spec().dropout
    }

    /// Returns the Hugging Face class name; `None` where transformers has no such class (5.x, checked by
    /// `tests/python/verify_models.py`).
    pub fn class_name(self, class: Class) -> Option<String> {
        let prefix = self.spec().prefix;
        let suffix = match class {
            Class::Base => "Model",
            Class::CausalLm => match self {
                Self::Gpt2 => "LMHeadModel",
                Self::Bert | Self::Roberta | Self::DistilBert | Self::T5 => return None,
                Self::GptNeo
                | Self::GptJ
                | Self::GptNeoX
                | Self::GptBigCode
                | Self::Llama
                | Self::Mistral
                | Self::Mixtral
                | Self::Qwen2
                | Self::Qwen3
                | Self::Gemma
                | Self::Gemma2
                | Self::Phi
                | Self::Phi3
                | Self::StableLm
                | Self::Falcon
                | Self::Opt
                | Self::Bloom
                | Self::Mpt => "ForCausalLM",
            },
            Class::MaskedLm if matches!(self, Self::Bert | Self::Roberta | Self::DistilBert) => "ForMaskedLM",
            Class::ConditionalGeneration if self == Self::T5 => "ForConditionalGeneration",
            Class::MaskedLm | Class::ConditionalGeneration => return None,
            Class::SequenceClassification { .. } => "ForSequenceClassification",
            Class::QuestionAnswering => match self {
                Self::GptBigCode | Self::Gemma | Self::Gemma2 | Self::Phi | Self::Phi3 | Self::StableLm => {
                    return None;
                }
                Self::Gpt2
                | Self::GptNeo
                | Self::GptJ
                | Self::GptNeoX
                | Self::Llama
                | Self::Mistral
                | Self::Mixtral
                | Self::Qwen2
                | Self::Qwen3
                | Self::Falcon
                | Self::Opt
                | Self::Bloom
                | Self::Mpt
                | Self::Bert
                | Self::Roberta
                | Self::DistilBert
                | Self::T5 => "ForQuestionAnswering",
            },
        };
        Some(format!("{prefix}{suffix}"))
    }

    /// Parses an entry of `architectures` of config.json; a classifier gets two labels by default.
    pub fn class_from_name(self, class_name: &str) -> Option<Class> {
        Class::NAMES
            .into_iter()
            .filter_map(Class::from_name)
            .find(|&class| self.class_name(class).as_deref() == Some(class_name))
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
