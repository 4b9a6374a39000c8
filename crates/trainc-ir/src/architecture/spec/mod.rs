//! Specifications of the families: Hugging Face module names, kinds, biases and defaults.
//!
//! Source: the `modeling_*.py` and `configuration_*.py` of transformers 5; `tests/python/verify_models.py` counts every
//! catalogue row with these classes. A specification based on another (`..GPT2`) lists only the differences.

mod encoders;
mod gpt;
mod llama;

use super::family::{Family, FamilySpec};

impl Family {
    /// Returns the specification of this family.
    pub(super) const fn spec(self) -> &'static FamilySpec {
        match self {
            Self::Gpt2 => &gpt::GPT2,
            Self::GptNeo => &gpt::GPT_NEO,
            Self::GptJ => &gpt::GPTJ,
            Self::GptNeoX => &gpt::GPT_NEOX,
            Self::GptBigCode => &gpt::GPT_BIGCODE,
            Self::Llama => &llama::LLAMA,
            Self::Mistral => &llama::MISTRAL,
            Self::Mixtral => &llama::MIXTRAL,
            Self::Qwen2 => &llama::QWEN2,
            Self::Qwen3 => &llama::QWEN3,
            Self::Gemma => &llama::GEMMA,
            Self::Gemma2 => &llama::GEMMA2,
            Self::Phi => &gpt::PHI,
            Self::Phi3 => &llama::PHI3,
            Self::StableLm => &llama::STABLELM,
            Self::Falcon => &gpt::FALCON,
            Self::Opt => &gpt::OPT,
            Self::Bloom => &gpt::BLOOM,
            Self::Mpt => &gpt::MPT,
            Self::Bert => &encoders::BERT,
            Self::Roberta => &encoders::ROBERTA,
            Self::DistilBert => &encoders::DISTILBERT,
            Self::T5 => &encoders::T5,
        }
    }
}
