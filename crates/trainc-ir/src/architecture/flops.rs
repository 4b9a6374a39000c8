//! Floating-point operations of training, counted exactly and by the conventions of publications.
//!
//! One multiply-add is two operations. Sources: Narayanan et al. 2021 (SC21) eq. 3; Korthikanti et al. 2022
//! eq. 7-8; the README of llm-foundry ("MFU and HFU"); Chowdhery et al. 2022 (PaLM) appendix B.

use super::kinds::Class;
use super::modules::{ModulePlace, ModuleRole};
use super::{Architecture, Core};

/// Operations of one forward pass of one sequence, by part; in FLOP.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForwardFlops {
    /// Query, key, value and output matrices of all layers.
    pub projections: f64,
    /// Scores and their product with the values over the full square of the sequence, and scans of state
    /// spaces.
    pub attention_core: f64,
    /// As `attention_core`, over the keys that a causal mask and windows leave.
    pub attention_visible: f64,
    /// Feed-forward matrices (of the chosen experts) and routers.
    pub feed_forward: f64,
    /// The output, and OPT-350m's projections.
    pub head: f64,
}

/// The scope of activation recomputation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlopsRecompute {
    /// Nothing: all activations are kept.
    None,
    /// The attention core only (Korthikanti et al. 2022).
    Selective,
    /// All layers; the head is not recomputed.
    Full,
}

impl ForwardFlops {
    /// Returns the FLOP of the forward pass.
    pub fn total(&self) -> f64 {
        self.layers() + self.head
    }

    /// Returns the FLOP of the layers without the head.
    pub fn layers(&self) -> f64 {
        self.projections + self.attention_core + self.feed_forward
    }

    /// Returns the FLOP of forward and backward pass: the backward pass is twice the forward pass.
    pub fn model(&self) -> f64 {
        3.0 * self.total()
    }

    /// Returns the FLOP that the hardware executes: [`Self::model`] and recomputation.
    pub fn hardware(&self, recompute: FlopsRecompute) -> f64 {
        self.model()
            + match recompute {
                FlopsRecompute::None => 0.0,
                FlopsRecompute::Selective => self.attention_core,
                FlopsRecompute::Full => self.layers(),
            }
    }
}

/// The convention by which a publication counts FLOP; every reported figure must name one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Convention {
    /// 6 N: forward and backward of the matrices (Kaplan, Chinchilla).
    SixN,
    /// 8 N: as 6 N with full recomputation (SageMaker model parallel's posts, early DeepSpeed).
    EightN,
    /// 6 N + 12 L h s (PaLM, nanoGPT, llm-foundry).
    Palm,
    /// 72 L h² (1 + s/6h + V/12Lh): SC21 without recomputation.
    Megatron,
    /// 96 L h² (1 + s/6h + V/16Lh): SC21 with full recomputation.
    MegatronRecompute,
    /// Megatron with the attention core recomputed: + 4 L h s (Korthikanti's hardware FLOPs).
    Selective,
    /// As PaLM with half the attention, since a causal mask removes the other half.
    Causal,
}

impl Convention {
    /// All conventions, in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::SixN,
        Self::EightN,
        Self::Palm,
        Self::Megatron,
        Self::MegatronRecompute,
        Self::Selective,
        Self::Causal,
    ];

    /// Returns its name in reports: `6N`, `palm`, `megatron-recompute`.
    pub fn name(self) -> &'static str {
        match self {
            Self::SixN => "6N",
            Self::EightN => "8N",
            Self::Palm => "palm",
            Self::Megatron => "megatron",
            Self::MegatronRecompute => "megatron-recompute",
            Self::Selective => "selective",
            Self::Causal => "causal",
        }
    }

    /// Parses one of the names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|convention| convention.name() == name)
    }
}

impl Core {
    /// Returns the FLOP of one sequence whose `queries` see `keys`: all of them, or those that a causal mask
    /// and the window leave.
    fn flops(&self, queries: f64, keys: f64, visible_only: Option<bool>) -> f64 {
        let scored = self.per_scored_key as f64 * keys * queries;
        let scan = self.per_token as f64 * queries;
        let Some(causal) = visible_only else {
            return self.per_key as f64 * keys * queries + scored + scan;
        };
        let mean = |window: f64| {
            if window <= 0.0 || window >= keys {
                if causal { f64::midpoint(keys, 1.0) } else { keys }
            } else if causal {
                // Tokens before the window is full see fewer.
                window - window * (window - 1.0) / (2.0 * keys)
            } else {
                window
            }
        };
        let mut seen = mean(self.window as f64);
        if self.compressed > 0 {
            let all = keys / self.compressed as f64 * if causal { 0.5 } else { 1.0 };
            seen += if self.compressed_keys > 0 { all.min(self.compressed_keys as f64) } else { all };
        }
        let scored = scored * if causal { 0.5 } else { 1.0 };
        self.per_key as f64 * seen * queries + scored + scan
    }
}

impl Architecture {
    /// Returns the FLOP of a forward pass of one sequence of `tokens` with the default head of the family. T5
    /// reads and writes as many tokens.
    pub fn flops_forward_per_sequence(&self, tokens: u64) -> ForwardFlops {
        self.flops_forward_for_class(self.default_class(), tokens, tokens).unwrap_or_default()
    }

    /// Returns the FLOP of a forward pass of one sequence: `tokens` read, and for T5 `target` tokens written.
    /// Returns `None` where the family has no such class. Towers are not included: what they see are patches,
    /// not tokens.
    ///
    /// 2 x in x out for each token and matrix; attention over the full square of the sequence, and over what
    /// a causal mask and windows leave of it.
    pub fn flops_forward_for_class(&self, class: Class, tokens: u64, target: u64) -> Option<ForwardFlops> {
        let modules = self.modules(class)?;
        let (source, target) = (tokens as f64, target as f64);
        let mut out = ForwardFlops::default();
        for module in &modules {
            let seen = match (module.place, module.role) {
                (ModulePlace::Tower, _) => continue,
                (_, ModuleRole::CrossMemory) => source,
                (_, ModuleRole::Pooled) => 1.0,
                (ModulePlace::DecoderLayer, _) => target,
                (ModulePlace::Head, _) if self.decoder_layers > 0 => target,
                (ModulePlace::Embedding | ModulePlace::Layer | ModulePlace::Final | ModulePlace::Head, _) => {
                    source
                }
            };
            // Only the active experts process a token.
            let copies = if module.role == ModuleRole::Expert {
                (module.copies / module.per_layer.max(1)) as f64 * self.active_experts as f64
            } else {
                module.copies as f64
            };
            let flops = 2.0 * seen * module.inputs as f64 * module.outputs as f64 * copies;
            match module.role {
                ModuleRole::Lookup | ModuleRole::Norm | ModuleRole::Vector => {}
                ModuleRole::Attention | ModuleRole::CrossMemory => out.projections += flops,
                ModuleRole::Mlp | ModuleRole::Expert | ModuleRole::Router => out.feed_forward += flops,
                ModuleRole::Output | ModuleRole::Pooled => out.head += flops,
            }
        }
        for kind in &self.layer_kinds {
            let count = kind.count as f64;
            let queries = if kind.decoder { target } else { source };
            let causal = self.family.is_causal() && (kind.decoder || self.decoder_layers == 0);
            for core in &kind.cores {
                let (keys, causal) = if core.cross { (source, false) } else { (queries, causal) };
                out.attention_core += count * core.flops(queries, keys, None);
                out.attention_visible += count * core.flops(queries, keys, Some(causal));
            }
        }
        Some(out)
    }

    /// Returns the FLOP of training per token at this sequence length: forward and backward pass without
    /// recomputation, over the keys that a causal mask and windows leave.
    pub fn training_flops_per_token(&self, class: Class, tokens: u64) -> Option<f64> {
        let forward = self.flops_forward_for_class(class, tokens, tokens)?;
        let visible = forward.total() - forward.attention_core + forward.attention_visible;
        Some(3.0 * visible / tokens.max(1) as f64)
    }

    /// Returns the FLOP per token by a convention, at this sequence length in tokens.
    ///
    /// N is the number of parameters, or of active parameters for a mixture of experts. Published formulas
    /// use `h` for the attention; this uses the heads' width `a d`, which differs in models that set the head
    /// width.
    pub fn flops_per_token(&self, convention: Convention, tokens: u64) -> f64 {
        let n = self.parameters().active as f64;
        let (h, v, s) = (self.hidden as f64, self.vocab as f64, tokens as f64);
        let layers = self.layers as f64 + self.decoder_layers as f64;
        let core = 4.0 * layers * self.attention_width() as f64 * s;
        let megatron =
            |times: f64| times * layers * h * h * (1.0 + s / (6.0 * h) + v / (times / 6.0 * layers * h));
        match convention {
            Convention::SixN => 6.0 * n,
            Convention::EightN => 8.0 * n,
            Convention::Palm => 6.0 * n + 3.0 * core,
            Convention::Causal => 6.0 * n + 1.5 * core,
            Convention::Megatron => megatron(72.0),
            Convention::MegatronRecompute => megatron(96.0),
            Convention::Selective => megatron(72.0) + core,
        }
    }
}
