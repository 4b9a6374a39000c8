//! Weights in Hugging Face's form, in and out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::config::{Config, Family};
use crate::exit::{Code, Failure};
use crate::fsdp::Engine;
use crate::kernels::rows::{Act, Norm};
use crate::model::layout::Shape;
use crate::safetensors::{self, Reader};

fn fail(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Data, format!("weights {}: {what}", path.display()))
}

/// Which of Hugging Face's tensors make up the rows of one of ours, in order: (name, rows).
fn llama(shape: &Shape, name: &str, rows: usize) -> Option<Vec<(String, usize)>> {
    let one = |name: String| Some(vec![(name, rows)]);
    let Some(rest) = name.strip_prefix("block.") else {
        return match name {
            "embed.tokens" => one("model.embed_tokens.weight".to_owned()),
            "head.norm.weight" => one("model.norm.weight".to_owned()),
            "head.weight" => one("lm_head.weight".to_owned()),
            _ => None,
        };
    };
    let (layer, part) = rest.split_once('.')?;
    let at = |name: &str| format!("model.layers.{layer}.{name}.weight");
    let (q, kv) = (shape.attention_width(), shape.heads.kv_heads * shape.heads.dim);
    match part {
        "norm1.weight" => one(at("input_layernorm")),
        "norm2.weight" => one(at("post_attention_layernorm")),
        "qkv.weight" => Some(vec![
            (at("self_attn.q_proj"), q),
            (at("self_attn.k_proj"), kv),
            (at("self_attn.v_proj"), kv),
        ]),
        "out.weight" => one(at("self_attn.o_proj")),
        "up.weight" => Some(vec![(at("mlp.gate_proj"), shape.inner), (at("mlp.up_proj"), shape.inner)]),
        "down.weight" => one(at("mlp.down_proj")),
        _ => None,
    }
}

fn llama_shaped(config: &Config, shape: &Shape) -> bool {
    config.model.family == Family::Llama
        && shape.norm == Norm::Rms
        && shape.act == Act::SwiGlu
        && !shape.biases
        && !shape.parallel
        && shape.rotated == shape.heads.dim
}

/// The file of each tensor.
fn files(directory: &Path) -> Result<Vec<Reader>, Failure> {
    let index = directory.join("model.safetensors.index.json");
    let mut names = vec!["model.safetensors".to_owned()];
    if index.is_file() {
        let text = fs::read(&index).map_err(|e| fail(&index, e))?;
        let value: Value = serde_json::from_slice(&text).map_err(|e| fail(&index, e))?;
        let map = value.get("weight_map").and_then(Value::as_object);
        let map = map.ok_or_else(|| fail(&index, "there is no `weight_map`"))?;
        names = map.values().filter_map(|v| v.as_str().map(str::to_owned)).collect();
        names.sort();
        names.dedup();
    }
    let open =
        |name: &String| Reader::open(&directory.join(name)).map_err(|e| fail(&directory.join(name), e));
    names.iter().map(open).collect()
}

/// Fills the shards of an engine from a directory of safetensors.
pub fn load(engine: &mut Engine, config: &Config, directory: &Path) -> Result<(), Failure> {
    let shape = Shape::of(&config.model);
    if !llama_shaped(config, &shape) {
        return Err(Failure::new(
            Code::Config,
            "config: `model.weights`: only models of the Llama form are read so far",
        ));
    }
    let files = files(directory)?;
    for shard in &mut engine.shards {
        let end = shard.start + shard.master.len();
        for tensor in &shard.unit.tensors {
            let parts = llama(&shape, &tensor.name, tensor.rows);
            let mut at = tensor.offset;
            for (name, rows) in
                parts.ok_or_else(|| fail(directory, format!("`{}` has no name there", tensor.name)))?
            {
                let len = rows * tensor.cols;
                let (from, to) = (at.max(shard.start), (at + len).min(end));
                let file = files.iter().find(|f| f.entries.contains_key(&name));
                let file = file.ok_or_else(|| fail(directory, format!("there is no tensor `{name}`")))?;
                let found = &file.entries[&name].shape;
                let expected = if tensor.rows == 1 { vec![tensor.cols] } else { vec![rows, tensor.cols] };
                if *found != expected {
                    return Err(fail(
                        directory,
                        format!("`{name}` is {found:?}, the config says {expected:?}"),
                    ));
                }
                if from < to {
                    let values = file.read(&name).map_err(|e| fail(directory, e))?;
                    shard.master[from - shard.start..to - shard.start]
                        .copy_from_slice(&values[from - at..to - at]);
                }
                at += len;
            }
        }
    }
    Ok(())
}

/// Writes the weights as `transformers` reads them; every rank calls it. Families without a map are written under this
/// project's own names, without a config.json.
pub fn export(engine: &mut Engine, config: &Config, directory: &Path) -> Result<(), Failure> {
    let shape = Shape::of(&config.model);
    let writes = engine.groups.world.rank() == 0;
    let named = llama_shaped(config, &shape);
    let io = |e: std::io::Error| fail(directory, e);
    if writes {
        fs::create_dir_all(directory).map_err(io)?;
    }
    let count = engine.shards.len();
    let mut map = BTreeMap::new();
    let mut total = 0;
    for unit in 0..count {
        let values = engine.whole_unit(unit)?;
        if !writes {
            continue;
        }
        let file = format!("model-{:05}-of-{count:05}.safetensors", unit + 1);
        let mut tensors = Vec::new();
        for tensor in &engine.shards[unit].unit.tensors {
            let own = || vec![(tensor.name.clone(), tensor.rows)];
            let parts =
                if named { llama(&shape, &tensor.name, tensor.rows).unwrap_or_else(own) } else { own() };
            let mut at = tensor.offset;
            for (name, rows) in parts {
                let len = rows * tensor.cols;
                let sizes = if tensor.rows == 1 { vec![tensor.cols] } else { vec![rows, tensor.cols] };
                map.insert(name.clone(), file.clone());
                total += 4 * len;
                tensors.push((name, sizes, &values[at..at + len]));
                at += len;
            }
        }
        let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
        safetensors::write(&directory.join(&file), &metadata, &tensors).map_err(io)?;
    }
    if writes {
        let index = json!({"metadata": {"total_size": total}, "weight_map": map});
        fs::write(directory.join("model.safetensors.index.json"), format!("{index:#}\n")).map_err(io)?;
        if named {
            let m = &config.model;
            let text = json!({
                "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
                "vocab_size": m.vocab_size, "hidden_size": m.hidden_size, "intermediate_size": m.intermediate_size,
                "num_hidden_layers": m.layers, "num_attention_heads": m.heads, "num_key_value_heads": m.kv_heads,
                "head_dim": m.head_dim, "max_position_embeddings": m.sequence_length, "rms_norm_eps": m.norm.eps,
                "rope_theta": m.positions.theta, "tie_word_embeddings": m.tied_embeddings,
                "initializer_range": m.initializer_range, "attention_bias": false, "mlp_bias": false,
                "torch_dtype": "float32",
            });
            fs::write(directory.join("config.json"), format!("{text:#}\n")).map_err(io)?;
        }
    }
    engine.groups.world.barrier()
}
