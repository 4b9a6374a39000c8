//! Adapters in the format of `peft`: adapter_config.json and adapter_model.safetensors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::json;

use super::tensor_names::{self, Arrangement, Part};
use super::{Failure, partial, remove, replace, write_failure};
use crate::config::{Config, Family};
use crate::model::layout::Shape;
use crate::safetensors;

/// Writes the adapters of all layers, each given as its unit's elements.
pub fn write(config: &Config, directory: &Path, units: &[Vec<f32>]) -> Result<(), Failure> {
    let shape = Shape::from_model(&config.model);
    let Some(lora) = &shape.adapter else { return Ok(()) };
    let io = |e: std::io::Error| write_failure(directory, e);
    fs::create_dir_all(directory).map_err(io)?;
    let (family, stem) = (config.model.family, tensor_names::layer_prefix(config.model.family));
    let mut tensors = Vec::new();
    let mut modules = BTreeSet::new();
    for (layer, values) in units.iter().enumerate() {
        for target in lora.unit(&shape, layer).1 {
            modules.insert(target.module);
            // The rows of b have the order of the rows of the weight.
            let form = match family {
                Family::GptNeox if target.module == "attention.query_key_value" => {
                    Arrangement::Interleaved { heads: shape.heads.heads, dim: shape.heads.dim }
                }
                Family::Llama | Family::Gpt2 | Family::GptNeox => Arrangement::Rows,
            };
            let b = Part { name: String::new(), rows: target.rows, cols: lora.rank, sizes: Vec::new(), form };
            let name = format!("base_model.model.{stem}.{layer}.{}", target.module);
            let (a, b) = (values[target.a.clone()].to_vec(), b.to_hf(&values[target.b.clone()]));
            tensors.push((format!("{name}.lora_A.weight"), vec![lora.rank, target.cols], a));
            tensors.push((format!("{name}.lora_B.weight"), vec![target.rows, lora.rank], b));
        }
    }
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    let tensors: Vec<_> = tensors.iter().map(|(n, s, v)| (n.clone(), s.clone(), v.as_slice())).collect();
    let (model, settings) =
        (directory.join("adapter_model.safetensors"), directory.join("adapter_config.json"));
    let written = safetensors::write(&partial(&model), &metadata, &tensors);
    if written.is_err() {
        let _ = fs::remove_file(partial(&model));
    }
    written.map_err(io)?;
    let alpha = config.model.adapter.as_ref().map_or(0.0, |a| a.alpha);
    // peft accepts an integer or a float.
    let alpha = if alpha.fract() == 0.0 { json!(alpha as i64) } else { json!(alpha) };
    let card = json!({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": config.model.weights,
        "r": lora.rank, "lora_alpha": alpha, "lora_dropout": 0.0, "target_modules": modules, "bias": "none",
        "fan_in_fan_out": family == Family::Gpt2, "inference_mode": true, "init_lora_weights": true,
        "modules_to_save": null, "layers_to_transform": null, "layers_pattern": null, "rank_pattern": {},
        "alpha_pattern": {}, "use_rslora": false, "use_dora": false, "revision": null,
    });
    // Between the two renames there is no adapter, rather than one with another adapter's settings.
    remove(&settings).and_then(|()| fs::rename(partial(&model), &model)).map_err(io)?;
    replace(&settings, format!("{card:#}\n").as_bytes()).map_err(io)
}
