//! The tables of model types, parts and fields: lookup by scanning for a header, and the rows of one type
//! with what it inherits.

use super::kinds::{Activation, Class, Norm, Positions};
use serde::Deserialize as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, Mutex, PoisonError};

const TYPES: &str = include_str!("data/model_types.toml");
const PARTS: &str = include_str!("data/parts.toml");
const FIELDS: &str = include_str!("data/fields.toml");

/// Properties of a model type, with what it inherits.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    /// Prefix of its class names: `GPT2`, `Llama`.
    pub(super) prefix: String,
    /// The class that is wrapped, checkpointed and counted as one layer.
    pub(super) layer: String,
    /// The default class.
    pub(super) class: String,
    /// The classes that transformers has.
    pub(super) classes: Vec<String>,
    /// Class names that are not the usual ones.
    #[serde(default)]
    pub(super) class_names: BTreeMap<String, String>,
    pub(super) norm: Norm,
    pub(super) activation: Activation,
    pub(super) positions: Positions,
    /// Dropout above zero in the default configuration.
    #[serde(default)]
    pub(super) dropout: bool,
    #[serde(default = "yes")]
    pub(super) causal: bool,
    /// Dimensions that vary within the type; a manifest cannot state others.
    pub(super) free: Vec<String>,
    /// Path of the language-model head.
    pub(super) head: String,
    pub(super) norms: Vec<String>,
    /// Norms of a layer with two of them and parallel branches (Falcon).
    #[serde(default)]
    pub(super) wide_norms: Vec<String>,
    #[serde(default)]
    pub(super) paths: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) keys: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub(super) set: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) default: BTreeMap<String, DefaultValue>,
    /// Defaults of the configuration class, where config.json lacks a field. A manifest has those of
    /// `default`.
    #[serde(default)]
    pub(super) config: BTreeMap<String, DefaultValue>,
    pub(super) mixer: Vec<Choice>,
    pub(super) feed: Vec<Choice>,
    pub(super) other: Vec<Choice>,
    /// Parts of a decoder's layer in addition to those of the encoder.
    #[serde(default)]
    pub(super) decoder: Vec<String>,
    #[serde(default)]
    pub(super) before: Vec<Row>,
    #[serde(default)]
    pub(super) after: Vec<Row>,
    #[serde(default)]
    pub(super) towers: Vec<Tower>,
    /// Type of the text model inside this one, where its config does not say it.
    #[serde(default)]
    pub(super) text: Option<String>,
    /// The text model's own config decides whether the head is tied, not that around it.
    #[serde(default)]
    pub(super) text_ties: bool,
    /// The type of the text model is that of `text`, whatever its own config says.
    #[serde(default)]
    pub(super) own_text: bool,
    #[serde(default)]
    pub(super) reject: Vec<Rejection>,
    /// The bare model has a pooler.
    #[serde(default)]
    pub(super) pooler: bool,
    /// Dense layer, norm and vocabulary matrix of masked-token prediction.
    #[serde(default)]
    pub(super) masked: Vec<String>,
    /// The dense layer of masked-token prediction has no bias.
    #[serde(default)]
    pub(super) plain_head_dense: bool,
    /// Two layers of a classifier; decoders have one layer without bias, `score`.
    #[serde(default)]
    pub(super) classifier: Vec<String>,
    /// The classifier's one layer has a bias.
    #[serde(default)]
    pub(super) head_bias: bool,
    /// Rows of the position table that no token uses (RoBERTa counts from its padding index).
    #[serde(default)]
    pub(super) unused_positions: u64,
    /// The model's own code never kept a score matrix (Falcon).
    #[serde(default)]
    pub(super) own_attention: bool,
    /// There is no token embedding and no vocabulary (vision).
    #[serde(default)]
    pub(super) no_tokens: bool,
    /// The kind of layer that a module of multi-token prediction has.
    #[serde(default)]
    pub(super) mtp_kind: Option<String>,
    /// Such a module has the layer that the config describes after the last one.
    #[serde(default)]
    pub(super) mtp_next: bool,
    /// The field that lists the parts of such a module.
    #[serde(default)]
    pub(super) mtp_parts: Option<String>,
}

fn yes() -> bool {
    true
}

/// A default: an expression, and its rule in words where a manifest's plan states it.
#[derive(Debug, serde::Deserialize)]
#[serde(from = "DefaultText")]
pub(super) struct DefaultValue {
    /// `-` if there is no default.
    pub(super) expression: String,
    pub(super) rule: Option<String>,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum DefaultText {
    Expression(String),
    WithRule(String, String),
}

impl From<DefaultText> for DefaultValue {
    fn from(text: DefaultText) -> Self {
        match text {
            DefaultText::Expression(expression) => Self { expression, rule: None },
            DefaultText::WithRule(expression, rule) => Self { expression, rule: Some(rule) },
        }
    }
}

/// Parts of a layer, under a condition.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Choice {
    #[serde(rename = "if")]
    pub(super) condition: Option<String>,
    pub(super) parts: Vec<String>,
    /// The layers in which the parts share the weights of an earlier layer.
    #[serde(default)]
    pub(super) shared: Option<String>,
}

/// A model inside the model.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tower {
    pub(super) name: String,
    /// The key of its config.
    pub(super) config: String,
    #[serde(rename = "type")]
    pub(super) model_type: String,
    /// Other types, by the `model_type` of its config.
    #[serde(default)]
    pub(super) types: BTreeMap<String, String>,
    /// It does not exist without a config.
    #[serde(default)]
    pub(super) optional: bool,
    /// Rows between the tower and the text model, with the fields of the tower.
    #[serde(default)]
    pub(super) projector: Vec<Row>,
}

/// A value of a field that has no formula.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rejection {
    pub(super) field: String,
    pub(super) value: i64,
    pub(super) expected: String,
}

/// Slot, path, role, inputs, outputs, bias, condition.
#[derive(Clone, Debug, serde::Deserialize)]
pub(super) struct Row(
    pub(super) String,
    pub(super) String,
    pub(super) String,
    pub(super) String,
    pub(super) String,
    pub(super) String,
    pub(super) String,
);

/// A kind of part.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Part {
    pub(super) rows: Vec<Row>,
    pub(super) core: Option<String>,
    pub(super) index_core: Option<String>,
    pub(super) window: Option<String>,
    pub(super) compressed: Option<String>,
    pub(super) compressed_topk: Option<String>,
    pub(super) extra: Option<String>,
    pub(super) saved: Option<String>,
    pub(super) megatron: Option<String>,
    pub(super) titan: Option<String>,
    pub(super) titan_selective: Option<String>,
    pub(super) scores: Option<String>,
    pub(super) megatron_scores: Option<String>,
    pub(super) lse: Option<String>,
    pub(super) routed: Option<String>,
    pub(super) inputs: Option<String>,
}

/// The fields of config.json.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FieldTable {
    pub(super) keys: BTreeMap<String, Vec<String>>,
    kinds: FieldKinds,
    unused: Unused,
}

/// Fields whose value is not a whole number of at least 0.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldKinds {
    flags: BTreeSet<String>,
    lists: BTreeSet<String>,
    texts: BTreeSet<String>,
    signed: BTreeSet<String>,
    thousandths: BTreeSet<String>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Unused {
    names: Vec<String>,
}

/// Returns the table of fields.
pub(super) fn fields() -> &'static FieldTable {
    static TABLE: LazyLock<FieldTable> = LazyLock::new(|| {
        toml::from_str(FIELDS).unwrap_or_else(|_| FieldTable {
            keys: BTreeMap::new(),
            kinds: FieldKinds {
                flags: BTreeSet::new(),
                lists: BTreeSet::new(),
                texts: BTreeSet::new(),
                signed: BTreeSet::new(),
                thousandths: BTreeSet::new(),
            },
            unused: Unused { names: Vec::new() },
        })
    });
    &TABLE
}

impl FieldTable {
    pub(super) fn is_flag(&self, field: &str) -> bool {
        self.kinds.flags.contains(field)
    }

    pub(super) fn may_be_list(&self, field: &str) -> bool {
        self.kinds.lists.contains(field)
    }

    pub(super) fn may_be_text(&self, field: &str) -> bool {
        self.kinds.texts.contains(field)
    }

    pub(super) fn may_be_negative(&self, field: &str) -> bool {
        self.kinds.signed.contains(field)
    }

    /// Returns whether the field is a factor, which expressions see in thousandths.
    pub(super) fn is_factor(&self, field: &str) -> bool {
        self.kinds.thousandths.contains(field)
    }

    /// Returns whether a key of config.json changes no parameter.
    pub(super) fn is_unused(&self, key: &str) -> bool {
        self.unused.names.iter().any(|pattern| matches(pattern, key))
    }
}

/// Matches a pattern with `*` for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut rest = rest;
    let mut last = None;
    for piece in pieces {
        last = Some(piece);
        match rest.find(piece) {
            Some(at) => rest = rest.get(at.saturating_add(piece.len())..).unwrap_or_default(),
            None => return false,
        }
    }
    match last {
        None => rest.is_empty(),
        Some(piece) => rest.is_empty() || piece.is_empty() || text.ends_with(piece),
    }
}

/// Returns the same text once per process, so that modules can refer to it.
pub(super) fn intern(text: &str) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text) {
        return known;
    }
    // Bounded by the tables, whose texts are the only ones interned.
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    texts.insert(text);
    text
}

/// Returns the model types of the table, without aliases and towers, in its order.
pub(super) fn model_types() -> impl Iterator<Item = &'static str> {
    TYPES
        .lines()
        .filter_map(header)
        .filter(|name| !name.starts_with("tower/") && *name != "base" && *name != UNKNOWN)
}

/// The type whose formulas are used for types that the table lacks.
pub(super) const UNKNOWN: &str = "unknown";

/// Returns the model types whose dimensions a manifest may state, with their names there.
pub(super) fn named_types() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMES.named.iter().copied()
}

/// Returns the type whose dimensions a manifest may state under this name, with either separator.
pub(super) fn find_named(name: &str) -> Option<&'static str> {
    NAMES.by_name.get(&with_dashes(name)).copied()
}

/// Names of the types, read once per process: each manifest asks for several.
struct TypeNames {
    /// Types whose dimensions a manifest may state, with their names there.
    named: Vec<(&'static str, &'static str)>,
    /// The same types by both names, with dashes.
    by_name: BTreeMap<String, &'static str>,
    /// All types by their own names and by others.
    by_alias: BTreeMap<&'static str, &'static str>,
}

static NAMES: LazyLock<TypeNames> = LazyLock::new(|| {
    let mut out = TypeNames { named: Vec::new(), by_name: BTreeMap::new(), by_alias: BTreeMap::new() };
    let mut current = "";
    for line in TYPES.lines() {
        if let Some(name) = header(line) {
            current = name;
            out.by_alias.entry(name).or_insert(name);
        } else if let Some(name) = line.strip_prefix("name = \"").and_then(|rest| rest.strip_suffix('"')) {
            out.named.push((current, name));
            for name in [name, current] {
                out.by_name.entry(with_dashes(name)).or_insert(current);
            }
        } else if let Some(list) = line.strip_prefix("aliases = ") {
            for alias in list.split('"').skip(1).step_by(2) {
                out.by_alias.entry(alias).or_insert(current);
            }
        }
    }
    out
});

fn with_dashes(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

fn header(line: &'static str) -> Option<&'static str> {
    line.strip_prefix("[\"")?.strip_suffix("\"]")
}

/// Returns the type with this name or alias.
pub(super) fn find_type(name: &str) -> Option<&'static str> {
    NAMES.by_alias.get(name).copied()
}

fn slice(text: &'static str, name: &str) -> Option<toml::Table> {
    let at = text.find(&format!("[\"{name}\"]\n"))?;
    let body = text.get(at..)?.split_once('\n')?.1;
    let end = body.find("\n[\"").unwrap_or(body.len());
    toml::from_str(body.get(..end)?).ok()
}

/// Returns the rows of a type with what it inherits; `None` for a malformed table, which a test excludes.
fn merged(name: &str) -> Option<toml::Table> {
    let mut own = slice(TYPES, name)?;
    let like = own.remove("like").and_then(|like| like.as_str().map(str::to_owned));
    // These are looked up by a scan.
    own.remove("aliases");
    own.remove("name");
    if name == "base" {
        return Some(own);
    }
    let like = like.unwrap_or_else(|| "base".to_owned());
    let mut table = merged(&like)?;
    // Those of each configuration class.
    table.remove("config");
    for (key, value) in own {
        match (table.get_mut(&key), value) {
            (Some(toml::Value::Table(inherited)), toml::Value::Table(value))
                if matches!(key.as_str(), "set" | "default" | "keys" | "paths") =>
            {
                inherited.extend(value);
            }
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
    Some(table)
}

impl Spec {
    /// Returns the properties of a type of the table.
    pub(super) fn find(name: &'static str) -> Option<&'static Self> {
        static SPECS: Mutex<BTreeMap<&'static str, Option<&'static Spec>>> = Mutex::new(BTreeMap::new());
        let known = |specs: &BTreeMap<_, _>| specs.get(name).copied();
        if let Some(spec) = known(&SPECS.lock().unwrap_or_else(PoisonError::into_inner)) {
            return spec;
        }
        let spec = merged(name).and_then(|table| Self::deserialize(table).ok());
        let spec: Option<&'static Self> = spec.map(|spec| &*Box::leak(Box::new(spec)));
        SPECS.lock().unwrap_or_else(PoisonError::into_inner).insert(name, spec);
        spec
    }

    /// Returns the default class.
    pub(super) fn default_class(&self) -> Class {
        Class::from_name(&self.class).unwrap_or(Class::CausalLm)
    }
}

impl Part {
    /// Returns a kind of part.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        static PARTS_READ: Mutex<BTreeMap<String, Option<&'static Part>>> = Mutex::new(BTreeMap::new());
        if let Some(part) = PARTS_READ.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            return *part;
        }
        let part = slice(PARTS, name).and_then(|table| Self::deserialize(table).ok());
        let part: Option<&'static Self> = part.map(|part| &*Box::leak(Box::new(part)));
        PARTS_READ.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), part);
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_well_formed() {
        toml::from_str::<FieldTable>(FIELDS).unwrap();
        for (text, what) in [(TYPES, "types"), (PARTS, "parts")] {
            let all: toml::Table = toml::from_str(text).unwrap_or_else(|error| panic!("{what}: {error}"));
            for name in all.keys() {
                let table = slice(text, name).unwrap_or_else(|| panic!("{what} {name}"));
                assert_eq!(all[name].as_table(), Some(&table), "{name}");
            }
        }
        for name in TYPES.lines().filter_map(header) {
            let table = merged(name).unwrap_or_else(|| panic!("{name}"));
            let spec = Spec::deserialize(table).unwrap_or_else(|error| panic!("{name}: {error}"));
            let parts = [&spec.mixer, &spec.feed, &spec.other].into_iter().flatten().flat_map(|c| &c.parts);
            for part in parts.chain(&spec.decoder) {
                assert!(Part::find(part).is_some(), "{name}: {part}");
            }
            for tower in
                spec.towers.iter().flat_map(|t| std::iter::once(&t.model_type).chain(t.types.values()))
            {
                assert!(find_type(tower).is_some(), "{name}: {tower}");
            }
        }
        for name in PARTS.lines().filter_map(header) {
            let table = slice(PARTS, name).unwrap();
            Part::deserialize(table).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    #[test]
    fn names_of_types() {
        assert_eq!(find_type("kimi_k2"), Some("deepseek_v3"));
        assert_eq!(find_type("kimi_k3"), None);
        assert_eq!(named_types().count(), 23);
        let mut seen = BTreeSet::new();
        for name in model_types() {
            assert!(seen.insert(name), "{name} twice");
        }
    }

    #[test]
    fn patterns_of_keys() {
        for (pattern, key, expected) in [
            ("*_token_id", "pad_token_id", true),
            ("*_token_id", "pad_token_ids", false),
            ("moe_*_loss*", "moe_z_loss_coef", true),
            ("use_cache", "use_cache", true),
            ("use_cache", "use_caches", false),
            ("*rope*", "rope_theta", true),
            ("is_*", "is_moe", true),
        ] {
            assert_eq!(matches(pattern, key), expected, "{pattern} {key}");
        }
    }
}
