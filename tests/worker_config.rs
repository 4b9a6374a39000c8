//! The network that the worker is told: what a model's own config.json says, read twice: by the compiler for worker.json,
//! and by the worker, which refuses weights whose config.json says anything else.

use crate::run::worker;
use crate::support::{Ran, Scratch, root, trainc_in};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn trainc(dir: &Path, args: &[&str]) -> Ran {
    trainc_in(dir, args, b"", Duration::from_mins(1))
}

fn manifest(model: &str, sequence_length: u64) -> String {
    format!(
        r#"
job "read" {{
    {model}
    cluster "local"
    parallel engine="worker"
    train {{
        precision "fp32"
        sequence-length {sequence_length}
        micro-batch 2
        optimizer "adamw" lr=1e-3
        steps 1
    }}
    channel "train" path="packed"
    channel "model" path="weights"
}}
"#
    )
}

fn tokens(dir: &Path) {
    let packed = dir.join("packed");
    let made = Command::new(worker())
        .args(["bench", "--tokens", packed.to_str().unwrap()])
        .args(["--vocab", "61", "--sequence-length", "16", "--sequences", "4"])
        .status()
        .unwrap();
    assert!(made.success());
}

/// Models that `transformers` wrote (`crates/trainc-worker/tests/python/record_hf.py`).
#[test]
fn weights_of_transformers_are_taken_as_their_config_describes_them() {
    let recorded = root().join("crates/trainc-worker/tests/recorded/hf");
    let mut seen = 0;
    for entry in fs::read_dir(&recorded).unwrap() {
        let from = entry.unwrap().path();
        let name = from.file_name().unwrap().to_str().unwrap().to_owned();
        let scratch = Scratch::new(&format!("config-{name}"));
        let weights = scratch.0.join("weights");
        fs::create_dir(&weights).unwrap();
        for file in fs::read_dir(&from).unwrap() {
            let file = file.unwrap().path();
            fs::copy(&file, weights.join(file.file_name().unwrap())).unwrap();
        }
        tokens(&scratch.0);
        scratch.write("read.kdl", manifest(r#"model config="weights/config.json""#, 16));
        let ran = trainc(&scratch.0, &["run", "read.kdl", "--worker", worker(), "-o", "json"]);
        assert_eq!(ran.code, Some(0), "{name}: {}{}", ran.out, ran.err);
        // Another epsilon in the file alone is another model.
        let path = weights.join("config.json");
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let key = ["rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps"]
            .into_iter()
            .find(|key| config.get(key).is_some())
            .unwrap();
        config[key] = json!(3e-6);
        fs::write(&path, config.to_string()).unwrap();
        let emitted = trainc(&scratch.0, &["emit", "read.kdl", "--out", "out", "--worker", worker()]);
        assert_eq!(emitted.code, Some(0), "{}", emitted.err);
        let told = fs::read_to_string(scratch.0.join("out/worker/worker.json")).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["model"]["norm"]["eps"], 3e-6, "{name}");
        let plan = trainc(&scratch.0, &["plan", "read.kdl", "--offline", "-v"]);
        let words: Vec<&str> = plan.out.split_whitespace().collect();
        let said = words.join(" ");
        assert!(said.contains("norm-eps 0.000003 read from weights/config.json"), "{said}");
        seen += 1;
    }
    assert_eq!(seen, 8);
}

#[test]
fn rows_of_the_catalogue_say_what_their_models_need() {
    let scratch = Scratch::new("config-rows");
    let told = |model: &str| -> Value {
        scratch.write("read.kdl", manifest(&format!("model \"{model}\""), 1024));
        let ran = trainc(&scratch.0, &["emit", "read.kdl", "--out", "out", "--worker", worker()]);
        assert_eq!(ran.code, Some(0), "{model}: {}", ran.err);
        let text = fs::read_to_string(scratch.0.join("out/worker/worker.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["model"].clone()
    };
    let llama = told("meta-llama/Llama-3.1-8B");
    assert_eq!(llama["positions"]["theta"], 500_000.0);
    assert_eq!(
        llama["positions"]["scaling"],
        json!({"kind": "llama3", "factor": 8.0, "low_frequency_factor": 1.0, "high_frequency_factor": 4.0,
            "original_positions": 8192})
    );
    assert_eq!(told("huggyllama/llama-7b")["norm"]["eps"], 1e-6);
    assert_eq!(told("meta-llama/Llama-2-7b-hf")["norm"]["eps"], 1e-5);
    let neox = told("EleutherAI/gpt-neox-20b");
    assert_eq!((&neox["positions"]["fraction"], &neox["parallel_residual"]), (&json!(0.25), &json!(true)));
    let pajama = told("togethercomputer/RedPajama-INCITE-Base-3B-v1");
    assert_eq!(
        (&pajama["positions"]["fraction"], &pajama["parallel_residual"]),
        (&json!(1.0), &json!(false))
    );
    assert_eq!(told("gpt2")["tied_embeddings"], true);
    // What a rule filled in says which.
    let plan = trainc(&scratch.0, &["plan", "read.kdl", "--offline", "-v"]);
    let words: Vec<&str> = plan.out.split_whitespace().collect();
    assert!(words.join(" ").contains("value of GPT-2"), "{}", plan.out);
}

#[test]
fn what_the_worker_lacks_is_refused_before_anything_runs() {
    let scratch = Scratch::new("config-lacks");
    let refused = |text: &str, says: &str| {
        scratch.write("read.kdl", text);
        let ran = trainc(&scratch.0, &["check", "read.kdl"]);
        assert_eq!(ran.code, Some(3), "{}", ran.err);
        let said = format!("{}{}", ran.out, ran.err).replace("\n  ", " ");
        assert!(said.contains("T0540") && said.contains(says), "{said}");
    };
    refused(
        &manifest("model \"mistralai/Mistral-7B-v0.1\"", 8192),
        "unsupported attention window of 4096 tokens with sequences of 8192",
    );
    let config = json!({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 96, "vocab_size": 61, "max_position_embeddings": 64,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0}});
    scratch.write("config.json", config.to_string());
    refused(&manifest("model config=\"config.json\"", 16), "unsupported positions scaled by `yarn`");
}

#[test]
fn a_dead_rank_has_ended_all_others_within_half_a_minute() {
    let scratch = Scratch::new("config-dead");
    scratch.write("job.kdl", manifest("model \"meta-llama/Llama-2-7b-hf\"", 4096));
    let ran = trainc(&scratch.0, &["emit", "job.kdl", "--out", "out", "--worker", worker()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let text = fs::read_to_string(scratch.0.join("out/worker/worker.json")).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    // A rank is found a second after this by its launcher; other hosts wait five for a better reason than their own.
    let seconds = config["communication"]["peer_dead_seconds"].as_f64().unwrap();
    assert!((10.0..=24.0).contains(&seconds), "{seconds}");
}

/// What the training toolkit sets for EFA where it runs (aws/sagemaker-training-toolkit @3383937); the worker runs without.
#[test]
fn remote_dma_is_asked_for_where_the_device_has_to_be_asked() {
    let scratch = Scratch::new("config-efa");
    let example = fs::read_to_string(root().join("examples/llama-7b-worker/trainc.kdl")).unwrap();
    // What it costs is not what is asked.
    let example = example.replace("    budget usd=60_000 hard=#true\n", "");
    assert!(example.contains("\"ml.p4d.24xlarge\"") && !example.contains("budget"));
    let environment = |instance: &str| -> Value {
        scratch.write("efa.kdl", example.replace("ml.p4d.24xlarge", instance));
        let ran = trainc(&scratch.0, &["emit", "efa.kdl", "--out", "out", "--worker", worker()]);
        assert_eq!(ran.code, Some(0), "{instance}: {}", ran.err);
        let read = |name: &str| -> Value {
            serde_json::from_str(&fs::read_to_string(scratch.0.join("out").join(name)).unwrap()).unwrap()
        };
        let told = read("worker/worker.json")["communication"]["environment"].clone();
        assert_eq!(read("worker/launch.json")["environment"], told, "{instance}");
        let request = read("sagemaker/training-job.json")["Environment"].clone();
        for (key, value) in told.as_object().unwrap() {
            assert_eq!(&request[key], value, "{instance}: the request has it too");
        }
        told
    };
    // NCCL ends rather than fall back to sockets between the hosts.
    let efa = json!({"FI_PROVIDER": "efa", "NCCL_NET": "AWS Libfabric"});
    let mut rdma = efa.clone();
    rdma["FI_EFA_USE_DEVICE_RDMA"] = "1".into();
    rdma["RDMAV_FORK_SAFE"] = "1".into();
    assert_eq!(environment("ml.p4d.24xlarge"), rdma);
    assert_eq!(environment("ml.p4de.24xlarge"), rdma);
    assert_eq!(environment("ml.p5.48xlarge"), efa);
    assert_eq!(environment("ml.p5en.48xlarge"), efa);
    let script = fs::read_to_string(scratch.0.join("out/sagemaker/estimator.py")).unwrap();
    assert!(script.contains("container_entry_point") && script.contains("FI_PROVIDER"), "{script}");
}

/// No run of the worker on a GPU was measured: a plan has memory, time and dollars, and its notes say what they rest on.
#[test]
fn a_plan_on_gpus_has_time_and_dollars_and_says_that_nothing_was_measured() {
    let manifest = root().join("examples/llama-7b-worker/trainc.kdl");
    let ran = trainc(
        root(),
        &[
            "plan",
            manifest.to_str().unwrap(),
            "--offline",
            "--discount",
            "0.5",
            "-o",
            "json",
            "--worker",
            worker(),
        ],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let plan: Value = serde_json::from_str(&ran.out).unwrap();
    let severities: Vec<&str> =
        plan["problems"].as_array().unwrap().iter().filter_map(|one| one["severity"].as_str()).collect();
    assert!(severities.iter().all(|severity| *severity == "note"), "{severities:?}");
    let number = |value: &Value| value.as_f64().unwrap();
    let (step, ends) = (number(&plan["speed"]["step_seconds"]), &plan["speed"]["interval"]);
    // Nobody has measured the worker: the upper end is as wide as that of a setting far from every run, the lower
    // one wider than the ±19 % of a setting that was measured.
    let (low, high) = (number(&ends["low"]), number(&ends["high"]));
    assert!((high / step).ln() > 0.51 && (step / low).ln() > 0.19, "{step}: {ends}");
    assert!(
        number(&plan["run"]["seconds"]) > 0.0 && number(&plan["run"]["cost_usd"]) > 0.0,
        "{}",
        plan["run"]
    );
    assert_eq!(plan["memory"]["fits"], true);
    assert_eq!(number(&plan["memory"]["parts"]["buffers"]), 2_147_483_648.0);
    let notes: Vec<&str> = plan["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for said in [
        "memory.interval: ",
        "speed.interval: widened by ",
        "speed.step_seconds: engine `worker` is timed by the constants of FSDP: no run of it was measured on any GPU",
    ] {
        assert!(notes.iter().any(|note| note.starts_with(said)), "{said}: {notes:#?}");
    }
}
