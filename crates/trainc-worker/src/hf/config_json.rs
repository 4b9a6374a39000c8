//! Conversion between Hugging Face's `config.json` and the worker's config. Differences and unsupported
//! settings are reported by name.

use serde_json::{Map, Value, json};

use crate::config::{Activation, Config, Family, ScalingKind};

/// Settings of a `config.json` as paths below `model` with their values, and unsupported settings.
#[derive(Debug, Default)]
pub struct ConfigJson {
    /// Pairs of path and value.
    pub facts: Vec<(&'static str, Value)>,
    /// Unsupported settings.
    pub refused: Vec<String>,
    /// Maximum number of positions of the model.
    pub positions: Option<usize>,
    /// Attention window in tokens; none for full attention.
    pub window: Option<usize>,
}

struct Reader<'a> {
    json: &'a Value,
    card: ConfigJson,
}

impl Reader<'_> {
    /// Returns the first of these members that exists and is not null.
    fn get(&self, names: &[&str]) -> Option<Value> {
        names.iter().find_map(|name| self.json.get(name).filter(|v| !v.is_null()).cloned())
    }

    fn add_fact(&mut self, path: &'static str, names: &[&str], default: Option<Value>) {
        match self.get(names).or(default) {
            Some(value) => self.card.facts.push((path, value)),
            None => self.card.refused.push(format!("`{}` is missing", names[0])),
        }
    }

    /// Requires this value of a member, which is also its default.
    fn require(&mut self, name: &str, value: &Value) {
        if let Some(found) = self.get(&[name]).filter(|found| !same(found, value)) {
            self.card.refused.push(format!("`{name}` is {found}: only {value} is supported"));
        }
    }

    fn activation(&mut self, name: &str, default: &str) {
        let found = self.get(&[name]).unwrap_or_else(|| json!(default));
        let ours = match found.as_str() {
            Some("gelu") => "gelu",
            Some("gelu_new" | "gelu_fast" | "gelu_pytorch_tanh") => "gelu-tanh",
            Some("silu" | "swish") if default == "silu" => "swiglu",
            _ => {
                self.card.refused.push(format!("`{name}` {found} is unsupported"));
                return;
            }
        };
        self.card.facts.push(("activation", json!(ours)));
    }

    /// Reads rotary positions: `rope_parameters` of newer files, `rope_theta` and `rope_scaling` of older
    /// ones.
    fn rotary(&mut self, base: &[&str], part: &[&str], default_part: f64) {
        let rope = self.get(&["rope_parameters", "rope_scaling"]).unwrap_or_else(|| json!({}));
        let inner = |name: &str| rope.get(name).filter(|v| !v.is_null()).cloned();
        let theta = inner("rope_theta").or_else(|| self.get(base)).unwrap_or_else(|| json!(10_000.0));
        let fraction =
            inner("partial_rotary_factor").or_else(|| self.get(part)).unwrap_or_else(|| json!(default_part));
        self.card.facts.push(("positions.kind", json!("rotary")));
        self.card.facts.push(("positions.theta", theta));
        self.card.facts.push(("positions.fraction", fraction));
        let kind = inner("rope_type").or_else(|| inner("type")).unwrap_or_else(|| json!("default"));
        let original =
            inner("original_max_position_embeddings").or_else(|| self.get(&["max_position_embeddings"]));
        let number = |name: &str| inner(name).unwrap_or(Value::Null);
        let scaling = match kind.as_str() {
            Some("default") => Value::Null,
            Some("linear") => {
                json!({"kind": "linear", "factor": number("factor"), "low_frequency_factor": null,
                "high_frequency_factor": null, "original_positions": null})
            }
            // `transformers` uses the model's maximum length as the original one (modeling_rope_utils.py), so
            // longer sequences are the purpose of this scaling.
            Some("dynamic") => {
                json!({"kind": "dynamic", "factor": number("factor"), "low_frequency_factor": null,
                "high_frequency_factor": null, "original_positions": self.get(&["max_position_embeddings"])})
            }
            Some("llama3") => json!({"kind": "llama3", "factor": number("factor"),
                "low_frequency_factor": number("low_freq_factor"), "high_frequency_factor": number("high_freq_factor"),
                "original_positions": original}),
            _ => {
                self.card.refused.push(format!("position scaling {kind} is unsupported"));
                return;
            }
        };
        self.card.facts.push(("positions.scaling", scaling));
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
            _ => a == b,
        },
    }
}

/// Returns the dropout settings above 0, under the names of transformers' Llama, Mistral, GPT-2 and GPT-NeoX.
pub fn dropout(json: &Value) -> Vec<(&'static str, f64)> {
    let names = ["attention_dropout", "hidden_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop"];
    let asked = |name| Some((name, json.get(name)?.as_f64().filter(|p| *p > 0.0)?));
    names.into_iter().filter_map(asked).collect()
}

/// Reads a `config.json`.
pub fn read(json: &Value) -> ConfigJson {
    let mut r = Reader { json, card: ConfigJson::default() };
    let kind = r.get(&["model_type"]).unwrap_or(Value::Null);
    let count = |r: &Reader<'_>, names: &[&str]| r.get(names).and_then(|v| v.as_u64()).map(|n| n as usize);
    match kind.as_str() {
        Some(name @ ("llama" | "mistral")) => {
            r.card.facts.push(("family", json!("llama")));
            r.add_fact("vocab_size", &["vocab_size"], None);
            r.add_fact("hidden_size", &["hidden_size"], None);
            r.add_fact("intermediate_size", &["intermediate_size"], None);
            r.add_fact("layers", &["num_hidden_layers"], None);
            r.add_fact("heads", &["num_attention_heads"], None);
            let (heads, hidden) = (r.get(&["num_attention_heads"]), count(&r, &["hidden_size"]));
            let dim = hidden.zip(count(&r, &["num_attention_heads"])).map(|(h, n)| json!(h / n.max(1)));
            r.add_fact(
                "kv_heads",
                &["num_key_value_heads"],
                if name == "mistral" { Some(json!(8)) } else { heads },
            );
            r.add_fact("head_dim", &["head_dim"], dim);
            r.card.facts.push(("norm.kind", json!("rms")));
            r.add_fact("norm.eps", &["rms_norm_eps"], Some(json!(1e-6)));
            r.activation("hidden_act", "silu");
            r.require("attention_bias", &json!(false));
            r.require("mlp_bias", &json!(false));
            r.card.facts.push(("biases", json!("none")));
            r.card.facts.push(("parallel_residual", json!(false)));
            r.rotary(&["rope_theta"], &["partial_rotary_factor"], 1.0);
            r.add_fact("tied_embeddings", &["tie_word_embeddings"], Some(json!(false)));
            r.card.window = count(&r, &["sliding_window"]);
            r.card.positions = count(&r, &["max_position_embeddings"]);
        }
        Some("gpt2") => {
            r.card.facts.push(("family", json!("gpt2")));
            r.add_fact("vocab_size", &["vocab_size"], Some(json!(50_257)));
            r.add_fact("hidden_size", &["n_embd", "hidden_size"], Some(json!(768)));
            let inner = count(&r, &["n_embd", "hidden_size"]).unwrap_or(768) * 4;
            r.add_fact("intermediate_size", &["n_inner"], Some(json!(inner)));
            r.add_fact("layers", &["n_layer", "num_hidden_layers"], Some(json!(12)));
            r.add_fact("heads", &["n_head", "num_attention_heads"], Some(json!(12)));
            r.add_fact("kv_heads", &["n_head", "num_attention_heads"], Some(json!(12)));
            r.card.facts.push(("norm.kind", json!("layer")));
            r.add_fact("norm.eps", &["layer_norm_epsilon"], Some(json!(1e-5)));
            r.activation("activation_function", "gelu_new");
            r.require("scale_attn_weights", &json!(true));
            r.require("scale_attn_by_inverse_layer_idx", &json!(false));
            r.require("add_cross_attention", &json!(false));
            r.card.facts.push(("biases", json!("all")));
            r.card.facts.push(("parallel_residual", json!(false)));
            r.card.facts.push(("positions.kind", json!("learned")));
            r.add_fact("tied_embeddings", &["tie_word_embeddings"], Some(json!(true)));
            r.card.positions = count(&r, &["n_positions", "max_position_embeddings"]).or(Some(1024));
        }
        Some("gpt_neox") => {
            r.card.facts.push(("family", json!("gpt-neox")));
            r.add_fact("vocab_size", &["vocab_size"], None);
            r.add_fact("hidden_size", &["hidden_size"], None);
            r.add_fact("intermediate_size", &["intermediate_size"], None);
            r.add_fact("layers", &["num_hidden_layers"], None);
            r.add_fact("heads", &["num_attention_heads"], None);
            r.add_fact("kv_heads", &["num_attention_heads"], None);
            r.card.facts.push(("norm.kind", json!("layer")));
            r.add_fact("norm.eps", &["layer_norm_eps"], Some(json!(1e-5)));
            r.activation("hidden_act", "gelu");
            r.require("attention_bias", &json!(true));
            r.card.facts.push(("biases", json!("all")));
            r.add_fact("parallel_residual", &["use_parallel_residual"], Some(json!(true)));
            r.rotary(&["rotary_emb_base", "rope_theta"], &["rotary_pct"], 0.25);
            r.add_fact("tied_embeddings", &["tie_word_embeddings"], Some(json!(false)));
            r.card.positions = count(&r, &["max_position_embeddings"]);
        }
        _ => r
            .card
            .refused
            .push(format!("`model_type` {kind} is unsupported, expected llama, mistral, gpt2 or gpt_neox")),
    }
    r.card
}

/// Returns all differences between a `config.json` and the worker's config.
pub fn differences(json: &Value, config: &Config) -> Vec<String> {
    let card = read(json);
    let mut out = card.refused;
    let ours = serde_json::to_value(&config.model).unwrap_or_default();
    for (path, theirs) in card.facts {
        let pointer = format!("/{}", path.replace('.', "/"));
        let own = ours.pointer(&pointer).cloned().unwrap_or(Value::Null);
        if !same(&own, &theirs) {
            out.push(format!("it has {theirs} for `model.{path}`, which is {own} in the config"));
        }
    }
    let s = config.model.sequence_length;
    let dynamic = config.model.positions.scaling.as_ref().is_some_and(|s| s.kind == ScalingKind::Dynamic);
    if !dynamic && card.positions.is_some_and(|positions| positions < s) {
        out.push(format!(
            "it has {} positions, but `model.sequence_length` is {s}",
            card.positions.unwrap_or(0)
        ));
    }
    if let Some(window) = card.window.filter(|window| *window < s) {
        out.push(format!(
            "`sliding_window` {window} is less than `model.sequence_length` {s}: sliding-window \
            attention is unsupported"
        ));
    }
    out
}

fn activation(kind: Activation) -> &'static str {
    match kind {
        Activation::Swiglu => "silu",
        Activation::Gelu => "gelu",
        Activation::GeluTanh => "gelu_new",
    }
}

/// Creates the `config.json` of this model. Other members are kept from `base`, the file of the weights that
/// training started from.
pub fn write(config: &Config, base: Option<&Value>, dtype: &str) -> Value {
    let m = &config.model;
    let mut out = match base.and_then(Value::as_object) {
        Some(base) => base.clone(),
        None => new_config_json(config),
    };
    let named = |f32: &str| f32.to_owned();
    let dtype = match dtype {
        "BF16" => named("bfloat16"),
        "F16" => named("float16"),
        _ => named("float32"),
    };
    // Newer and older versions of `transformers` read different names.
    for name in ["dtype", "torch_dtype"] {
        if base.is_none() || out.contains_key(name) {
            out.insert(name.to_owned(), json!(dtype));
        }
    }
    if m.family == Family::Gpt2 {
        // The table of positions is as long as the training sequences.
        out.insert("n_positions".to_owned(), json!(m.sequence_length));
        if out.contains_key("n_ctx") {
            out.insert("n_ctx".to_owned(), json!(m.sequence_length));
        }
    }
    Value::Object(out)
}

fn new_config_json(config: &Config) -> Map<String, Value> {
    let m = &config.model;
    let scaling = m.positions.scaling.as_ref().map(|s| {
        let kind = match s.kind {
            ScalingKind::Linear => "linear",
            ScalingKind::Dynamic => "dynamic",
            ScalingKind::Llama3 => "llama3",
        };
        let mut out =
            Map::from_iter([("rope_type".to_owned(), json!(kind)), ("factor".to_owned(), json!(s.factor))]);
        for (name, value) in [
            ("low_freq_factor", s.low_frequency_factor.map(|v| json!(v))),
            ("high_freq_factor", s.high_frequency_factor.map(|v| json!(v))),
            (
                "original_max_position_embeddings",
                s.original_positions.filter(|_| s.kind == ScalingKind::Llama3).map(|v| json!(v)),
            ),
        ] {
            out.extend(value.map(|value| (name.to_owned(), value)));
        }
        Value::Object(out)
    });
    // Dynamic scaling uses them as the original positions.
    let original = m.positions.scaling.as_ref().filter(|s| s.kind == ScalingKind::Dynamic);
    let positions = original.and_then(|s| s.original_positions).unwrap_or(m.sequence_length);
    let mut parameters = scaling.clone().unwrap_or_else(|| json!({"rope_type": "default"}));
    if let Some(parameters) = parameters.as_object_mut() {
        parameters.insert("rope_theta".to_owned(), json!(m.positions.theta));
        if m.family == Family::GptNeox {
            parameters.insert("partial_rotary_factor".to_owned(), json!(m.positions.fraction));
        }
    }
    let out = match m.family {
        Family::Llama => json!({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "vocab_size": m.vocab_size, "hidden_size": m.hidden_size, "intermediate_size": m.intermediate_size,
            "num_hidden_layers": m.layers, "num_attention_heads": m.heads, "num_key_value_heads": m.kv_heads,
            "head_dim": m.head_dim, "max_position_embeddings": positions, "rms_norm_eps": m.norm.eps,
            "rope_theta": m.positions.theta, "rope_scaling": scaling, "rope_parameters": parameters,
            "tie_word_embeddings": m.tied_embeddings, "initializer_range": m.initializer_range,
            "attention_bias": false, "mlp_bias": false,
        }),
        Family::Gpt2 => json!({
            "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": activation(m.activation),
            "vocab_size": m.vocab_size, "n_embd": m.hidden_size, "n_inner": m.intermediate_size, "n_layer": m.layers,
            "n_head": m.heads, "n_positions": m.sequence_length, "layer_norm_epsilon": m.norm.eps,
            "tie_word_embeddings": m.tied_embeddings, "initializer_range": m.initializer_range,
        }),
        Family::GptNeox => json!({
            "architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "hidden_act": activation(m.activation),
            "vocab_size": m.vocab_size, "hidden_size": m.hidden_size, "intermediate_size": m.intermediate_size,
            "num_hidden_layers": m.layers, "num_attention_heads": m.heads, "max_position_embeddings": positions,
            "layer_norm_eps": m.norm.eps, "rotary_pct": m.positions.fraction, "rotary_emb_base": m.positions.theta,
            "rope_scaling": scaling, "rope_parameters": parameters, "use_parallel_residual": m.parallel_residual,
            "tie_word_embeddings": m.tied_embeddings, "initializer_range": m.initializer_range, "attention_bias": true,
        }),
    };
    out.as_object().cloned().unwrap_or_default()
}
