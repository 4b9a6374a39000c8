//! Reads an architecture from a Hugging Face `config.json`.
//!
//! Keys and defaults: `data/fields.toml` and `data/model_types.toml`. An absent key has the default of the
//! configuration class; a missing width, depth or head count is a problem.

use super::Architecture;
use super::builder::{Surroundings, build};
use super::dimensions::ArchitectureProblem;
use super::expression::Term;
use super::family::Family;
use super::fields::{Fields, get};
use super::kinds::{Activation, Class, Positions};
use super::spec::fields;
use serde_json::Value;

/// Keys under which a config holds the config of its text model.
const TEXT_CONFIGS: [&str; 4] = ["text_config", "llm_config", "language_config", "thinker_config"];

impl Architecture {
    /// Reads a Hugging Face `config.json`. All problems are reported together, each with its key.
    ///
    /// The class is not read: [`Self::class_of_hf_config`] takes an entry of `architectures`. A `model_type`
    /// that is not in the table is read by the meaning of its fields, if all of them are known
    /// ([`Self::unknown_type`]).
    pub fn from_hf_config(config: &Value) -> Result<Self, Vec<ArchitectureProblem>> {
        if !config.is_object() {
            let found = format!("`{}`", truncate_value(config));
            let expected = "an object, the content of config.json".to_owned();
            return Err(vec![ArchitectureProblem::Unusable {
                key: "config.json".to_owned(),
                found,
                expected,
            }]);
        }
        let top = family(config).map_err(|problem| vec![problem])?;
        let nested = nested_text_config(config);
        let text = nested.unwrap_or(config);
        let container = top.filter(|top| top.spec().text.is_some());
        let mut found = top;
        // A text model of a type that the table lacks is not that of its container.
        let mut unknown_text = None;
        if let Some(nested) = nested {
            found = family(nested).unwrap_or(None);
            unknown_text = nested.get("model_type").and_then(Value::as_str).filter(|_| found.is_none());
        }
        // A container's own name as that of its text model, or none.
        let inner = |found: Option<Family>| found.and_then(|found| found.spec().text.as_deref());
        let named = found.filter(|found| found.spec().text.is_none());
        let of_container = inner(found).or_else(|| inner(container)).and_then(Family::from_model_type);
        let family = match container {
            Some(container) if container.spec().own_text => of_container,
            _ if unknown_text.is_some() => None,
            _ => named.or(of_container),
        };
        let unknown_type = if family.is_none() || top.is_none() {
            let outer = config.get("model_type").and_then(Value::as_str).filter(|_| top.is_none());
            outer.or(unknown_text).map(str::to_owned)
        } else {
            None
        };
        let around = Fields::new(container.or(top).or(family).unwrap_or(Family::UNKNOWN), config, None);
        let mut read = Fields::new(family.unwrap_or(Family::UNKNOWN), text, nested.map(|_| &around));
        if nested.is_some() {
            // The outer config usually decides whether the head is tied.
            if !around.family.spec().text_ties {
                read.give("tied", Term::Int(i128::from(around.number("tied").unwrap_or(0))));
            }
            for field in ["projector_bias", "projector_hidden", "merge"] {
                if let Some(value) = around.written_number(field) {
                    read.give(field, Term::Int(i128::from(value)));
                }
            }
        }
        let surroundings = Surroundings {
            container: container.map(|container| (container, config)),
            unknown_type: unknown_type.clone(),
            activation: activation(&read, text),
            rope_theta: rope_theta(&read, text),
        };
        let architecture = build(&read, &surroundings);
        // The class of a known type ignores other keys.
        if read.family.is_unknown() {
            report_unknown_keys(&read, text);
        }
        if top.is_none() {
            report_unknown_class(&read, config);
            if nested.is_some() {
                for key in around.used_keys() {
                    read.use_key(key);
                }
                report_unknown_keys(&read, config);
            }
        }
        report_unknown_towers(&read, container.or(top), config);
        for problem in around.take_problems() {
            read.report(problem);
        }
        let problems = read.into_problems();
        match architecture {
            Some(architecture) if problems.is_empty() => Ok(architecture),
            _ => Err(problems),
        }
    }

    /// Returns the class that `architectures` names, if transformers has it for this family.
    pub fn class_of_hf_config(&self, config: &Value) -> Option<Class> {
        let name = config.get("architectures")?.get(0)?.as_str()?;
        let class = self.container.unwrap_or(self.family).class_from_name(name)?;
        let labels = match (config.get("num_labels").and_then(Value::as_u64), config.get("id2label")) {
            (Some(labels), _) => labels,
            (None, Some(Value::Object(labels))) => u64::try_from(labels.len()).unwrap_or(2),
            (None, _) => 2,
        };
        Some(class.with_labels(labels))
    }
}

/// Returns the config of the text model inside a config, if it has its own object.
pub(super) fn nested_text_config(config: &Value) -> Option<&Value> {
    TEXT_CONFIGS.iter().find_map(|key| config.get(key).filter(|nested| nested.is_object()))
}

/// Returns the model type of a config, `None` if the table lacks it.
fn family(config: &Value) -> Result<Option<Family>, ArchitectureProblem> {
    let key = "model_type".to_owned();
    let expected = "the type of the model, such as `llama`".to_owned();
    match config.get("model_type") {
        None | Some(Value::Null) => Err(ArchitectureProblem::Missing { key, expected }),
        Some(Value::String(name)) => Ok(Family::from_model_type(name)),
        Some(value) => Err(ArchitectureProblem::Unusable {
            key,
            found: format!("`{}`", truncate_value(value)),
            expected,
        }),
    }
}

/// Reports the config of a tower that no row of the table counts.
fn report_unknown_towers(read: &Fields<'_>, family: Option<Family>, config: &Value) {
    for key in ["vision_config", "audio_config"] {
        let known = family.is_some_and(|family| family.spec().towers.iter().any(|tower| tower.config == key));
        let Some(value) =
            config.get(key).filter(|value| value.as_object().is_some_and(|object| !object.is_empty()))
        else {
            continue;
        };
        if !known {
            let found = format!("`{}`", truncate_value(value));
            read.report(ArchitectureProblem::Unknown { key: key.to_owned(), found });
        }
    }
}

/// Reports the keys of an unknown type that no formula used and that could change a count.
fn report_unknown_keys(read: &Fields<'_>, config: &Value) {
    let used = read.used_keys();
    let Some(keys) = config.as_object() else { return };
    for (key, value) in keys {
        // Numbers with a fraction are factors; what is absent, false, zero or empty adds nothing.
        let silent = match value {
            Value::Null | Value::Bool(false) => true,
            Value::Number(number) => {
                number.as_f64().is_some_and(|number| number.fract() != 0.0 || number <= 0.0)
            }
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(object) => object.is_empty(),
            Value::Bool(true) => false,
        };
        let text = TEXT_CONFIGS.contains(&key.as_str());
        if silent || text || used.contains(key) || fields().is_unused(key) {
            continue;
        }
        read.report(ArchitectureProblem::Unknown {
            key: key.clone(),
            found: format!("`{}`", truncate_value(value)),
        });
    }
}

/// Reports the class of an unknown type that is no language model: its head is not known.
fn report_unknown_class(read: &Fields<'_>, config: &Value) {
    let class = config.get("architectures").and_then(|names| names.get(0)).and_then(Value::as_str);
    if let Some(class) =
        class.filter(|class| !class.ends_with("ForCausalLM") && !class.ends_with("LMHeadModel"))
    {
        read.report(ArchitectureProblem::Unusable {
            key: "architectures".to_owned(),
            found: format!("`{class}` of an unknown model type"),
            expected: "a class that ends in `ForCausalLM`".to_owned(),
        });
    }
}

fn activation(read: &Fields<'_>, config: &Value) -> Option<Activation> {
    let named = Family::named().any(|family| family == read.family);
    // T5 says it with the projection; Gemma configs contain "gelu" or nothing, and transformers uses the tanh
    // form.
    if matches!(read.family.model_type(), "gemma" | "gemma2") {
        return None;
    }
    if read.family.spec().positions == Positions::Relative {
        return read.holds("gated").then_some(Activation::GeluTanh);
    }
    let keys = ["hidden_act", "activation_function", "activation", "hidden_activation"];
    let (key, value) =
        keys.iter().find_map(|key| Some((key, config.get(key).filter(|value| !value.is_null())?)))?;
    let activation = value.as_str().and_then(Activation::from_config_name);
    // Of an unknown type, it tells whether the feed-forward layer is gated.
    if activation.is_none() && (named || read.family.is_unknown()) {
        read.report(ArchitectureProblem::Unusable {
            key: (*key).to_owned(),
            found: format!("`{}`", truncate_value(value)),
            expected: format!("one of {}", Activation::CONFIG_NAMES.join(", ")),
        });
    }
    activation
}

/// Returns the base of the rotary frequencies; 0 where positions are not rotary.
fn rope_theta(read: &Fields<'_>, config: &Value) -> u64 {
    if read.family.spec().positions != Positions::Rotary || read.holds("has_alibi && alibi") {
        return 0;
    }
    let usual = read.number("rope_theta").unwrap_or(10_000);
    if matches!(read.family.model_type(), "falcon" | "gptj") {
        return usual;
    }
    // transformers 5 moved it into a nested object.
    ["rope_parameters.rope_theta", "rope_theta", "rotary_emb_base"]
        .iter()
        .find_map(|key| whole(get(config, key)?))
        .unwrap_or(usual)
}

fn whole(value: &Value) -> Option<u64> {
    let float = || {
        let value = value.as_f64().filter(|value| value.fract() == 0.0 && (1.0..=9e15).contains(value))?;
        format!("{value:.0}").parse().ok()
    };
    value.as_u64().or_else(float)
}

/// Returns at most 40 characters of a value, for messages.
pub(super) fn truncate_value(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 40 {
        text
    } else {
        format!("{}…", text.chars().take(40).collect::<String>())
    }
}

/// Parses the text of a `config.json`. Python writes `Infinity` and `NaN`, which are not JSON; they are read
/// as null.
pub fn parse_hf_config(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| {
        let plain = without_infinity(text);
        if plain == text { Err(error) } else { serde_json::from_str(&plain) }
    })
}

/// Replaces `Infinity`, `-Infinity` and `NaN` outside of strings by `null`.
fn without_infinity(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| rest.starts_with(word));
        let taken = if let Some(word) = word {
            plain.push_str("null");
            word.len()
        } else if first == '"' {
            let length = string_length(rest);
            plain.push_str(rest.get(..length).unwrap_or(rest));
            length
        } else {
            plain.push(first);
            first.len_utf8()
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    plain
}

/// Returns the bytes of the string at the start of a text, with its quotes.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at.saturating_add(1),
            _ => {}
        }
    }
    text.len()
}
