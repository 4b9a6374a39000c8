//! Model architectures: exact parameter counts, matrices and FLOPs from dimensions.
//!
//! Input: dimensions ([`Architecture::from_dimensions`]) or a Hugging Face config
//! ([`Architecture::from_hf_config`]). Output: plain data and figures derived from one list of modules
//! ([`Architecture::modules`]), so that counts, LoRA and FLOPs cannot disagree. Independent of manifests,
//! catalogue and files. Which parts a model type has, and the modules of a part, are data (`data/`).

mod activations;
mod builder;
mod config;
mod defaults;
mod details;
mod dimensions;
mod expression;
mod family;
mod fields;
mod flops;
mod kinds;
mod modules;
mod output_heads;
mod parameters;
mod parts;
mod spec;
mod uncounted_parts;

pub use activations::{ActivationCode, PartActivations, SavedPart};
pub use config::parse_hf_config;
pub use details::{Details, RopeScaling, ScalingKind};
pub use dimensions::{ArchitectureProblem, Defaulted, Dimensions};
pub use family::Family;
pub use flops::{Convention, FlopsRecompute, ForwardFlops};
pub use kinds::{Activation, Class, Norm, Positions};
pub use modules::{Core, LayerKind, LinearModule, Module, ModulePlace, ModuleRole, Tower};
pub use parameters::{LoraProblem, ParameterCount};
pub use parts::ModelPart;
pub use uncounted_parts::UncountedPart;

/// A complete model architecture.
///
/// All figures are counts (channels, layers, heads, tokens), never bytes. [`Architecture::from_dimensions`]
/// and [`Architecture::from_hf_config`] create it and reject invalid values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// The model type of the text model, which determines the formulas.
    pub family: Family,
    /// The model type around it, of models with towers; it determines the classes.
    pub container: Option<Family>,
    /// The `model_type` of config.json that is not in the table: the formulas are assumed from its fields.
    pub unknown_type: Option<String>,
    /// `h`: channels of the residual stream.
    pub hidden: u64,
    /// `L`: layers of the stack; of the encoder for T5.
    pub layers: u64,
    /// Layers of the second stack: T5's decoder, else 0.
    pub decoder_layers: u64,
    /// `a`: query heads.
    pub heads: u64,
    /// `k`: key and value heads; equal to `heads` without grouping.
    pub kv_heads: u64,
    /// `d`: channels of one head (`d_kv` of T5).
    pub head_dim: u64,
    /// `f`: intermediate channels of the (dense) feed-forward layer.
    pub ffn: u64,
    /// Intermediate channels of one expert; 0 for a dense model.
    pub expert_ffn: u64,
    /// `V`: rows of the token embedding.
    pub vocab: u64,
    /// `P`: the longest sequence of the configuration, in tokens; for RoBERTa the rows of its table (two
    /// more).
    pub positions: u64,
    /// Experts per layer; 0 for a dense model.
    pub experts: u64,
    /// Experts that see a token; 0 for a dense model.
    pub active_experts: u64,
    /// The output head shares the token embedding's weight.
    pub tied: bool,
    /// Channels of the token embedding: equal to `hidden` except in opt-350m.
    pub word_embedding: u64,
    /// Token types (BERT, RoBERTa), else 0.
    pub types: u64,
    /// Buckets of relative distance (T5), else 0.
    pub buckets: u64,
    /// Base of the rotary frequencies; 0 where positions are not rotary.
    pub rope_theta: u64,
    /// The position encoding.
    pub position_kind: Positions,
    /// The activation function.
    pub activation: Activation,
    /// The normalisation.
    pub norm: Norm,
    /// Three feed-forward matrices instead of two.
    pub gated: bool,
    /// Query, key and value have biases.
    pub qkv_bias: bool,
    /// The attention output has a bias.
    pub out_bias: bool,
    /// The feed-forward matrices have biases.
    pub mlp_bias: bool,
    /// Attention and feed-forward layer process the same input in parallel.
    pub parallel: bool,
    /// Norms of the hidden width in one layer (of the encoder for T5).
    pub layer_norms: u64,
    /// There is a norm above the stack (opt-350m and the encoders that normalise after have none).
    pub final_norm: bool,
    /// The output head has a bias.
    pub head_bias: bool,
    /// Biases of the output of masked-token prediction: 1, or 2 where an untied head has one of its own.
    pub masked_biases: u64,
    /// Modules before the layers.
    pub embedding: Vec<Module>,
    /// The layers, equal ones together.
    pub layer_kinds: Vec<LayerKind>,
    /// Modules after the layers.
    pub last: Vec<Module>,
    /// Vision and audio towers.
    pub towers: Vec<Tower>,
    /// What files of the model hold in addition to the class.
    pub uncounted: Vec<UncountedPart>,
}

impl Architecture {
    /// Returns the default class: that of the model type, of the whole model where it has towers.
    pub fn default_class(&self) -> Class {
        self.container.unwrap_or(self.family).default_class()
    }

    /// Returns the Hugging Face class name; `None` where transformers has no such class.
    pub fn class_name(&self, class: Class) -> Option<String> {
        self.container.unwrap_or(self.family).class_name(class)
    }

    /// Returns the maximum sequence length of the position table, in tokens; `None` without such a table.
    pub fn sequence_limit(&self) -> Option<u64> {
        match self.position_kind {
            Positions::Learned => Some(self.positions.saturating_sub(self.family.spec().unused_positions)),
            Positions::Rotary | Positions::Alibi | Positions::Relative => None,
        }
    }

    /// Returns the channels of all query heads together, `a*d`.
    pub fn attention_width(&self) -> u64 {
        self.heads.saturating_mul(self.head_dim)
    }

    /// Returns the channels of all key heads together, `k*d`; the value heads have as many.
    pub fn kv_width(&self) -> u64 {
        self.kv_heads.saturating_mul(self.head_dim)
    }
}

#[cfg(test)]
mod tests;
