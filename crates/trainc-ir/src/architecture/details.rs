//! Numerical details of a model that do not affect its parameter counts.

use super::Family;
use super::config::nested_text_config;
use serde_json::Value;

/// Details that are required to compute with a model; unknown ones are `None`.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Details {
    /// Added to the variance in norms; no unit.
    pub norm_eps: Option<f64>,
    /// Standard deviation of the initial weights.
    pub initializer_range: Option<f64>,
    /// Fraction of each head with rotary positions, 0 to 1.
    pub rotary_fraction: Option<f64>,
    /// RoPE scaling.
    pub rope_scaling: Option<RopeScaling>,
    /// Attention window in tokens, if limited.
    pub window: Option<u64>,
    /// Other features that few programs support, as lowercase fragments.
    #[serde(skip)]
    pub unusual: Vec<String>,
}

/// RoPE scaling by Hugging Face's `rope_type` (`modeling_rope_utils.py` of transformers).
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all(deserialize = "kebab-case"), deny_unknown_fields)]
pub struct RopeScaling {
    /// The kind of scaling.
    pub kind: ScalingKind,
    /// Multiple of the original length.
    pub factor: f64,
    /// Wavelengths longer than the original length divided by this are scaled by the full factor (`llama3`
    /// only).
    pub low_frequency_factor: Option<f64>,
    /// Wavelengths shorter than the original length divided by this are not scaled (`llama3` only).
    pub high_frequency_factor: Option<f64>,
    /// Original context length in tokens; `None` for `linear`.
    pub original_positions: Option<u64>,
}

/// The kind of RoPE scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScalingKind {
    /// Every wavelength by the factor.
    Linear,
    /// The base grows with sequences longer than the original.
    Dynamic,
    /// Long wavelengths by the factor, short ones not, with interpolation between them (Llama 3.1).
    Llama3,
}

impl ScalingKind {
    /// Returns its name in Hugging Face configs and worker.json.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Dynamic => "dynamic",
            Self::Llama3 => "llama3",
        }
    }
}

impl Details {
    /// Reads the details from a Hugging Face `config.json` of a decoder. Absent keys stay unknown.
    pub fn from_hf_config(config: &Value, family: Family) -> Self {
        let config = nested_text_config(config).unwrap_or(config);
        let get =
            |keys: &[&str]| keys.iter().find_map(|key| config.get(key).filter(|value| !value.is_null()));
        let number = |keys: &[&str]| get(keys).and_then(Value::as_f64);
        let mut unusual = Vec::new();
        if family == Family::GPT2 {
            for (key, usual) in [
                ("scale_attn_weights", true),
                ("scale_attn_by_inverse_layer_idx", false),
                ("add_cross_attention", false),
            ] {
                if let Some(found) = get(&[key]).and_then(Value::as_bool).filter(|found| *found != usual) {
                    unusual.push(format!("`{key}` {found}"));
                }
            }
        }
        let rope = get(&["rope_parameters", "rope_scaling"]);
        let both = [get(&["rope_parameters"]), get(&["rope_scaling"])];
        if let [Some(new), Some(old)] = both
            && [("rope_type", "type"), ("factor", "factor")]
                .iter()
                .any(|(key, alias)| new.get(key).or(new.get(alias)) != old.get(key).or(old.get(alias)))
        {
            unusual.push("`rope_parameters` and `rope_scaling` that differ".to_owned());
        }
        let inner = |key: &str| rope.and_then(|rope| rope.get(key)).filter(|value| !value.is_null());
        let kind = inner("rope_type").or_else(|| inner("type")).and_then(Value::as_str).unwrap_or("default");
        let factor = |key: &str| inner(key).and_then(Value::as_f64);
        let whole = |value: Option<&Value>| value.and_then(Value::as_u64);
        let positions = whole(get(&["max_position_embeddings"]));
        // These factors have no default; transformers rejects a config without them too.
        let needed: &[&str] = match kind {
            "linear" | "dynamic" => &["factor"],
            "llama3" => &["factor", "low_freq_factor", "high_freq_factor"],
            _ => &[],
        };
        let lacking = needed.iter().find(|key| factor(key).is_none());
        let stretched = |kind, original| {
            Some(RopeScaling {
                kind,
                factor: factor("factor")?,
                low_frequency_factor: None,
                high_frequency_factor: None,
                original_positions: original,
            })
        };
        let rope_scaling = match (kind, lacking) {
            ("default", _) => None,
            (kind, Some(key)) => {
                unusual.push(format!("positions scaled by `{kind}` without a number as `{key}`"));
                None
            }
            ("linear", _) => stretched(ScalingKind::Linear, None),
            // transformers uses the model's positions as the original ones.
            ("dynamic", _) => stretched(ScalingKind::Dynamic, positions),
            ("llama3", _) => {
                let original = whole(inner("original_max_position_embeddings")).or(positions);
                stretched(ScalingKind::Llama3, original).map(|scaling| RopeScaling {
                    low_frequency_factor: factor("low_freq_factor"),
                    high_frequency_factor: factor("high_freq_factor"),
                    ..scaling
                })
            }
            (other, _) => {
                unusual.push(format!("positions scaled by `{other}`"));
                None
            }
        };
        Self {
            norm_eps: number(&["rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps"]),
            initializer_range: number(&["initializer_range"]),
            rotary_fraction: factor("partial_rotary_factor")
                .or_else(|| number(&["rotary_pct", "partial_rotary_factor"])),
            rope_scaling,
            // Default of Mistral (transformers, `MistralConfig`); `null` means no window.
            window: match config.get("sliding_window") {
                None if config.get("model_type").and_then(Value::as_str) == Some("mistral") => Some(4_096),
                written => whole(written),
            },
            unusual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn details_are_read_from_a_config() {
        let llama = json!({"rms_norm_eps": 1e-6, "initializer_range": 0.01, "max_position_embeddings": 131_072,
            "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8_192}});
        let found = Details::from_hf_config(&llama, Family::LLAMA);
        let scaling = RopeScaling {
            kind: ScalingKind::Llama3,
            factor: 8.0,
            low_frequency_factor: Some(1.0),
            high_frequency_factor: Some(4.0),
            original_positions: Some(8_192),
        };
        assert_eq!((found.norm_eps, found.initializer_range), (Some(1e-6), Some(0.01)));
        assert_eq!(found.rope_scaling, Some(scaling));
        // The newer form, and `null` as absent.
        let newer = json!({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4},
            "sliding_window": null, "rms_norm_eps": null});
        let found = Details::from_hf_config(&newer, Family::MISTRAL);
        assert_eq!(
            found.rope_scaling.map(|scaling| (scaling.kind, scaling.factor)),
            Some((ScalingKind::Linear, 2.0))
        );
        assert_eq!((found.window, found.norm_eps), (None, None));
        let yarn = json!({"rope_scaling": {"type": "yarn", "factor": 4.0}, "sliding_window": 4_096});
        let found = Details::from_hf_config(&yarn, Family::MISTRAL);
        assert_eq!(
            (found.window, found.unusual),
            (Some(4_096), vec!["positions scaled by `yarn`".to_owned()])
        );
        for (scaling, says) in [
            (json!({"type": "linear"}), "positions scaled by `linear` without a number as `factor`"),
            (
                json!({"type": "dynamic", "factor": "2"}),
                "positions scaled by `dynamic` without a number as `factor`",
            ),
            (
                json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}),
                "positions scaled by `llama3` without a number as `high_freq_factor`",
            ),
        ] {
            let found = Details::from_hf_config(&json!({"rope_scaling": scaling}), Family::LLAMA);
            assert_eq!((found.rope_scaling, found.unusual), (None, vec![says.to_owned()]));
        }
        let gpt2 = json!({"layer_norm_epsilon": 1e-5, "scale_attn_by_inverse_layer_idx": true});
        let found = Details::from_hf_config(&gpt2, Family::GPT2);
        assert_eq!(found.unusual, ["`scale_attn_by_inverse_layer_idx` true"]);
        let window = |config: Value| Details::from_hf_config(&config, Family::LLAMA).window;
        assert_eq!(window(json!({"model_type": "mistral"})), Some(4_096));
        assert_eq!(window(json!({"model_type": "mistral", "sliding_window": null})), None);
        assert_eq!(window(json!({"model_type": "llama"})), None);
        let of_both = |old: Value| {
            let new = json!({"rope_type": "default", "rope_theta": 1e4});
            let config = json!({"rope_parameters": new, "rope_scaling": old});
            Details::from_hf_config(&config, Family::LLAMA).unusual.len()
        };
        assert_eq!(of_both(json!({"rope_type": "linear", "factor": 2.0})), 1);
        assert_eq!(of_both(json!({"type": "default"})), 0);
        assert_eq!(of_both(Value::Null), 0);
        let neox = json!({"layer_norm_eps": 1e-5, "rotary_pct": 1.0, "rope_scaling": null});
        let found = Details::from_hf_config(&neox, Family::GPT_NEOX);
        assert_eq!((found.rotary_fraction, found.rope_scaling), (Some(1.0), None));
    }
}
