//! Builds an architecture from the fields of a model.

use super::Architecture;
use super::dimensions::ArchitectureProblem;
use super::expression::Term;
use super::family::Family;
use super::fields::{Fields, get};
use super::kinds::{Activation, Positions};
use super::modules::{ModuleList, ModulePlace, Tower, layer_kinds};
use super::spec::{Row, intern};
use super::uncounted_parts::uncounted_parts;
use serde_json::Value;

/// Maximum values: an order of magnitude above any existing model, and small enough that no count overflows.
pub(super) const HIDDEN: u64 = 1 << 20;
pub(super) const LAYERS: u64 = 1_000_000;
pub(super) const FFN: u64 = 1 << 24;
pub(super) const VOCAB: u64 = 1 << 28;
pub(super) const POSITIONS: u64 = 1 << 32;
pub(super) const EXPERTS: u64 = 1 << 16;
/// Layers that are built one by one: their kinds may differ.
const BUILT_LAYERS: u64 = 10_000;
/// 10^18: a million times the largest model; a larger number is a typo.
const PARAMETERS: u64 = 1_000_000_000_000_000_000;

/// Fields that every model has, their maximum and whether 0 is valid.
const BOUNDS: [(&str, u64, bool); 9] = [
    ("hidden", HIDDEN, false),
    ("layers", LAYERS, false),
    ("heads", HIDDEN, false),
    ("kv_heads", HIDDEN, false),
    ("head_dim", HIDDEN, false),
    ("ffn", FFN, true),
    ("vocab", VOCAB, false),
    ("positions", POSITIONS, false),
    ("experts", EXPERTS, true),
];

/// What a config says in addition to the fields.
pub(super) struct Surroundings<'a> {
    /// The model that contains the text model, and its config.
    pub(super) container: Option<(Family, &'a Value)>,
    /// The `model_type` of config.json, if the table lacks it.
    pub(super) unknown_type: Option<String>,
    pub(super) activation: Option<Activation>,
    pub(super) rope_theta: u64,
}

/// Returns the architecture, or `None` if a problem was reported.
pub(super) fn build(fields: &Fields<'_>, around: &Surroundings<'_>) -> Option<Architecture> {
    let family = fields.family;
    let spec = family.spec();
    for (field, max, zero) in BOUNDS {
        let Some(value) = fields.number(field) else { continue };
        // The config of an unknown type may not say it.
        let zero = zero || field == "positions" && !fields.is_written(field);
        if value > max || value == 0 && !zero {
            fields.report(ArchitectureProblem::Unusable {
                key: fields.key(field),
                found: value.to_string(),
                expected: format!("a whole number from 1 to {max}"),
            });
        }
    }
    check_divisors(fields);
    if let (Some(experts @ 1..), Some(active)) = (fields.number("experts"), fields.number("active_experts"))
        && active > experts
    {
        fields.report(ArchitectureProblem::Unusable {
            key: fields.key("active_experts"),
            found: active.to_string(),
            expected: format!("at most the {experts} experts"),
        });
    }
    for rejection in &spec.reject {
        let written = format!("has_{0} && {0} == {1}", rejection.field, rejection.value);
        if fields.holds(&written) {
            fields.report(ArchitectureProblem::Unusable {
                key: fields.key(&rejection.field),
                found: (if rejection.value == 0 { "`false`" } else { "`true`" }).to_owned(),
                expected: rejection.expected.clone(),
            });
        }
    }
    let problems = fields.take_problems();
    let sound = problems.is_empty();
    for problem in problems {
        fields.report(problem);
    }
    if !sound {
        return None;
    }
    let number = |field: &str| fields.number(field).unwrap_or(0);
    let layers = number("layers");
    if layers > BUILT_LAYERS && !is_uniform(family) {
        fields.report(ArchitectureProblem::Unusable {
            key: fields.key("layers"),
            found: layers.to_string(),
            expected: format!("at most {BUILT_LAYERS}, since the layers of `{family}` differ"),
        });
        return None;
    }
    let decoder_layers = number("decoder_layers");

    let mut embedding = ModuleList::new(fields, ModulePlace::Embedding, 1);
    if !spec.no_tokens {
        embedding.part("embedding");
    }
    for row in &spec.before {
        embedding.row(row);
    }
    let mut kinds = repeat(fields, layers, false);
    if decoder_layers > 0 {
        fields.set_decoder(true);
        kinds.extend(repeat(fields, decoder_layers, true));
        fields.set_decoder(false);
    }
    let mut last = ModuleList::new(fields, ModulePlace::Final, 1);
    last.part("final");
    for row in &spec.after {
        last.row(row);
    }

    let (mut embedding, mut last, mut towers) = (embedding.modules, last.modules, Vec::new());
    if let Some((container, config)) = around.container {
        let rows = |place, rows: &'static [Row]| {
            let mut list = ModuleList::new(fields, place, 1);
            for row in rows {
                list.row(row);
            }
            list.modules
        };
        if container != family && container.spec().text.as_deref() != Some("") {
            // Rows of the container's own, such as Llava-Next's separator; the text model's are there
            // already.
            let own = container.spec();
            embedding.extend(rows(ModulePlace::Embedding, &own.before));
            last.extend(rows(ModulePlace::Final, &own.after));
        }
        for tower in &container.spec().towers {
            let nested = get(config, &tower.config).filter(|nested| nested.is_object());
            if nested.is_none() && tower.optional {
                continue;
            }
            let named = nested.and_then(|nested| nested.get("model_type")).and_then(Value::as_str);
            let model_type = match named {
                Some(named) if !tower.types.is_empty() => tower.types.get(named),
                _ => Some(&tower.model_type),
            };
            let Some(model_type) = model_type.and_then(|model_type| Family::tower(model_type)) else {
                fields.report(ArchitectureProblem::Unknown {
                    key: format!("{}.model_type", tower.config),
                    found: format!("`{}`", named.unwrap_or_default()),
                });
                continue;
            };
            let modules = tower_modules(model_type, nested.unwrap_or(&Value::Null), fields, &tower.projector);
            towers.push(Tower { name: intern(&tower.name), modules });
        }
    }

    let gated = fields.holds("gated");
    let position_kind = match spec.positions {
        // BLOOM and Falcon.
        Positions::Rotary | Positions::Alibi if fields.holds("has_alibi") => {
            if fields.holds("alibi") {
                Positions::Alibi
            } else {
                Positions::Rotary
            }
        }
        kind => kind,
    };
    let architecture = Architecture {
        family,
        container: around.container.map(|(container, _)| container),
        unknown_type: around.unknown_type.clone(),
        hidden: number("hidden"),
        layers,
        decoder_layers,
        heads: number("heads"),
        kv_heads: number("kv_heads"),
        head_dim: number("head_dim"),
        ffn: number("ffn"),
        expert_ffn: if number("experts") > 0 { number("expert_ffn") } else { 0 },
        vocab: number("vocab"),
        positions: number("positions"),
        experts: number("experts"),
        active_experts: number("active_experts"),
        tied: fields.holds("tied"),
        word_embedding: number("word_embedding"),
        types: number("types"),
        buckets: number("buckets"),
        rope_theta: around.rope_theta,
        position_kind,
        activation: around.activation.unwrap_or(spec.activation),
        norm: spec.norm,
        gated,
        qkv_bias: fields.holds("q_bias"),
        out_bias: fields.holds("out_bias"),
        mlp_bias: fields.holds("mlp_bias"),
        head_bias: spec.head_bias || fields.holds("head_bias"),
        masked_biases: number("masked_bias"),
        parallel: fields.holds("parallel"),
        layer_norms: number("layer_norms").min(u64::try_from(spec.norms.len()).unwrap_or(u64::MAX)),
        final_norm: fields.holds("final_norm"),
        embedding,
        uncounted: uncounted_parts(fields, &kinds),
        layer_kinds: kinds,
        last,
        towers,
    };
    let problems = fields.take_problems();
    if !problems.is_empty() {
        for problem in problems {
            fields.report(problem);
        }
        return None;
    }
    if architecture.parameters().total > PARAMETERS {
        fields.report(ArchitectureProblem::Unusable {
            key: fields.key("layers"),
            found: format!("`{layers}`, which with the other dimensions gives more than 10^18 parameters"),
            expected: "at most 10^18 parameters".to_owned(),
        });
        return None;
    }
    Some(architecture)
}

/// Returns whether all layers of a type are equal, so that one stands for any number.
fn is_uniform(family: Family) -> bool {
    Family::named().any(|named| named == family)
}

/// Builds the layers of a stack; of very deep ones, one that stands for all.
fn repeat(fields: &Fields<'_>, layers: u64, decoder: bool) -> Vec<super::modules::LayerKind> {
    if layers <= BUILT_LAYERS {
        return layer_kinds(fields, layers, decoder);
    }
    let mut kinds = layer_kinds(fields, 1, decoder);
    for kind in &mut kinds {
        kind.count = layers;
        for module in &mut kind.modules {
            module.copies = module.per_layer.saturating_mul(layers);
        }
    }
    kinds
}

/// Checks that heads divide the hidden width, where it determines their width, and that key heads divide
/// heads.
fn check_divisors(fields: &Fields<'_>) {
    let (Some(hidden), Some(heads)) = (fields.number("hidden"), fields.number("heads")) else { return };
    let derived = fields.default_expression("head_dim") == Some("hidden / heads")
        && !fields.family.spec().set.contains_key("head_dim");
    if derived && !fields.is_written("head_dim") && heads > 0 && !hidden.is_multiple_of(heads) {
        fields.report(ArchitectureProblem::Indivisible {
            key: fields.key("heads"),
            found: heads,
            of: "hidden",
            whole: hidden,
        });
    }
    if let Some(kv_heads) = fields.number("kv_heads")
        && kv_heads > 0
        && !heads.is_multiple_of(kv_heads)
    {
        fields.report(ArchitectureProblem::Indivisible {
            key: fields.key("kv_heads"),
            found: kv_heads,
            of: "heads",
            whole: heads,
        });
    }
}

/// Returns the modules of a tower inside a model, projector included.
fn tower_modules(
    family: Family,
    config: &Value,
    up: &Fields<'_>,
    projector: &'static [Row],
) -> Vec<super::modules::Module> {
    let fields = Fields::new(family, config, Some(up));
    let spec = family.spec();
    let mut list = ModuleList::new(&fields, ModulePlace::Tower, 1);
    for row in &spec.before {
        list.row(row);
    }
    let mut modules = list.modules;
    let layers = fields.number("layers").unwrap_or(0).min(BUILT_LAYERS);
    for kind in layer_kinds(&fields, layers, false) {
        modules.extend(kind.modules);
    }
    let mut list = ModuleList::new(&fields, ModulePlace::Tower, 1);
    list.part("final");
    for row in spec.after.iter().chain(projector) {
        list.row(row);
    }
    modules.extend(list.modules);
    for module in &mut modules {
        module.place = ModulePlace::Tower;
    }
    for problem in fields.into_problems() {
        up.report(problem);
    }
    modules
}

/// Returns a number as a value of a field.
pub(super) fn int(value: u64) -> Term {
    Term::Int(i128::from(value))
}
