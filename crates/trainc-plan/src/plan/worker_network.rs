//! The network of engine `worker`: derives its parts from the model's architecture and details, with the
//! origin of each value.

use trainc_ir::architecture::{
    Activation, Architecture, Class, Details, Family, Norm, Positions, ScalingKind,
};
use trainc_ir::worker::{Rotary, WorkerActivation, WorkerFamily, WorkerModel, WorkerNorm};
use trainc_ir::{Model, ModelFacts, Origin, Val};

/// Fraction of each head that GPT-NeoX rotates (`rotary_pct` of GPT-NeoX-20B and Pythia).
const NEOX_FRACTION: f64 = 0.25;

/// Returns the parts of a decoder, or the feature that the worker does not support.
pub(super) fn worker_model(
    a: &Architecture,
    class: Option<Class>,
    details: &Details,
    source: DetailsSource,
    sequence_length: u64,
) -> Result<WorkerModel, String> {
    if let Some(tower) = a.towers.first() {
        return Err(tower.name.to_owned());
    }
    let family = match a.family {
        Family::LLAMA | Family::MISTRAL => WorkerFamily::Llama,
        Family::GPT2 => WorkerFamily::Gpt2,
        Family::GPT_NEOX => WorkerFamily::GptNeox,
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
                if gated { "gated feed-forward layer" } else { "feed-forward layer" }
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
        _ => return Err("blocks with biases on only some of the matrices".to_owned()),
    };
    if let Some(what) = details.unusual.first() {
        return Err(what.clone());
    }
    if let Some(window) = details.window.filter(|window| *window < sequence_length) {
        return Err(format!("attention window of {window} tokens with sequences of {sequence_length}"));
    }
    let rotary = match a.position_kind {
        Positions::Learned => None,
        Positions::Rotary => Some(rotary(a, family, details, source)?),
        Positions::Alibi => return Err("ALiBi positions".to_owned()),
        Positions::Relative => return Err("relative positions".to_owned()),
    };
    let eps = source.value_or_default(details.norm_eps, || match source {
        // transformers uses its default for a config.json without the key.
        DetailsSource::Config(_) if family == WorkerFamily::Llama => {
            (1e-6, "transformers default, not in the config")
        }
        DetailsSource::Config(_) => (1e-5, "transformers default, not in the config"),
        DetailsSource::Row(_) | DetailsSource::Dimensions => {
            (1e-5, "value of GPT-2, GPT-NeoX, Llama 2 and 3 and Mistral; catalogue rows list exceptions")
        }
    });
    let range = (0.02, "value in the configurations of GPT-2, GPT-NeoX, Llama and Mistral");
    let initializer_range = source.value_or_default(details.initializer_range, || range);
    Ok(WorkerModel { family, norm, activation, biases, norm_eps: eps, initializer_range, rotary })
}

fn rotary(
    a: &Architecture,
    family: WorkerFamily,
    details: &Details,
    source: DetailsSource,
) -> Result<Rotary, String> {
    let fraction = source.value_or_default(details.rotary_fraction, || {
        if family == WorkerFamily::GptNeox {
            (NEOX_FRACTION, "a quarter of each head, as in GPT-NeoX-20B and Pythia")
        } else {
            (1.0, "the whole of each head")
        }
    });
    // Rounded down, as in transformers (`int(head_dim * partial_rotary_factor)`).
    let rotated = (fraction.value * a.head_dim as f64).floor();
    if rotated % 2.0 != 0.0 || rotated <= 0.0 || fraction.value > 1.0 {
        return Err(format!("rotary embedding of {rotated} of the {} channels of a head", a.head_dim));
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
                return Err(format!("`{}` RoPE scaling without all of its factors", scaling.kind.name()));
            }
            Some(Val { value: scaling.clone(), origin: source.origin() })
        }
    };
    Ok(Rotary { theta: a.rope_theta as f64, fraction, scaling })
}

/// The source of the details of a model.
#[derive(Clone, Copy)]
pub(super) enum DetailsSource<'a> {
    /// The path of a config.json.
    Config(&'a str),
    /// A row of the catalogue.
    Row(&'a Origin),
    /// Dimensions in the manifest, which have no details.
    Dimensions,
}

impl<'a> DetailsSource<'a> {
    /// Determines the source from the model as written and its facts.
    pub(super) fn new(model: Option<&'a Model>, facts: &'a ModelFacts) -> Self {
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
            Self::Dimensions => Origin::Default("from the architecture"),
        }
    }

    /// Returns the value of the source, or the default with its rule.
    fn value_or_default(self, known: Option<f64>, default: impl Fn() -> (f64, &'static str)) -> Val<f64> {
        if let Some(value) = known {
            return Val { value, origin: self.origin() };
        }
        let (value, rule) = default();
        Val::default(value, rule)
    }
}
