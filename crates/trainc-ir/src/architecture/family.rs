//! Model types: names, classes and common properties.

use super::kinds::Class;
use super::spec::{Spec, find_named, find_type, model_types, named_types};
use std::sync::LazyLock;

/// A model type: one Hugging Face modelling file, a row of `data/model_types.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Family(&'static str);

/// What a malformed table would have; a test excludes it.
static NO_SPEC: LazyLock<Spec> = LazyLock::new(Spec::default);

impl Family {
    /// GPT-2.
    pub const GPT2: Self = Self("gpt2");
    /// GPT-NeoX, Pythia.
    pub const GPT_NEOX: Self = Self("gpt_neox");
    /// Llama 1 to 3, Code Llama, Vicuna, TinyLlama.
    pub const LLAMA: Self = Self("llama");
    /// Mistral.
    pub const MISTRAL: Self = Self("mistral");
    /// A type that the table lacks, read as a Llama with the parts that its fields name.
    pub(super) const UNKNOWN: Self = Self(super::spec::UNKNOWN);

    /// Returns all model types of the table, in its order.
    pub fn all() -> impl Iterator<Item = Self> {
        model_types().map(Self)
    }

    /// Returns the types whose dimensions a manifest may state.
    pub fn named() -> impl Iterator<Item = Self> {
        named_types().map(|(model_type, _)| Self(model_type))
    }

    /// Returns the names of [`Self::named`].
    pub fn names() -> impl Iterator<Item = &'static str> {
        named_types().map(|(_, name)| name)
    }

    /// Returns the name in manifests (`gpt2`, `gpt-neox`), or the `model_type` of a type without one.
    pub fn name(self) -> &'static str {
        named_types().find(|(model_type, _)| *model_type == self.0).map_or(self.0, |(_, name)| name)
    }

    /// Parses a manifest name or the `model_type` of a type that has one, with either separator (`gpt_neox`,
    /// `gpt-neox`).
    pub fn from_name(name: &str) -> Option<Self> {
        find_named(name).map(Self)
    }

    /// Returns the type with this `model_type`, or of which it is another name.
    pub fn from_model_type(name: &str) -> Option<Self> {
        find_type(name).filter(|found| !found.starts_with("tower/")).map(Self)
    }

    pub(super) fn tower(name: &str) -> Option<Self> {
        find_type(name).map(Self)
    }

    /// Returns the `model_type` of the Hugging Face config: `gpt_neox`.
    pub fn model_type(self) -> &'static str {
        self.0
    }

    /// Returns whether it stands for a type that the table lacks.
    pub fn is_unknown(self) -> bool {
        self == Self::UNKNOWN
    }

    /// Returns the Hugging Face class of one layer, for FSDP's wrap policy and activation checkpointing.
    pub fn wrap_class(self) -> &'static str {
        &self.spec().layer
    }

    /// Returns the default class: the language model for decoders, the bare model for encoders, text to text
    /// for T5.
    pub fn default_class(self) -> Class {
        self.spec().default_class()
    }

    /// Returns whether attention is causal (for T5: in its decoder).
    pub fn is_causal(self) -> bool {
        self.spec().causal
    }

    /// Returns whether the default configuration trains with dropout, whose masks are kept for the backward
    /// pass.
    pub fn has_dropout(self) -> bool {
        self.spec().dropout
    }

    /// Returns whether the model's own code never kept a matrix of attention scores.
    pub fn has_own_attention(self) -> bool {
        self.spec().own_attention
    }

    /// Returns the properties of this type.
    pub(super) fn spec(self) -> &'static Spec {
        Spec::find(self.0).unwrap_or(&NO_SPEC)
    }

    /// Returns the Hugging Face class name; `None` where transformers has no such class (5.x, checked by
    /// `tests/python/count_models.py`).
    pub fn class_name(self, class: Class) -> Option<String> {
        let spec = self.spec();
        if !spec.classes.iter().any(|known| known == class.name()) {
            return None;
        }
        let suffix = match (spec.class_names.get(class.name()), class) {
            (Some(own), _) => own,
            (None, Class::Base) => "Model",
            (None, Class::CausalLm) => "ForCausalLM",
            (None, Class::MaskedLm) => "ForMaskedLM",
            (None, Class::ConditionalGeneration) => "ForConditionalGeneration",
            (None, Class::SequenceClassification { .. }) if spec.no_tokens => "ForImageClassification",
            (None, Class::SequenceClassification { .. }) => "ForSequenceClassification",
            (None, Class::TokenClassification { .. }) => "ForTokenClassification",
            (None, Class::QuestionAnswering) => "ForQuestionAnswering",
        };
        Some(format!("{}{suffix}", spec.prefix))
    }

    /// Parses an entry of `architectures` of config.json; a classifier gets two labels by default.
    pub fn class_from_name(self, class_name: &str) -> Option<Class> {
        let classes = || Class::NAMES.into_iter().filter_map(Class::from_name);
        let exact = classes().find(|&class| self.class_name(class).as_deref() == Some(class_name));
        // A type of another name with the same formulas, such as `ExaoneForCausalLM`: the task decides.
        exact.or_else(|| {
            classes().find(|&class| {
                let name = self.class_name(class).unwrap_or_default();
                name.strip_prefix(self.spec().prefix.as_str())
                    .is_some_and(|suffix| suffix.starts_with("For") && class_name.ends_with(suffix))
            })
        })
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
