//! Exact parameter counts of the model, its parts and LoRA adapters.

use super::Architecture;
use super::kinds::Class;
use super::modules::{LinearModule, ModulePlace, ModuleRole};

/// Parameters of one model with one head. `embedding + layers_total + final_norm + head + towers = total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParameterCount {
    /// All parameters; a tied head is counted once.
    pub total: u64,
    /// Token, position and type tables with their norm; T5's relative biases; OPT-350m's input projection.
    pub embedding: u64,
    /// One layer of the stack (of the encoder for T5), the largest one.
    pub per_layer: u64,
    /// One layer of T5's decoder, else 0.
    pub per_decoder_layer: u64,
    /// All layers of both stacks.
    pub layers_total: u64,
    /// The norms above the stack, and OPT-350m's output projection.
    pub final_norm: u64,
    /// Parameters of the head: 0 if it is tied and has no bias.
    pub head: u64,
    /// Vision and audio towers with their projectors.
    pub towers: u64,
    /// All experts of all layers (without routers), a part of `layers_total`.
    pub expert: u64,
    /// Parameters that process a token: `total` without the inactive experts.
    pub active: u64,
    /// Weights of the matrices inside the layers, which `nf4` and `int8` quantisation stores (bitsandbytes
    /// does not quantise embeddings, norms, biases and the head).
    pub linear: u64,
}

/// The error of a LoRA that does not fit the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoraProblem {
    /// Targets that name no matrix of the model.
    #[error("unknown target modules {unknown:?}; this model has {known:?}")]
    UnknownTargets {
        /// The unknown names as written.
        unknown: Vec<String>,
        /// The valid names, in the order of the forward pass.
        known: Vec<&'static str>,
    },
    /// A rank of zero trains nothing.
    #[error("rank 0 trains nothing; expected at least 1")]
    ZeroRank,
    /// transformers has no such class for the family.
    #[error("the family has no such class")]
    NoSuchClass,
}

/// Saturates a count. The constructors bound all counts; only a hand-written struct can exceed 64 bits.
fn saturate_to_u64(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

impl Architecture {
    /// Returns the parameters with the default head of the family ([`Self::default_class`]).
    pub fn parameters(&self) -> ParameterCount {
        self.parameters_for_class(self.default_class()).unwrap_or_default()
    }

    /// Returns the parameters with this head; `None` where transformers has no such class for the family.
    ///
    /// Sums [`Self::modules`]; equal to `sum(p.numel() for p in model.parameters())` of transformers 5.
    pub fn parameters_for_class(&self, class: Class) -> Option<ParameterCount> {
        let modules = self.modules(class)?;
        let (mut embedding, mut stacked, mut last, mut head, mut towers) =
            (0_u128, 0_u128, 0_u128, 0_u128, 0_u128);
        let (mut expert, mut linear) = (0_u128, 0_u128);
        for module in &modules {
            let all = module.all_parameters();
            let sum = match module.place {
                ModulePlace::Embedding => &mut embedding,
                ModulePlace::Layer | ModulePlace::DecoderLayer => &mut stacked,
                ModulePlace::Final => &mut last,
                ModulePlace::Head => &mut head,
                ModulePlace::Tower => &mut towers,
            };
            *sum = sum.saturating_add(all);
            if module.role == ModuleRole::Expert {
                expert = expert.saturating_add(all);
            }
            if module.role.is_matrix()
                && matches!(module.place, ModulePlace::Layer | ModulePlace::DecoderLayer)
            {
                linear =
                    linear.saturating_add(module.weight_count().saturating_mul(u128::from(module.copies)));
            }
        }
        let layer = |decoder: bool| self.largest_layer(decoder);
        let outer = embedding.saturating_add(last).saturating_add(head).saturating_add(towers);
        let total = stacked.saturating_add(outer);
        let idle = self.experts.saturating_sub(self.active_experts);
        let idle_share = (expert / u128::from(self.experts.max(1))).saturating_mul(u128::from(idle));
        Some(ParameterCount {
            total: saturate_to_u64(total),
            embedding: saturate_to_u64(embedding),
            per_layer: saturate_to_u64(layer(false)),
            per_decoder_layer: saturate_to_u64(layer(true)),
            layers_total: saturate_to_u64(stacked),
            final_norm: saturate_to_u64(last),
            head: saturate_to_u64(head),
            towers: saturate_to_u64(towers),
            expert: saturate_to_u64(expert),
            active: saturate_to_u64(total.saturating_sub(idle_share)),
            linear: saturate_to_u64(linear),
        })
    }

    /// Returns the parameters of the largest layer of a stack.
    fn largest_layer(&self, decoder: bool) -> u128 {
        let size = |kind: &super::LayerKind| {
            let modules = kind.modules.iter();
            modules
                .map(|module| module.parameters().saturating_mul(u128::from(module.per_layer)))
                .fold(0_u128, u128::saturating_add)
        };
        self.layer_kinds.iter().filter(|kind| kind.decoder == decoder).map(size).max().unwrap_or(0)
    }

    /// Returns the trainable parameters of LoRA on the default class of the family; see
    /// [`Self::lora_trainable_for_class`].
    pub fn lora_trainable<S: AsRef<str>>(&self, rank: u64, targets: &[S]) -> Result<u64, LoraProblem> {
        self.lora_trainable_for_class(self.default_class(), rank, targets)
    }

    /// Returns the trainable parameters of LoRA: `rank * (in + out)` for each target matrix (Hu et al. 2021,
    /// 4.1).
    ///
    /// Targets match as in PEFT: the name of the module, or the end of its path after a dot; `all-linear` is
    /// every matrix except the output. Modules that are trained in addition to the adapter (a new classifier)
    /// are not counted: they are [`ParameterCount::head`].
    pub fn lora_trainable_for_class<S: AsRef<str>>(
        &self,
        class: Class,
        rank: u64,
        targets: &[S],
    ) -> Result<u64, LoraProblem> {
        if rank == 0 {
            return Err(LoraProblem::ZeroRank);
        }
        if self.class_name(class).is_none() {
            return Err(LoraProblem::NoSuchClass);
        }
        let linear = self.all_linear(class);
        let unknown: Vec<String> = targets
            .iter()
            .map(AsRef::as_ref)
            .filter(|target| !linear.iter().any(|module| matches_target(target, module)))
            .map(str::to_owned)
            .collect();
        if !unknown.is_empty() {
            return Err(LoraProblem::UnknownTargets { unknown, known: unique_names(&linear) });
        }
        // A matrix that matches two targets gets one adapter.
        let channels = linear
            .iter()
            .filter(|module| targets.iter().any(|target| matches_target(target.as_ref(), module)))
            .map(|module| {
                let both = u128::from(module.inputs).saturating_add(u128::from(module.outputs));
                both.saturating_mul(u128::from(module.copies))
            })
            .fold(0_u128, u128::saturating_add);
        Ok(saturate_to_u64(channels.saturating_mul(u128::from(rank))))
    }

    /// Returns the number of weights of the target matrices, and the maximum rank of any of them, the smaller
    /// of its dimensions.
    pub fn lora_base_weights<S: AsRef<str>>(&self, class: Class, targets: &[S]) -> (u64, u64) {
        let linear = self.all_linear(class);
        let named = linear
            .iter()
            .filter(|module| targets.iter().any(|target| matches_target(target.as_ref(), module)));
        let (weights, rank) = named.fold((0_u128, 0), |(weights, rank), module| {
            let one = u128::from(module.inputs).saturating_mul(u128::from(module.outputs));
            let all = one.saturating_mul(u128::from(module.copies));
            (weights.saturating_add(all), rank.max(module.inputs.min(module.outputs)))
        });
        (saturate_to_u64(weights), rank)
    }

    /// Returns the valid names for `targets` with this class, in the order of the forward pass.
    pub fn lora_targets(&self, class: Class) -> Vec<&'static str> {
        unique_names(&self.all_linear(class))
    }
}

fn matches_target(target: &str, module: &LinearModule) -> bool {
    if target == "all-linear" {
        // For a head, PEFT adapts the layer before the output, not the output itself.
        let before_output = matches!(module.name, "dense" | "pre_classifier" | "vocab_transform");
        return module.place != ModulePlace::Head || before_output;
    }
    module.path == target || module.path.strip_suffix(target).is_some_and(|rest| rest.ends_with('.'))
}

fn unique_names(linear: &[LinearModule]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for module in linear {
        if !names.contains(&module.name) {
            names.push(module.name);
        }
    }
    names
}
