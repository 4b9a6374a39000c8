//! Rejection of settings that would be ignored or overflow, and of missing inputs.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cases::{Place, llama};
use crate::processes::{WORKER, alone, lines, place, text, worker, write};

#[test]
fn ignored_settings_are_rejected() {
    let place = Place::new("ignored");
    let mut cases: Vec<(&str, Box<dyn Fn(&mut Value)>)> = Vec::new();
    let mut case = |message, change: fn(&mut Value)| cases.push((message, Box::new(change)));
    case("`communication.backend`: `shared-memory` requires a single host", |c| {
        c["communication"]["backend"] = json!("shared-memory");
        c["cluster"]["nodes"] = json!(2);
        c["mesh"]["shard_degree"] = json!(2);
        c["batch"]["micro"] = json!(4);
    });
    case("`schedule.minimum_learning_rate`: 0.5 exceeds `optimizer.learning_rate`", |c| {
        c["schedule"]["kind"] = json!("cosine");
        c["schedule"]["minimum_learning_rate"] = json!(0.5);
    });
    case("`schedule.minimum_learning_rate`: 0.001: must be 0 for a `constant` schedule", |c| {
        c["schedule"]["minimum_learning_rate"] = json!(0.001);
    });
    case("`optimizer.eps`: ", |c| c["optimizer"]["eps"] = json!(1e-60));
    case("`model.norm.eps`: ", |c| c["model"]["norm"]["eps"] = json!(1e-50));
    case("`data.validation`: requires `log.evaluate_every_steps`", |c| {
        c["data"]["validation"] = json!("somewhere");
    });
    case("`schedule.steps`: 1099511627776 steps of 4294967296 sequences", |c| {
        c["schedule"]["steps"] = json!(1_u64 << 40);
        c["batch"] = json!({"micro": 1 << 12, "accumulation": 1 << 20, "global_sequences": 1_u64 << 32});
    });
    case("`communication.peer_dead_seconds`: 0.1 is less than 1", |c| {
        c["communication"]["peer_dead_seconds"] = json!(0.1);
    });
    case("`job`: must not be empty", |c| c["job"] = json!(""));
    case("`checkpoint.directory`: must not be empty", |c| c["checkpoint"]["directory"] = json!(" "));
    case("`output.failure`: must not be empty", |c| c["output"]["failure"] = json!(""));
    case("`model.weights`: contains a NUL byte", |c| c["model"]["weights"] = json!("a\0b"));
    case("`` is not a valid environment variable name", |c| {
        c["communication"]["environment"] = json!({"": "1"});
    });
    case("`communication.environment.A=B`: `A=B` is not a valid", |c| {
        c["communication"]["environment"] = json!({"A=B": "1"});
    });
    case("`communication.environment.A`: contains a NUL byte", |c| {
        c["communication"]["environment"] = json!({"A": "1\0"});
    });
    case("`checkpoint.grace_seconds`: ", |c| c["checkpoint"]["grace_seconds"] = json!(1e300));
    for (message, change) in cases {
        let mut config = llama(&place);
        change(&mut config);
        let output = worker(&["launch", &write(&place, &config)]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{errors}");
        assert!(errors.contains(message), "`{message}` is not in {errors}");
    }
    // On CPU ranks the transport for GPUs is not required.
    let mut config = llama(&place);
    config["cluster"] = json!({"instance": "ml.p4d.24xlarge", "nodes": 1, "gpus_per_node": 1});
    config["communication"]["backend"] = json!("nccl");
    let output = worker(&["launch", &write(&place, &config), "--ranks", "1"]);
    assert_eq!(output.status.code(), Some(10), "the data is missing, no device: {}", text(&output.stderr));
}

#[test]
fn possible_mistakes_are_warnings_on_both_streams() {
    let _alone = alone();
    let (place, mut config) = place("said");
    // Warnings on stdout and stderr.
    let run = |verb: &str, config: &Value| -> (Vec<String>, String) {
        let output = worker(&[verb, &write(&place, config)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let said = lines(&output);
        let warnings: Vec<String> =
            said.iter().filter_map(|line| Some(line.get("warning")?.as_str()?.to_owned())).collect();
        let errors = text(&output.stderr);
        for warning in &warnings {
            assert!(errors.contains(&format!("warning: {warning}\n")), "{errors}");
        }
        (warnings, errors)
    };
    config["data"]["epochs"] = json!(1);
    let (warnings, errors) = run("launch", &config);
    let epochs = "`data.epochs` 1 over 40 sequences gives 5 steps of 8, but `schedule.steps` is 10: the run ends before the schedule does";
    assert_eq!(warnings, [epochs]);
    assert!(
        errors.contains("5 steps of 8 sequences: 1.00 passes over the 40 sequences of `data.train`"),
        "{errors}"
    );
    config["data"]["epochs"] = json!(3);
    assert!(run("preflight", &config).0[0].ends_with("is 10: the run ends before all epochs are done"));
    config["data"]["epochs"] = json!(2);
    // Changed settings in a resumed run and in a finished one.
    config["checkpoint"]["resume"] = json!("auto");
    config["optimizer"]["learning_rate"] = json!(2e-3);
    let changed = "settings changed at step 5: `optimizer.learning_rate` was 0.003, is 0.002";
    assert_eq!(run("preflight", &config).0, [changed]);
    assert_eq!(run("launch", &config).0, [changed]);
    config["optimizer"]["clip_norm"] = json!(null);
    let (warnings, errors) = run("launch", &config);
    assert_eq!(warnings, ["settings changed at step 10: `optimizer.clip_norm` was 1.0, is null"]);
    assert!(errors.contains("all 10 steps are already done: nothing to train"), "{errors}");
    // Dropout in the `config.json` of the weights.
    let card = place.at("model/config.json");
    let mut said: Value = serde_json::from_str(&std::fs::read_to_string(&card).unwrap()).unwrap();
    said["attention_dropout"] = json!(0.1);
    std::fs::write(&card, said.to_string()).unwrap();
    config["model"]["weights"] = json!(place.at("model"));
    config["checkpoint"]["resume"] = json!("never");
    config["output"]["model"] = json!(place.at("next"));
    let dropout = format!("{card} configures dropout, which is not applied: `attention_dropout` 0.1");
    assert_eq!(run("preflight", &config).0, [dropout.as_str()]);
    assert_eq!(run("launch", &config).0, [dropout.as_str()]);
}

#[test]
fn export_rejects_unused_options() {
    let place = Place::new("export");
    let mut config = llama(&place);
    let path = write(&place, &config);
    let out = place.at("exported");
    let output = worker(&["export", &path, "--out", &out, "--merge"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("`--merge` requires `model.adapter`, which is null"));
    config["model"]["weights"] = json!(place.at("weights"));
    config["model"]["adapter"] =
        json!({"kind": "lora", "rank": 2, "alpha": 4.0, "dropout": 0.0, "targets": ["q_proj"]});
    let path = write(&place, &config);
    let output = worker(&["export", &path, "--out", &out, "--dtype", "bf16"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("adapters are written in f32"), "{}", text(&output.stderr));
}

#[test]
fn what_f16_cannot_hold_is_not_exported_as_infinity() {
    let _alone = alone();
    let (place, mut config) = place("f16");
    config["schedule"]["steps"] = json!(1);
    assert_eq!(worker(&["launch", &write(&place, &config)]).status.code(), Some(0));
    // One weight of the first block, which training does not change.
    let file = place.at("model/model-00002-of-00004.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&1e5f32.to_le_bytes());
    std::fs::write(&file, bytes).unwrap();
    std::fs::rename(place.at("model"), place.at("weights")).unwrap();
    config["model"]["weights"] = json!(place.at("weights"));
    config["optimizer"]["learning_rate"] = json!(0.0);
    let path = write(&place, &config);
    let output = worker(&["launch", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let out = place.at("exported");
    let export = |dtype: &str| worker(&["export", &path, "--out", &out, "--dtype", dtype]);
    let output = export("f16");
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(10), "{errors}");
    let says =
        "tensor `model.layers.0.mlp.down_proj.weight` contains 1e5, but the largest F16 number is 6.5504e4";
    assert!(errors.contains(says), "{errors}");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0, "no half of a model");
    let output = export("bf16");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn preflight_looks_at_weights_the_checkpoint_and_the_failure_file() {
    let _alone = alone();
    let (place, mut config) = place("looks");
    // A model to start from: the result of a run of one step.
    config["schedule"]["steps"] = json!(1);
    assert_eq!(worker(&["launch", &write(&place, &config)]).status.code(), Some(0));
    config["model"]["weights"] = json!(place.at("model"));
    let base = config;
    let look = |change: &dyn Fn(&mut Value)| {
        let mut config = base.clone();
        change(&mut config);
        let output = worker(&["preflight", &write(&place, &config)]);
        (output.status.code(), text(&output.stderr))
    };
    let (code, errors) = look(&|_| ());
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("weights: all tensors found"), "{errors}");
    assert!(errors.contains("resume: from the start"), "{errors}");
    let (code, errors) = look(&|c| c["checkpoint"]["resume"] = json!("auto"));
    assert!(code == Some(0) && errors.contains("resume: from step 1"), "{errors}");
    assert!(errors.contains("; 2 of 2 files checked against their sha256, 0.2 MiB"), "{errors}");
    assert!(!errors.contains("not all files"), "{errors}");
    // Without enough time: reported, but not a failure.
    let mut unread = base.clone();
    unread["checkpoint"]["resume"] = json!("auto");
    let hurried = std::process::Command::new(crate::processes::WORKER)
        .args(["preflight", &write(&place, &unread)])
        .env("TRAINC_WORKER_COMPARE", "0")
        .output()
        .unwrap();
    let errors = text(&hurried.stderr);
    assert_eq!(hurried.status.code(), Some(0), "{errors}");
    assert!(
        errors.contains("; 0 of 2 files checked") && errors.contains("warning: not all files"),
        "{errors}"
    );
    // A flipped bit in the other rank's file.
    let shard = place.at("checkpoints/step-00000001/shard-00001-of-00002.safetensors");
    let whole = std::fs::read(&shard).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    std::fs::write(&shard, flipped).unwrap();
    let (code, errors) = look(&|c| c["checkpoint"]["resume"] = json!("auto"));
    assert!(
        code == Some(11) && errors.contains("shard-00001-of-00002.safetensors is damaged: sha256"),
        "{errors}"
    );
    std::fs::write(&shard, whole).unwrap();
    let (code, errors) = look(&|c| c["model"]["weights"] = json!("/nowhere"));
    assert!(code == Some(10) && errors.contains("weights /nowhere"), "{errors}");
    let (code, errors) = look(&|c| c["model"]["kv_heads"] = json!(4));
    assert!(code == Some(10) && errors.contains("`model.kv_heads`, which is 4"), "{errors}");
    let (code, errors) = look(&|c| c["checkpoint"]["resume"] = json!("/nowhere"));
    assert!(code == Some(11) && errors.contains("state.json"), "{errors}");
    let (code, errors) = look(&|c| {
        c["checkpoint"]["resume"] = json!("auto");
        c["data"]["seed"] = json!(18);
    });
    assert!(code == Some(11) && errors.contains("`data.seed` was 17, is 18"), "{errors}");
    std::fs::write(place.at("file"), "").unwrap();
    let (code, errors) = look(&|c| c["output"]["failure"] = json!(place.at("file/failure")));
    assert!(code == Some(3) && errors.contains("`output.failure`"), "{errors}");
    let (code, errors) = look(&|c| c["output"]["failure"] = json!(place.at("model")));
    assert!(code == Some(3) && errors.contains("`output.failure`"), "{errors}");
    // An incomplete tensor.
    let model = std::path::PathBuf::from(place.at("model"));
    let file = model.join("model-00002-of-00004.safetensors");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 4]).unwrap();
    let (code, errors) = look(&|_| ());
    assert!(code == Some(10) && errors.contains("exceeds the file"), "{errors}");
    std::fs::remove_file(&file).unwrap();
    let (code, errors) = look(&|_| ());
    assert!(code == Some(10) && errors.contains("model-00002-of-00004.safetensors"), "{errors}");
}

#[test]
fn readers_that_go_away_end_nothing() {
    let _alone = alone();
    let (place, config) = place("gone");
    let path = write(&place, &config);
    for (verb, code) in [("simulate", 0), ("check", 0), ("preflight", 0), ("launch", 0)] {
        let mut command = Command::new(WORKER);
        command.args([verb, &path]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = command.spawn().unwrap();
        drop((run.stdout.take(), run.stderr.take()));
        assert_eq!(run.wait().unwrap().code(), Some(code), "{verb} without readers");
    }
    // A result that cannot be written is a failure.
    for verb in ["check", "simulate"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output =
            Command::new(WORKER).args([verb, &path]).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("stdout: No space left"), "{}", text(&output.stderr));
    }
    let mut config = config;
    config["model"]["wings"] = json!(2);
    let mut refused =
        Command::new(WORKER).args(["check", &write(&place, &config)]).stderr(Stdio::piped()).spawn().unwrap();
    drop(refused.stderr.take());
    assert_eq!(refused.wait().unwrap().code(), Some(3));
}

#[test]
fn sizes_from_files_that_no_file_has_are_refused() {
    let _alone = alone();
    let (place, mut config) = place("sizes");
    let index = place.at("train/index.json");
    let good: Value = serde_json::from_str(&std::fs::read_to_string(&index).unwrap()).unwrap();
    let mut huge = good.clone();
    huge["files"][0]["sequences"] = json!(u64::MAX / 3);
    huge["sequences"] = json!(u64::MAX / 3 + 35);
    std::fs::write(&index, huge.to_string()).unwrap();
    let output = worker(&["launch", &write(&place, &config)]);
    assert_eq!(output.status.code(), Some(10), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
    std::fs::write(&index, good.to_string()).unwrap();
    // The maximum number of epochs.
    config["data"]["epochs"] = json!(u64::MAX);
    config["schedule"]["steps"] = json!(1);
    assert_eq!(worker(&["launch", &write(&place, &config)]).status.code(), Some(0));
    // A tensor that ends after the end of all files.
    let weights = place.at("weights");
    std::fs::create_dir_all(&weights).unwrap();
    let end = u64::MAX - 3;
    let header = format!(r#"{{"x":{{"dtype":"F32","shape":[1],"data_offsets":[{},{end}]}}}}"#, end - 4);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    std::fs::write(format!("{weights}/model.safetensors"), &bytes).unwrap();
    config["model"]["weights"] = json!(weights);
    for verb in ["preflight", "launch"] {
        let output = worker(&[verb, &write(&place, &config)]);
        assert_eq!(output.status.code(), Some(10), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("`x` exceeds the file"), "{}", text(&output.stderr));
    }
}
