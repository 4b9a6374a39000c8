//! Weights and adapters in the Hugging Face format, compared with the results of `transformers` and `peft`
//! (`tests/python/record_hf.py`, which also checks that they load what the worker writes).

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use trainc_worker::data::tokens::hex;
use trainc_worker::exit::Code;
use trainc_worker::safetensors::Reader;
use trainc_worker::thread_ranks::{cpu_engine, train_on_threads, with_engines};

use crate::cases::{Place, llama, mesh, parse, tokens, write_data};

const CASES: [&str; 8] = [
    "llama-sharded",
    "llama3-tied-bf16",
    "llama-linear-f16",
    "llama-dynamic",
    "mistral",
    "gpt2",
    "gpt-neox",
    "gpt-neox-sequential",
];

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/hf").join(name)
}

fn json_of(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the config of a case: its weights, learning rate 0.
fn config(place: &Place, name: &str, shards: usize) -> Value {
    let mut config = mesh(llama(place), shards, 1, 1);
    config["model"] = json_of(&recorded(name).join("recorded.json"))["model"].clone();
    config["model"]["weights"] = json!(recorded(name).to_str().unwrap());
    config["optimizer"]["learning_rate"] = json!(0.0);
    config["schedule"]["steps"] = json!(1);
    config["data"]["shuffle"] = json!(false);
    config
}

fn expected(name: &str, file: &str) -> Vec<f32> {
    Reader::open(&recorded(name).join(file)).unwrap().read("logits").unwrap()
}

/// Returns the logits of the first two test sequences.
fn logits(config: &Value) -> Vec<f32> {
    let mut config = config.clone();
    config["batch"] = json!({"micro": 2, "accumulation": 1, "global_sequences": 4});
    let data = tokens(40, 24, 61, 1);
    let inputs: Vec<u32> = data[..24].iter().chain(&data[25..49]).copied().collect();
    with_engines(&parse(&config), &cpu_engine, &|engine, config| {
        let weights = config.model.weights.clone().unwrap();
        trainc_worker::hf::load(engine, config, Path::new(&weights))?;
        engine.logits(&inputs)
    })
    .unwrap()
}

#[track_caller]
fn close(found: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    let worst = found.iter().zip(expected).fold(0.0f32, |m, (a, b)| m.max((a - b).abs())) / scale;
    assert!(worst < tolerance, "{what}: logits differ by {worst:e} of {scale}");
}

#[test]
fn logits_equal_those_of_transformers() {
    for name in CASES {
        let place = Place::new(&format!("hf-{name}"));
        close(&logits(&config(&place, name, 2)), &expected(name, "expected.safetensors"), 1e-5, name);
    }
}

fn digests(directory: &Path) -> Value {
    let mut out = json!({});
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        out[name] = json!(hex(&Sha256::digest(std::fs::read(entry.path()).unwrap())));
    }
    out
}

/// The files equal those that `transformers` loaded for the recording.
#[test]
fn exported_models_equal_the_recorded_ones() {
    for name in CASES {
        let place = Place::new(&format!("hf-written-{name}"));
        write_data(&place.0.join("train"), 40, 24, 61, 1);
        let record = json_of(&recorded(name).join("recorded.json"));
        let mut config = config(&place, name, 4);
        train_on_threads(&parse(&config)).unwrap();
        assert_eq!(digests(&place.0.join("model")), record["files"], "{name}");
        config["model"]["weights"] = Value::Null;
        config["output"]["model"] = json!(place.at("fresh"));
        let (_, lines, _) = train_on_threads(&parse(&config)).unwrap();
        assert_eq!(digests(&place.0.join("fresh")), record["fresh_files"], "{name}");
        let loss = record["fresh_loss"].as_f64().unwrap();
        assert!((lines[0].loss / loss - 1.0).abs() < 2e-6, "{name}: {} for {loss}", lines[0].loss);
    }
}

#[test]
fn unsupported_config_json_settings_are_reported() {
    let place = Place::new("hf-refused");
    write_data(&place.0.join("train"), 40, 24, 61, 1);
    let copy = |name: &str, change: Value| {
        let _ = std::fs::remove_dir_all(place.0.join("weights"));
        std::fs::create_dir_all(place.0.join("weights")).unwrap();
        for entry in std::fs::read_dir(recorded(name)).unwrap().flatten() {
            std::fs::copy(entry.path(), place.0.join("weights").join(entry.file_name())).unwrap();
        }
        let mut card = json_of(&recorded(name).join("config.json"));
        for (key, value) in change.as_object().unwrap() {
            card[key] = value.clone();
        }
        std::fs::write(place.0.join("weights/config.json"), card.to_string()).unwrap();
        let mut config = config(&place, name, 2);
        config["model"]["weights"] = json!(place.at("weights"));
        train_on_threads(&parse(&config)).map(|_| ())
    };
    copy("mistral", json!({"sliding_window": 24})).unwrap();
    for (name, change, says) in [
        ("mistral", json!({"sliding_window": 16}), "`sliding_window` 16"),
        ("mistral", json!({"hidden_act": "relu"}), "`hidden_act` \"relu\" is unsupported"),
        ("mistral", json!({"attention_bias": true}), "`attention_bias` is true"),
        (
            "mistral",
            json!({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}),
            "position scaling \"yarn\"",
        ),
        (
            "mistral",
            json!({"rope_parameters": null, "rope_scaling": {"type": "linear", "factor": 2.0}}),
            "for `model.positions.scaling`, which is null",
        ),
        (
            "mistral",
            json!({"rope_parameters": null, "rope_theta": 5e5}),
            "500000.0 for `model.positions.theta`",
        ),
        ("mistral", json!({"rms_norm_eps": 1e-6}), "`model.norm.eps`"),
        ("mistral", json!({"max_position_embeddings": 16}), "it has 16 positions"),
        ("mistral", json!({"model_type": "qwen2"}), "`model_type` \"qwen2\" is unsupported"),
        (
            "gpt2",
            json!({"scale_attn_by_inverse_layer_idx": true}),
            "`scale_attn_by_inverse_layer_idx` is true",
        ),
        ("gpt-neox", json!({"use_parallel_residual": false}), "`model.parallel_residual`, which is true"),
    ] {
        let failure = copy(name, change).unwrap_err();
        assert_eq!(failure.code, Code::Data, "{failure}");
        assert!(failure.message.contains(says), "{failure} does not say {says}");
    }
    // All differences are reported at once.
    let failure = copy("mistral", json!({"hidden_act": "relu", "rms_norm_eps": 1e-6})).unwrap_err();
    assert!(failure.message.contains("relu") && failure.message.contains("norm.eps"), "{failure}");
}

#[test]
fn missing_tensors_and_wrong_shapes_are_reported() {
    let place = Place::new("hf-shapes");
    write_data(&place.0.join("train"), 40, 24, 61, 1);
    let mut config = config(&place, "gpt2", 2);
    config["model"]["weights"] = json!(place.at("weights"));
    std::fs::create_dir_all(place.0.join("weights")).unwrap();
    std::fs::copy(recorded("gpt2").join("model.safetensors"), place.0.join("weights/model.safetensors"))
        .unwrap();
    config["model"]["layers"] = json!(3);
    let failure = train_on_threads(&parse(&config)).unwrap_err();
    assert!(failure.message.contains("tensor `transformer.h.2.ln_1.weight` not found"), "{failure}");
    config["model"]["layers"] = json!(2);
    config["model"]["intermediate_size"] = json!(64);
    let failure = train_on_threads(&parse(&config)).unwrap_err();
    assert!(failure.message.contains("mlp.c_fc.weight` has the shape [32, 48]"), "{failure}");
    assert_eq!(failure.code, Code::Data);
}

fn adapted(place: &Place, name: &str, shards: usize, replicas: usize) -> (Value, Value) {
    let record = json_of(&recorded(name).join("adapted.json"));
    let mut config = config(place, name, 1);
    config = mesh(config, shards, replicas, 1);
    config["model"]["adapter"] =
        json!({"kind": "lora", "rank": 3, "alpha": 12.0, "dropout": 0.0, "targets": record["targets"]});
    config["optimizer"]["learning_rate"] = json!(1e-2);
    config["schedule"]["steps"] = json!(12);
    (config, record)
}

#[test]
fn adapter_training_equals_peft() {
    for (name, shards, replicas) in [("llama-sharded", 1, 1), ("gpt2", 4, 1), ("gpt-neox", 2, 2)] {
        let place = Place::new(&format!("lora-{name}"));
        write_data(&place.0.join("train"), 40, 24, 61, 1);
        let (mut config, record) = adapted(&place, name, shards, replicas);
        let (_, lines, _) = train_on_threads(&parse(&config)).unwrap();
        for (line, (loss, norm)) in lines
            .iter()
            .zip(record["losses"].as_array().unwrap().iter().zip(record["grad_norms"].as_array().unwrap()))
        {
            let (loss, norm) = (loss.as_f64().unwrap(), norm.as_f64().unwrap());
            assert!((line.loss / loss - 1.0).abs() < 5e-6, "{name} {}: {} for {loss}", line.step, line.loss);
            assert!((line.grad_norm / norm - 1.0).abs() < 1e-4, "{name} {}: norm", line.step);
        }
        // The files that peft loaded for the recording.
        let mut card = json_of(&place.0.join("model/adapter_config.json"));
        card.as_object_mut().unwrap().remove("base_model_name_or_path");
        assert_eq!(card, record["adapter_config"], "{name}");
        let file = Reader::open(&place.0.join("model/adapter_model.safetensors")).unwrap();
        let names: Vec<&String> = file.entries.keys().collect();
        assert_eq!(json!(names), record["tensors"], "{name}");
        // Merged, it is a plain model with the logits of peft's.
        let parsed = parse(&config);
        let newest = trainc_worker::checkpoint::newest(Path::new(&place.at("checkpoints"))).unwrap();
        let merged = place.0.join("merged");
        trainc_worker::hf::export_checkpoint(&parsed, &newest, &merged, "F32", true).unwrap();
        config["model"]["adapter"] = Value::Null;
        config["model"]["weights"] = json!(merged.to_str().unwrap());
        config = mesh(config, 2, 1, 1);
        close(&logits(&config), &expected(name, "adapted.safetensors"), 1e-4, name);
        let states =
            std::fs::metadata(newest.join(format!("shard-00000-of-{shards:05}.safetensors"))).unwrap();
        assert!(states.len() * (shards as u64) < 60_000, "{name}: a checkpoint holds the adapters alone");
    }
}

#[test]
fn adapters_resume_on_other_ranks_and_recompute_is_exact() {
    let place = Place::new("lora-resume");
    write_data(&place.0.join("train"), 40, 24, 61, 1);
    let (mut config, _) = adapted(&place, "llama-sharded", 2, 1);
    let losses = |config: &Value| -> Vec<f64> {
        train_on_threads(&parse(config)).unwrap().1.iter().map(|l| l.loss).collect()
    };
    let whole = losses(&config);
    for (field, value) in [("recompute", json!("block")), ("reshard_after_forward", json!(false))] {
        let mut other = config.clone();
        other["memory"][field] = value;
        assert_eq!(losses(&other), whole, "{field}");
    }
    config["checkpoint"]["resume"] = json!("auto");
    std::fs::remove_dir_all(place.at("checkpoints")).unwrap();
    let mut all = Vec::new();
    for (shards, epochs) in [(4, json!(1)), (1, Value::Null)] {
        let mut part = mesh(config.clone(), shards, 1, 1);
        part["data"]["epochs"] = epochs;
        all.extend(losses(&part));
    }
    assert_eq!(all.len(), whole.len());
    for (a, b) in all.iter().zip(&whole) {
        assert!((a - b).abs() < 2e-6 * b, "{a} for {b}");
    }
    config["model"]["adapter"]["targets"] = json!(["q_proj", "up"]);
    config["model"]["adapter"]["dropout"] = json!(0.1);
    let failure = trainc_worker::config::Config::parse(&config.to_string()).unwrap_err();
    assert!(
        failure.message.contains("`up`: this model family has the modules self_attn.q_proj"),
        "{failure}"
    );
    assert!(failure.message.contains("model.adapter.dropout"), "{failure}");
}

#[test]
fn checkpoints_are_exported_in_every_format() {
    let place = Place::new("hf-export");
    write_data(&place.0.join("train"), 40, 24, 61, 1);
    let config = parse(&config(&place, "gpt-neox", 2));
    train_on_threads(&config).unwrap();
    let newest = trainc_worker::checkpoint::newest(Path::new(&place.at("checkpoints"))).unwrap();
    let mut sizes = Vec::new();
    for dtype in ["F32", "BF16", "F16"] {
        let out = place.0.join(dtype);
        trainc_worker::hf::export_checkpoint(&config, &newest, &out, dtype, false).unwrap();
        let index = json_of(&out.join("model.safetensors.index.json"));
        sizes.push(index["metadata"]["total_size"].as_u64().unwrap());
        let card = json_of(&out.join("config.json"));
        let named = card["dtype"].as_str().or(card["torch_dtype"].as_str()).unwrap();
        assert_eq!(
            named,
            [("F32", "float32"), ("BF16", "bfloat16"), ("F16", "float16")]
                .into_iter()
                .find(|(d, _)| *d == dtype)
                .unwrap()
                .1
        );
    }
    assert_eq!(sizes[1..], [sizes[0] / 2, sizes[0] / 2]);
    // A model with the same number of elements in each unit: twice as many heads, half as wide.
    let mut other = config.clone();
    (other.model.heads, other.model.kv_heads) = (2 * config.model.heads, 2 * config.model.kv_heads);
    other.model.head_dim = config.model.head_dim / 2;
    let out = place.0.join("other");
    let failure = trainc_worker::hf::export_checkpoint(&other, &newest, &out, "F32", false).unwrap_err();
    assert!(failure.message.contains("it belongs to a different model: `model.head_dim` was"), "{failure}");
    assert!(!out.exists());
    let mut same = digests(&place.0.join("F32"));
    let mut trained = digests(&place.0.join("model"));
    for digests in [&mut same, &mut trained] {
        digests.as_object_mut().unwrap().retain(|name, _| name.starts_with("model"));
    }
    assert_eq!(same, trained, "a checkpoint's export is what training writes at its end");
}
