//! Settings that would be ignored, and figures that would break arithmetic, are refused; so is what a run would not find.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cases::{Place, llama};
use crate::processes::{WORKER, alone, lines, place, text, worker, write};

#[test]
fn what_would_be_ignored_is_refused() {
    let place = Place::new("ignored");
    let mut cases: Vec<(&str, Box<dyn Fn(&mut Value)>)> = Vec::new();
    let mut case = |message, change: fn(&mut Value)| cases.push((message, Box::new(change)));
    case("`communication.backend`: `shared-memory` is for one host", |c| {
        c["communication"]["backend"] = json!("shared-memory");
        c["cluster"]["nodes"] = json!(2);
        c["mesh"]["shard_degree"] = json!(2);
        c["batch"]["micro"] = json!(4);
    });
    case("`schedule.minimum_learning_rate`: 0.5 is above `optimizer.learning_rate`", |c| {
        c["schedule"]["kind"] = json!("cosine");
        c["schedule"]["minimum_learning_rate"] = json!(0.5);
    });
    case("`schedule.minimum_learning_rate`: 0.001: a constant rate goes down to none", |c| {
        c["schedule"]["minimum_learning_rate"] = json!(0.001);
    });
    case("`optimizer.eps`: ", |c| c["optimizer"]["eps"] = json!(1e-60));
    case("`model.norm.eps`: ", |c| c["model"]["norm"]["eps"] = json!(1e-50));
    case("`data.validation`: it is never evaluated", |c| c["data"]["validation"] = json!("somewhere"));
    case("`schedule.steps`: 1099511627776 steps of 4294967296 sequences", |c| {
        c["schedule"]["steps"] = json!(1_u64 << 40);
        c["batch"] = json!({"micro": 1 << 12, "accumulation": 1 << 20, "global_sequences": 1_u64 << 32});
    });
    case("`communication.peer_dead_seconds`: 0.1 is less than 1", |c| {
        c["communication"]["peer_dead_seconds"] = json!(0.1);
    });
    case("`job`: is empty", |c| c["job"] = json!(""));
    case("`checkpoint.directory`: is empty", |c| c["checkpoint"]["directory"] = json!(" "));
    case("`output.failure`: is empty", |c| c["output"]["failure"] = json!(""));
    case("`model.weights`: holds a zero byte", |c| c["model"]["weights"] = json!("a\0b"));
    case("`` is no name of an environment variable", |c| {
        c["communication"]["environment"] = json!({"": "1"});
    });
    case("`communication.environment.A=B`: `A=B` is no name", |c| {
        c["communication"]["environment"] = json!({"A=B": "1"});
    });
    case("`communication.environment.A`: holds a zero byte", |c| {
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
    // On CPU ranks instead of GPUs, the GPUs' transport is not asked for.
    let mut config = llama(&place);
    config["cluster"] = json!({"instance": "ml.p4d.24xlarge", "nodes": 1, "gpus_per_node": 1});
    config["communication"]["backend"] = json!("nccl");
    let output = worker(&["launch", &write(&place, &config), "--ranks", "1"]);
    assert_eq!(output.status.code(), Some(10), "the data is missing, no device: {}", text(&output.stderr));
}

#[test]
fn what_may_not_be_meant_is_said_to_people_and_machines() {
    let _alone = alone();
    let (place, mut config) = place("said");
    // Lines of stdout and stderr that warn.
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
    let epochs = "`data.epochs` 1 of 40 sequences are 5 steps of 8, and `schedule.steps` is 10: the run ends before its schedule";
    assert_eq!(warnings, [epochs]);
    assert!(errors.contains("5 steps of 8 sequences: 1.00 times the 40 of `data.train`"), "{errors}");
    config["data"]["epochs"] = json!(3);
    assert!(run("preflight", &config).0[0].ends_with("is 10: the run ends before all epochs are read"));
    config["data"]["epochs"] = json!(2);
    // Settings that another run had, in one that goes on and in one that is done.
    config["checkpoint"]["resume"] = json!("auto");
    config["optimizer"]["learning_rate"] = json!(2e-3);
    let changed = "from step 5 on other settings than before: `optimizer.learning_rate` was 0.003, is 0.002";
    assert_eq!(run("preflight", &config).0, [changed]);
    assert_eq!(run("launch", &config).0, [changed]);
    config["optimizer"]["clip_norm"] = json!(null);
    let (warnings, errors) = run("launch", &config);
    assert_eq!(
        warnings,
        ["from step 10 on other settings than before: `optimizer.clip_norm` was 1.0, is null"]
    );
    assert!(errors.contains("all 10 steps are done: nothing is trained"), "{errors}");
    // Dropout that the weights were made with.
    let card = place.at("model/config.json");
    let mut said: Value = serde_json::from_str(&std::fs::read_to_string(&card).unwrap()).unwrap();
    said["attention_dropout"] = json!(0.1);
    std::fs::write(&card, said.to_string()).unwrap();
    config["model"]["weights"] = json!(place.at("model"));
    config["checkpoint"]["resume"] = json!("never");
    config["output"]["model"] = json!(place.at("next"));
    let dropout = format!("{card} asks for dropout, which is not applied: `attention_dropout` 0.1");
    assert_eq!(run("preflight", &config).0, [dropout.as_str()]);
    assert_eq!(run("launch", &config).0, [dropout.as_str()]);
}

#[test]
fn export_refuses_what_it_would_ignore() {
    let place = Place::new("export");
    let mut config = llama(&place);
    let path = write(&place, &config);
    let out = place.at("exported");
    let output = worker(&["export", &path, "--out", &out, "--merge"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("`--merge` adds adapters, and `model.adapter` is null"));
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
    // One weight of the first block, which training leaves as it is.
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
        "tensor `model.layers.0.mlp.down_proj.weight` holds 1e5, and the largest number of F16 is 6.5504e4";
    assert!(errors.contains(says), "{errors}");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0, "no half of a model");
    let output = export("bf16");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn preflight_looks_at_weights_the_checkpoint_and_the_failure_file() {
    let _alone = alone();
    let (place, mut config) = place("looks");
    // A model to begin from: what a run of one step leaves.
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
    assert!(errors.contains("weights: every tensor is there"), "{errors}");
    assert!(errors.contains("resume: from the start"), "{errors}");
    let (code, errors) = look(&|c| c["checkpoint"]["resume"] = json!("auto"));
    assert!(code == Some(0) && errors.contains("resume: from step 1"), "{errors}");
    assert!(errors.contains("; 2 of 2 files read and compared with their sha256, 0.2 MiB"), "{errors}");
    assert!(!errors.contains("not all files"), "{errors}");
    // Without the time for it: said, and no reason to refuse.
    let mut unread = base.clone();
    unread["checkpoint"]["resume"] = json!("auto");
    let hurried = std::process::Command::new(crate::processes::WORKER)
        .args(["preflight", &write(&place, &unread)])
        .env("TRAINC_WORKER_COMPARE", "0")
        .output()
        .unwrap();
    let errors = text(&hurried.stderr);
    assert_eq!(hurried.status.code(), Some(0), "{errors}");
    assert!(errors.contains("; 0 of 2 files read") && errors.contains("warning: not all files"), "{errors}");
    // One bit of the other rank's file.
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
    assert!(code == Some(11) && errors.contains("with another seed"), "{errors}");
    std::fs::write(place.at("file"), "").unwrap();
    let (code, errors) = look(&|c| c["output"]["failure"] = json!(place.at("file/failure")));
    assert!(code == Some(3) && errors.contains("`output.failure`"), "{errors}");
    let (code, errors) = look(&|c| c["output"]["failure"] = json!(place.at("model")));
    assert!(code == Some(3) && errors.contains("`output.failure`"), "{errors}");
    // A tensor that is not whole.
    let model = std::path::PathBuf::from(place.at("model"));
    let file = model.join("model-00002-of-00004.safetensors");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 4]).unwrap();
    let (code, errors) = look(&|_| ());
    assert!(code == Some(10) && errors.contains("does not fit the file"), "{errors}");
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
    // A result that cannot be written is no result.
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
    // As many epochs as can be written.
    config["data"]["epochs"] = json!(u64::MAX);
    config["schedule"]["steps"] = json!(1);
    assert_eq!(worker(&["launch", &write(&place, &config)]).status.code(), Some(0));
    // A tensor that ends behind the end of all files.
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
        assert!(text(&output.stderr).contains("`x` does not fit the file"), "{}", text(&output.stderr));
    }
}
