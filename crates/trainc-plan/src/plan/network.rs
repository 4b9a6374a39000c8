//! The network of engine `worker` by its parts: what of a model's architecture and details it has, and where each value
//! comes from.

use trainc_ir::architecture::{
    Activation, Architecture, Class, Details, Family, Norm, Positions, ScalingKind,
};
use trainc_ir::worker::{Rotary, WorkerActivation, WorkerFamily, WorkerModel, WorkerNorm};
use trainc_ir::{Model, ModelFacts, Origin, Val};

/// Part of each head that GPT-NeoX rotates (`rotary_pct` of GPT-NeoX-20B and Pythia).
const NEOX_FRACTION: f64 = 0.25;

/// The parts of a decoder that the worker has, or what it lacks.
pub(super) fn parts(
    a: &Architecture,
    class: Option<Class>,
    details: &Details,
    source: Source,
    sequence_length: u64,
) -> Result<WorkerModel, String> {
    let family = match a.family {
        Family::Llama | Family::Mistral => WorkerFamily::Llama,
        Family::Gpt2 => WorkerFamily::Gpt2,
        Family::GptNeoX => WorkerFamily::GptNeox,
        other => return Err(format!("`{}` architecture", other.name())),
    };
    if class.is_some_and(|class| class != Class::CausalLm) {
        return Err(format!("head for `{}`", class.map_or("", Class::name)));
    }
    let activation = match (a.activation, a.gated) {
        (Activation::Silu, true) => WorkerActivation::Swiglu,
        (Activation::Gelu, false) => WorkerActivation::Gelu,
        (Activation::GeluTanh, false) => WorkerActivation::GeluTanh,
        (other, gated) => {
            return Err(format!(
                "{} with {other:?}",
                if gated { "gated feed-forward part" } else { "feed-forward part" }
            ));
        }
    };
    let norm = match a.norm {
        Norm::LayerNorm => WorkerNorm::Layer,
        Norm::RmsNorm => WorkerNorm::Rms,
        Norm::LayerNormWithoutBias => return Err("layer norm without bias".to_owned()),
    };
    let biases = match [a.qkv_bias, a.out_bias, a.mlp_bias] {
        [true, true, true] => true,
        [false, false, false] => false,
        _ => return Err("blocks with biases on some products only".to_owned()),
    };
    if let Some(what) = details.unusual.first() {
        return Err(what.clone());
    }
    if let Some(window) = details.window.filter(|window| *window < sequence_length) {
        return Err(format!("attention that sees {window} tokens of {sequence_length}"));
    }
    let rotary = match a.position_kind {
        Positions::Learned => None,
        Positions::Rotary => Some(rotary(a, family, details, source)?),
        Positions::Alibi => return Err("ALiBi positions".to_owned()),
        Positions::Relative => return Err("relative positions".to_owned()),
    };
    let eps = source.or_else(details.norm_eps, || match source {
        // A config.json without the key has transformers' default.
        Source::Config(_) if family == WorkerFamily::Llama => {
            (1e-6, "transformers' default where a config has none")
        }
        Source::Config(_) => (1e-5, "transformers' default where a config has none"),
        Source::Row(_) | Source::Dimensions => (
            1e-5,
            "as GPT-2, GPT-NeoX, Llama 2 and 3 and Mistral have it; rows of the catalogue say where not",
        ),
    });
    let range = (0.02, "as the configurations of GPT-2, GPT-NeoX, Llama and Mistral have it");
    let initializer_range = source.or_else(details.initializer_range, || range);
    Ok(WorkerModel { family, norm, activation, biases, norm_eps: eps, initializer_range, rotary })
}

fn rotary(
    a: &Architecture,
    family: WorkerFamily,
    details: &Details,
    source: Source,
) -> Result<Rotary, String> {
    let fraction = source.or_else(details.rotary_fraction, || {
        if family == WorkerFamily::GptNeox {
            (NEOX_FRACTION, "a quarter of each head, as GPT-NeoX-20B and Pythia have it")
        } else {
            (1.0, "the whole of each head")
        }
    });
    // Cut off, as transformers does (`int(head_dim * partial_rotary_factor)`).
    let turned = (fraction.value * a.head_dim as f64).floor();
    if turned % 2.0 != 0.0 || turned <= 0.0 || fraction.value > 1.0 {
        return Err(format!("rotation of {turned} of the {} channels of a head", a.head_dim));
    }
    let scaling = match &details.rope_scaling {
        None => None,
        Some(scaling) => {
            let bounds = scaling.low_frequency_factor.zip(scaling.high_frequency_factor);
            let whole = match scaling.kind {
                ScalingKind::Linear => true,
                ScalingKind::Dynamic => scaling.original_positions.is_some(),
                ScalingKind::Llama3 => {
                    scaling.original_positions.is_some()
                        && bounds.is_some_and(|(low, high)| low > 0.0 && high > low)
                }
            };
            if !whole || scaling.factor < 1.0 {
                return Err(format!(
                    "`{}` scaling of positions without all of its factors",
                    scaling.kind.name()
                ));
            }
            Some(Val { value: scaling.clone(), origin: source.origin() })
        }
    };
    Ok(Rotary { theta: a.rope_theta as f64, fraction, scaling })
}

/// Where what is known of a model stands.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// A config.json, by its path.
    Config(&'a str),
    /// A row of the catalogue.
    Row(&'a Origin),
    /// The manifest's dimensions, which say nothing of this.
    Dimensions,
}

impl<'a> Source<'a> {
    /// Of a model as written, and what is known of it.
    pub(super) fn of(model: Option<&'a Model>, facts: &'a ModelFacts) -> Self {
        match (model.and_then(|model| model.config.value()), &facts.parameters.origin) {
            (Some(path), _) => Self::Config(path),
            (None, origin @ Origin::Catalogue { .. }) => Self::Row(origin),
            (None, Origin::Written(_) | Origin::Default(_) | Origin::Derived(_)) => Self::Dimensions,
        }
    }

    fn origin(self) -> Origin {
        match self {
            Self::Config(path) => Origin::Derived(format!("read from {path}")),
            Self::Row(origin) => origin.clone(),
            Self::Dimensions => Origin::Default("the architecture's"),
        }
    }

    /// What is known, or what holds where nothing is said, with its rule.
    fn or_else(self, known: Option<f64>, otherwise: impl Fn() -> (f64, &'static str)) -> Val<f64> {
        if let Some(value) = known {
            return Val { value, origin: self.origin() };
        }
        let (value, rule) = otherwise();
        Val::default(value, rule)
    }
}
