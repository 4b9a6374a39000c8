//! The families of models: their names, and what all members of one have in common.

use super::kinds::{Activation, Class, Norm, Positions};

/// A family: one Hugging Face modelling file, thus one formula for the parameters.
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

/// ModuleNames of the modules of one layer, as paths below it, and of the parts around the stack.
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

/// The feed-forward width where none is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum DefaultFfn {
    /// A multiple of the hidden width.
    Times(u64),
    /// 3.5 times the hidden width (Mistral).
    ThreeAndHalf,
    /// Two thirds of four times the hidden width, rounded up to a multiple of 256 (Llama's own code).
    TwoThirds,
    /// No rule holds across the sizes: it must be written.
    Written,
}

/// What a family fixes, and the defaults of its configuration class.
#[derive(Debug)]
pub(super) struct FamilySpec {
    /// As manifests write it.
    pub(super) name: &'static str,
    /// As `model_type` of config.json writes it.
    pub(super) model_type: &'static str,
    /// What its class names begin with: `GPT2`, `Llama`.
    pub(super) prefix: &'static str,
    /// The class that is wrapped, checkpointed and counted as one layer.
    pub(super) layer: &'static str,
    /// Class used when nobody says which.
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
    /// Where the feed-forward width comes from when it is not written.
    pub(super) ffn: DefaultFfn,
    /// Head width of the default configuration where it does not follow `hidden / heads`, else 0.
    pub(super) head_dim: u64,
    /// Dimensions that members of the family set for themselves; all others are as this row says.
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

    /// The name that manifests use: `gpt2`, `gpt-neox`, `llama`.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// All names, for a did-you-mean.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().map(Self::name)
    }

    /// Reads a manifest name or a `model_type`, in either spelling of the separators (`gpt_neox`, `gpt-neox`).
    pub fn from_name(name: &str) -> Option<Self> {
        let plain = name.to_ascii_lowercase().replace('_', "-");
        Self::ALL.into_iter().find(|family| {
            let spec = family.spec();
            spec.name == plain || spec.model_type.replace('_', "-") == plain
        })
    }

    /// `model_type` of the Hugging Face config: `gpt_neox`.
    pub fn model_type(self) -> &'static str {
        self.spec().model_type
    }

    /// The Hugging Face class of one layer, for FSDP's wrap policy and activation checkpointing.
    pub fn wrap_class(self) -> &'static str {
        self.spec().layer
    }

    /// The class that is meant when a job does not say which: the language model of decoders, the bare
    /// model of encoders, text to text for T5.
    pub fn default_class(self) -> Class {
        self.spec().class
    }

    /// Whether attention looks only backwards (for T5: in its decoder).
    pub fn causal(self) -> bool {
        !matches!(self, Self::Bert | Self::Roberta | Self::DistilBert)
    }

    /// Whether the default configuration trains with dropout, whose masks are kept for the backward pass.
    pub fn dropout(self) -> bool {
        self.spec().dropout
    }

    /// The Hugging Face class name, or nothing where transformers has no such class (5.x, checked by
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

    /// Reads an entry of `architectures` of config.json; a classifier gets the default two labels.
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
