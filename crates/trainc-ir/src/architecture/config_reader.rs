//! Reads typed values from a Hugging Face config and reports invalid ones.

use super::dimensions::ArchitectureProblem;
use super::family::Family;
use super::kinds::Activation;
use serde_json::Value;

/// A config being read, with its problems.
pub(super) struct ConfigReader<'a> {
    pub(super) config: &'a Value,
    pub(super) problems: Vec<ArchitectureProblem>,
    /// Dimension and key pairs, so that problems of a dimension name its key.
    pub(super) keys: Vec<(&'static str, &'static str)>,
}

/// Keys of the common dimensions, preferred ones first.
pub(super) struct Keys {
    pub(super) hidden: &'static [&'static str],
    pub(super) layers: &'static [&'static str],
    pub(super) heads: &'static [&'static str],
    pub(super) ffn: &'static [&'static str],
    pub(super) positions: &'static [&'static str],
}

const USUAL: Keys = Keys {
    hidden: &["hidden_size"],
    layers: &["num_hidden_layers"],
    heads: &["num_attention_heads"],
    ffn: &["intermediate_size"],
    positions: &["max_position_embeddings"],
};

const GPT2: Keys = Keys {
    hidden: &["n_embd", "hidden_size"],
    layers: &["n_layer", "num_hidden_layers"],
    heads: &["n_head", "num_attention_heads"],
    ffn: &["n_inner"],
    positions: &["n_positions", "n_ctx", "max_position_embeddings"],
};

pub(super) fn keys(family: Family) -> Keys {
    match family.model_type() {
        "gpt2" | "gptj" | "gpt_bigcode" => GPT2,
        "gpt_neo" => Keys { layers: &["num_layers"], heads: &["num_heads"], ..USUAL },
        "falcon" => Keys {
            layers: &["num_hidden_layers", "n_layer"],
            heads: &["num_attention_heads", "n_head"],
            ffn: &["ffn_hidden_size"],
            ..USUAL
        },
        "opt" => Keys { ffn: &["ffn_dim"], ..USUAL },
        "bloom" => Keys {
            hidden: &["hidden_size", "n_embed"],
            layers: &["n_layer", "num_hidden_layers"],
            heads: &["n_head", "num_attention_heads"],
            ffn: &[],
            positions: &["seq_length"],
        },
        "mpt" => Keys {
            hidden: &["d_model"],
            layers: &["n_layers"],
            heads: &["n_heads"],
            ffn: &[],
            positions: &["max_seq_len"],
        },
        "distilbert" => Keys {
            hidden: &["dim"],
            layers: &["n_layers"],
            heads: &["n_heads"],
            ffn: &["hidden_dim"],
            ..USUAL
        },
        "t5" => Keys {
            hidden: &["d_model"],
            layers: &["num_layers"],
            heads: &["num_heads"],
            ffn: &["d_ff"],
            positions: &["n_positions"],
        },
        _ => USUAL,
    }
}

impl<'a> ConfigReader<'a> {
    /// Returns the first of these keys that exists and is not null.
    pub(super) fn get(&self, keys: &[&'static str]) -> Option<(&'static str, &'a Value)> {
        keys.iter()
            .find_map(|key| self.config.get(key).filter(|value| !value.is_null()).map(|value| (*key, value)))
    }

    pub(super) fn report_unusable(&mut self, key: &str, found: &Value, expected: impl Into<String>) {
        let found = format!("`{}`", truncate_value(found));
        self.problems.push(ArchitectureProblem::Unusable {
            key: key.to_owned(),
            found,
            expected: expected.into(),
        });
    }

    /// Reads a whole number and records its key for the dimension.
    pub(super) fn number(&mut self, field: &'static str, keys: &[&'static str]) -> Option<u64> {
        if let Some(first) = keys.first() {
            self.keys.push((field, first));
        }
        let (key, value) = self.get(keys)?;
        if let Some(last) = self.keys.last_mut() {
            last.1 = key;
        }
        // RoPE bases are written as floats, such as 10000.0.
        let whole = value.as_u64().or_else(|| to_whole_number(value.as_f64()?));
        if whole.is_none() {
            self.report_unusable(key, value, "a whole number of at least 1");
        }
        whole
    }

    pub(super) fn flag(&mut self, field: &'static str, key: &'static str) -> Option<bool> {
        self.keys.push((field, key));
        let (_, value) = self.get(&[key])?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.report_unusable(key, value, "true or false");
        }
        flag
    }

    /// Rejects a flag value for which the parameter count has no formula.
    pub(super) fn reject_flag(&mut self, key: &'static str, rejected: bool, expected: &str) {
        if let Some((_, value)) = self.get(&[key])
            && value.as_bool() == Some(rejected)
        {
            self.report_unusable(key, value, expected);
        }
    }

    pub(super) fn activation(&mut self, family: Family) -> Option<Activation> {
        if family == Family::T5 {
            return None;
        }
        let keys = ["hidden_act", "activation_function", "activation", "hidden_activation"];
        let (key, value) = self.get(&keys)?;
        // Gemma configs contain "gelu" or nothing, and transformers always uses the tanh form.
        if matches!(family, Family::Gemma | Family::Gemma2) {
            return None;
        }
        let activation = value.as_str().and_then(Activation::from_config_name);
        if activation.is_none() {
            self.report_unusable(key, value, format!("one of {}", Activation::CONFIG_NAMES.join(", ")));
        }
        activation
    }
}

/// Converts a float without a fraction, if it is small enough to be exact.
pub(super) fn to_whole_number(value: f64) -> Option<u64> {
    let text = format!("{value:.0}");
    if value.fract() == 0.0 && (1.0..=9e15).contains(&value) { text.parse().ok() } else { None }
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
