//! Reads an architecture from a Hugging Face `config.json`.
//!
//! Keys: the `configuration_*.py` of transformers 5, with the spellings of older files. An absent key has the default of the
//! configuration class where that default is a rule, as in transformers; a missing width, depth or head count is a problem.

use super::Architecture;
use super::config_reader::{ConfigReader, keys, to_whole_number, truncate_value};
use super::dimensions::{ArchitectureProblem, Dimensions};
use super::family::Family;
use super::kinds::Class;
use serde_json::Value;

impl Architecture {
    /// Reads a Hugging Face `config.json`. All problems are reported together, each with its key.
    ///
    /// The class is not read: [`Family::class_from_name`] takes an entry of `architectures`.
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
        let family = family(config)?;
        let mut r = ConfigReader { config, problems: Vec::new(), keys: Vec::new() };
        let dimensions = dimensions(&mut r, family);
        let ConfigReader { mut problems, keys, .. } = r;
        match Self::from_dimensions(family, &dimensions) {
            Ok((architecture, _)) if problems.is_empty() => Ok(architecture),
            Ok(_) => Err(problems),
            Err(more) => {
                // An invalid key must not be reported as missing too.
                let renamed = more.into_iter().map(|problem| rename(problem, &keys));
                let fresh: Vec<ArchitectureProblem> =
                    renamed.filter(|p| !problems.iter().any(|q| q.key() == p.key())).collect();
                problems.extend(fresh);
                Err(problems)
            }
        }
    }

    /// Returns the class that `architectures` names, if transformers has it for this family.
    pub fn class_of_hf_config(&self, config: &Value) -> Option<Class> {
        let name = config.get("architectures")?.get(0)?.as_str()?;
        let class = self.family.class_from_name(name)?;
        match (class, config.get("num_labels").and_then(Value::as_u64), config.get("id2label")) {
            (Class::SequenceClassification { .. }, Some(labels), _) => {
                Some(Class::SequenceClassification { labels })
            }
            (Class::SequenceClassification { .. }, None, Some(Value::Object(labels))) => {
                Some(Class::SequenceClassification { labels: u64::try_from(labels.len()).unwrap_or(2) })
            }
            (class, _, _) => Some(class),
        }
    }
}

fn family(config: &Value) -> Result<Family, Vec<ArchitectureProblem>> {
    let expected = || format!("one of {}", Family::ALL.map(Family::model_type).join(", "));
    let key = "model_type".to_owned();
    match config.get("model_type") {
        None | Some(Value::Null) => Err(vec![ArchitectureProblem::Missing { key, expected: expected() }]),
        Some(value) => {
            // Names in Falcon configs from before its integration into transformers.
            let name = match value.as_str() {
                Some("RefinedWeb" | "RefinedWebModel") => Some("falcon"),
                name => name,
            };
            let unusable = || {
                vec![ArchitectureProblem::Unusable {
                    key,
                    found: format!("`{}`", truncate_value(value)),
                    expected: expected(),
                }]
            };
            name.and_then(Family::from_name).ok_or_else(unusable)
        }
    }
}

fn rename(problem: ArchitectureProblem, keys: &[(&'static str, &'static str)]) -> ArchitectureProblem {
    let key_of = |field: String| {
        keys.iter().find(|(ours, _)| *ours == field).map_or(field, |(_, theirs)| (*theirs).to_owned())
    };
    match problem {
        ArchitectureProblem::Missing { key, expected } => {
            ArchitectureProblem::Missing { key: key_of(key), expected }
        }
        ArchitectureProblem::Unusable { key, found, expected } => {
            ArchitectureProblem::Unusable { key: key_of(key), found, expected }
        }
        ArchitectureProblem::Indivisible { key, found, of, whole } => {
            ArchitectureProblem::Indivisible { key: key_of(key), found, of, whole }
        }
    }
}

fn dimensions(r: &mut ConfigReader<'_>, family: Family) -> Dimensions {
    let keys = keys(family);
    let mut d = Dimensions {
        hidden: r.number("hidden", keys.hidden),
        layers: r.number("layers", keys.layers),
        heads: r.number("heads", keys.heads),
        ffn: r.number("ffn", keys.ffn),
        vocab: r.number("vocab", &["vocab_size"]),
        positions: r.number("positions", keys.positions),
        tied: r.flag("tied", "tie_word_embeddings"),
        activation: r.activation(family),
        ..Dimensions::default()
    };
    let free = |field: &str| family.spec().free.contains(&field);
    if free("kv-heads") {
        d.kv_heads = r.number("kv-heads", &["num_key_value_heads"]);
    }
    if free("head-dim") {
        d.head_dim = r.number("head-dim", if family == Family::T5 { &["d_kv"] } else { &["head_dim"] });
    }
    if free("types") {
        d.types = r.number("types", &["type_vocab_size"]);
    }
    rope(r, &mut d, family);
    match family.model_type() {
        "llama" => {
            d.qkv_bias = r.flag("qkv-bias", "attention_bias");
            d.out_bias = d.qkv_bias;
            d.mlp_bias = r.flag("mlp-bias", "mlp_bias");
        }
        "gpt_neox" | "qwen3" | "gemma" | "gemma2" => {
            d.qkv_bias = r.flag("qkv-bias", "attention_bias");
            d.out_bias = d.qkv_bias;
            if family == Family::GptNeoX {
                d.parallel = r.flag("parallel", "use_parallel_residual");
            }
        }
        "mixtral" => {
            d.experts = r.number("experts", &["num_local_experts"]);
            d.active_experts = r.number("active-experts", &["num_experts_per_tok"]);
        }
        "gpt_bigcode" => {
            // One key head for all, unless `multi_query` is off.
            d.kv_heads = if r.flag("kv-heads", "multi_query") == Some(false) { d.heads } else { Some(1) };
        }
        "phi" => r.reject_flag(
            "qk_layernorm",
            true,
            "false: norms of queries and keys are not counted for this family",
        ),
        "stablelm" => {
            r.reject_flag(
                "qk_layernorm",
                true,
                "false: norms of queries and keys are not counted for this family",
            );
            d.qkv_bias = r.flag("qkv-bias", "use_qkv_bias");
            d.parallel = r.flag("parallel", "use_parallel_residual");
        }
        "falcon" => falcon(r, &mut d),
        "opt" => {
            r.reject_flag(
                "layer_norm_elementwise_affine",
                false,
                "true: norms without weights are not counted",
            );
            d.word_embedding = r.number("word-embedding", &["word_embed_proj_dim"]);
            d.final_norm = r.flag("final-norm", "do_layer_norm_before");
            if r.flag("final-norm", "_remove_final_layer_norm") == Some(true) {
                d.final_norm = Some(false);
            }
            d.qkv_bias = r.flag("qkv-bias", "enable_bias");
            d.out_bias = d.qkv_bias;
            d.mlp_bias = d.qkv_bias;
        }
        "mpt" => {
            if let Some(ratio) = r.number("ffn", &["expansion_ratio"]) {
                d.ffn = d.hidden.map(|hidden| hidden.saturating_mul(ratio));
            }
            r.reject_flag("no_bias", false, "true: MPT with biases is not counted");
        }
        "t5" => {
            d.decoder_layers = r.number("decoder-layers", &["num_decoder_layers"]);
            d.buckets = r.number("buckets", &["relative_attention_num_buckets"]);
            if let Some((key, value)) = r.get(&["feed_forward_proj"]) {
                match value.as_str() {
                    Some("relu") => d.gated = Some(false),
                    Some("gated-gelu") => d.gated = Some(true),
                    _ => {
                        r.report_unusable(key, value, "\"relu\" (T5 1.0) or \"gated-gelu\" (T5 1.1)");
                    }
                }
            }
            // transformers ties by default, also for T5 1.1.
            d.tied = d.tied.or(Some(true));
        }
        _ => {}
    }
    d
}

fn rope(r: &mut ConfigReader<'_>, d: &mut Dimensions, family: Family) {
    if family.spec().positions != super::Positions::Rotary
        || family == Family::Falcon
        || family == Family::GptJ
    {
        return;
    }
    // transformers 5 moved it into a nested object.
    let nested = r.config.get("rope_parameters").and_then(|rope| rope.get("rope_theta")).cloned();
    d.rope_theta = match nested.as_ref().and_then(Value::as_f64).and_then(to_whole_number) {
        Some(theta) => Some(theta),
        None => r.number("rope-theta", &["rope_theta", "rotary_emb_base"]),
    };
}

fn falcon(r: &mut ConfigReader<'_>, d: &mut Dimensions) {
    let new = r.flag("layer-norms", "new_decoder_architecture") == Some(true);
    let multi_query = r.flag("kv-heads", "multi_query") != Some(false);
    // As in FalconAttention: the written count applies only to the new decoder or without multi-query.
    d.kv_heads = match (new, multi_query) {
        (true, _) => r.number("kv-heads", &["num_kv_heads", "n_head_kv"]).or(d.heads),
        (false, true) => Some(1),
        (false, false) => d.heads,
    };
    d.parallel = r.flag("parallel", "parallel_attn");
    if new {
        d.parallel = Some(true);
        d.layer_norms = r.number("layer-norms", &["num_ln_in_parallel_attn"]).or(Some(2));
    }
    d.alibi = r.flag("alibi", "alibi");
    d.qkv_bias = r.flag("qkv-bias", "bias");
    d.out_bias = d.qkv_bias;
    d.mlp_bias = d.qkv_bias;
}
