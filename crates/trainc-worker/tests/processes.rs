//! The binary: ranks as processes, signals, killed processes, exit codes.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cases::{Place, llama, mesh, write_data};

pub(crate) const WORKER: &str = env!("CARGO_BIN_EXE_trainc-worker");

/// Key of the runs with several hosts.
pub(crate) const KEY: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0\n";

pub(crate) fn write(place: &Place, config: &Value) -> String {
    let path = place.at("worker.json");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

pub(crate) fn start(arguments: &[&str]) -> Child {
    Command::new(WORKER).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn worker(arguments: &[&str]) -> Output {
    start(arguments).wait_with_output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn lines(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Serializes tests: ranks that wait for each other compete for two cores.
static ALONE: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn place(name: &str) -> (Place, Value) {
    let place = Place::new(name);
    write_data(&place.0.join("train"), 40, 24, 61, 1);
    std::fs::write(place.at("rendezvous.key"), KEY).unwrap();
    let config = mesh(llama(&place), 2, 1, 1);
    (place, config)
}

/// Returns the process IDs of the launcher's ranks.
pub(crate) fn ranks(launcher: &Child) -> Vec<u32> {
    let path = format!("/proc/{0}/task/{0}/children", launcher.id());
    let children = std::fs::read_to_string(path).unwrap();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

pub(crate) fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// Waits until something is true; fails after far more time than a busy machine needs.
pub(crate) fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < Duration::from_mins(2), "{what}: not within two minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a checkpoint, when the run is in progress.
pub(crate) fn wait_for_checkpoint(launcher: &mut Child, directory: &str) {
    let newest = || trainc_worker::checkpoint::newest(Path::new(directory));
    // A checkpoint of an earlier run does not count.
    let before = newest();
    wait_until("a checkpoint", || {
        assert!(launcher.try_wait().unwrap().is_none(), "the run ended early");
        newest() != before
    });
}

#[test]
fn a_run_of_processes() {
    let _alone = alone();
    let (place, config) = place("run");
    let path = write(&place, &config);
    let output = worker(&["launch", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let two = lines(&output);
    assert_eq!(two.len(), 10);
    for (i, line) in two.iter().enumerate() {
        assert_eq!(line["step"], i + 1);
        assert!(line["mfu"].is_null() && line["memory"].as_u64().unwrap() > 1 << 20);
        assert!(line["tokens_per_s"].as_f64().unwrap() > 0.0);
    }
    assert!(text(&output.stderr).contains("step=10 loss="));
    assert!(Path::new(&place.at("model/model.safetensors.index.json")).is_file());
    // A different number of ranks, the same batch.
    let output = worker(&["launch", &path, "--ranks", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for (a, b) in lines(&output).iter().zip(&two) {
        let (a, b) = (a["loss"].as_f64().unwrap(), b["loss"].as_f64().unwrap());
        assert!((a - b).abs() < 2e-6 * b);
    }
    let output = worker(&["launch", &path, "--ranks", "3"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("8 is not divisible by 12 (3 ranks x micro-batch size 4)"));
    let output = worker(&["inspect", &place.at("checkpoints/step-00000010")]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("\"sequences\": 80"));
}

#[test]
fn a_stopped_run_saves_and_resumes() {
    let _alone = alone();
    let (place, mut config) = place("term");
    config["schedule"]["steps"] = json!(1500);
    let whole = lines(&worker(&["launch", &write(&place, &config)]));
    let _ = std::fs::remove_dir_all(place.at("checkpoints"));
    config["checkpoint"]["every_steps"] = json!(20);
    config["checkpoint"]["resume"] = json!("auto");
    let path = write(&place, &config);
    let mut all = Vec::new();
    // Under `nohup` the worker ignores SIGHUP, as intended.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    let hangs_up = u64::from_str_radix(ignored.trim(), 16).is_ok_and(|mask| mask & 1 == 0);
    for name in ["-TERM", if hangs_up { "-HUP" } else { "-TERM" }] {
        let mut run = start(&["launch", &path]);
        wait_for_checkpoint(&mut run, &place.at("checkpoints"));
        signal(run.id(), name);
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(75), "{name}: {}", text(&output.stderr));
        all.extend(lines(&output));
        assert!(all.len() < 1500, "it stopped in the middle");
    }
    all.extend(lines(&worker(&["launch", &path])));
    assert_eq!(all.len(), 1500);
    for (a, b) in all.iter().zip(&whole) {
        assert_eq!((&a["step"], &a["loss"]), (&b["step"], &b["loss"]));
    }
}

#[test]
fn a_killed_run_resumes_from_a_complete_checkpoint() {
    let _alone = alone();
    let (place, mut config) = place("kill");
    config["schedule"]["steps"] = json!(1500);
    let whole = lines(&worker(&["launch", &write(&place, &config)]));
    let _ = std::fs::remove_dir_all(place.at("checkpoints"));
    config["checkpoint"]["every_steps"] = json!(10);
    config["checkpoint"]["resume"] = json!("auto");
    let path = write(&place, &config);
    let mut seen = vec![None; 1500];
    for round in 0..20u64 {
        let mut run = Command::new(WORKER)
            .args(["launch", &path])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // After as many steps: some kills meet a save.
        let count = 1 + trainc_worker::model::init::mix(round) % 50;
        let mut printed = BufReader::new(run.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut found: Vec<String> = printed.by_ref().take(count as usize).collect();
        let children = ranks(&run);
        // On a busy machine the run may have ended meanwhile.
        let rank = children.get(round as usize / 2 % 2).copied();
        if let Some(victim) = if round % 2 == 0 { Some(run.id()) } else { rank } {
            let _ = Command::new("kill").args(["-KILL", &victim.to_string()]).status();
        }
        found.extend(printed);
        run.wait().unwrap();
        for line in found {
            let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
            let step = line["step"].as_u64().unwrap() as usize;
            seen[step - 1] = Some(line["loss"].clone());
        }
        for child in children {
            let program = format!("/proc/{child}/exe");
            wait_until("a rank ends with its launcher", || !Path::new(&program).exists());
        }
    }
    let last = worker(&["launch", &path]);
    assert_eq!(last.status.code(), Some(0), "{}", text(&last.stderr));
    for line in lines(&last) {
        let step = line["step"].as_u64().unwrap() as usize;
        seen[step - 1] = Some(line["loss"].clone());
    }
    for (step, (seen, whole)) in seen.iter().zip(&whole).enumerate() {
        assert_eq!(seen.as_ref().unwrap(), &whole["loss"], "step {}", step + 1);
    }
}

#[test]
fn a_dead_rank_is_reported() {
    let _alone = alone();
    let (place, mut config) = place("dead");
    config["schedule"]["steps"] = json!(1_000_000);
    config["checkpoint"]["every_steps"] = json!(20);
    let mut run = start(&["launch", &write(&place, &config)]);
    wait_for_checkpoint(&mut run, &place.at("checkpoints"));
    signal(ranks(&run)[1], "-KILL");
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(13));
    let errors = text(&output.stderr);
    assert!(errors.contains("error: rank 1 was killed by signal 9 (137)"), "{errors}");
    assert!(errors.contains("error: rank 1 died"), "the other rank says it too: {errors}");
    let reason = std::fs::read_to_string(place.at("failure")).unwrap();
    assert_eq!(reason, "rank 1 was killed by signal 9 (137)\n");
    // A hung rank is detected by its heartbeat.
    config["communication"]["peer_dead_seconds"] = json!(1.0);
    let _ = std::fs::remove_dir_all(place.at("checkpoints"));
    let mut run = start(&["launch", &write(&place, &config)]);
    wait_for_checkpoint(&mut run, &place.at("checkpoints"));
    signal(ranks(&run)[0], "-STOP");
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(13));
    assert!(text(&output.stderr).contains("rank 0 sent no heartbeat for 1 s"), "{}", text(&output.stderr));
}

#[test]
fn a_stop_interrupts_an_evaluation() {
    let _alone = alone();
    let (place, mut config) = place("evaluating");
    write_data(&place.0.join("validation"), 60_000, 24, 61, 2);
    config["data"]["validation"] = json!(place.at("validation"));
    config["log"]["evaluate_every_steps"] = json!(1);
    let mut run = start(&["launch", &write(&place, &config)]);
    let mut output_lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let first = output_lines.next().unwrap().unwrap();
    signal(run.id(), "-TERM");
    let rest: Vec<String> = output_lines.map_while(Result::ok).collect();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{}", text(&output.stderr));
    assert!(first.contains("\"step\":1"), "{first}");
    assert!(!rest.iter().any(|line| line.contains("validation_loss")), "{rest:?}");
    assert!(trainc_worker::checkpoint::newest(Path::new(&place.at("checkpoints"))).is_some());
}

#[test]
fn a_closed_pipe_does_not_end_a_run() {
    let _alone = alone();
    let (place, config) = place("unread");
    let mut run = start(&["launch", &write(&place, &config)]);
    drop(run.stdout.take());
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(Path::new(&place.at("model/model.safetensors.index.json")).is_file());
}

#[test]
fn invalid_configs_are_rejected() {
    let _alone = alone();
    let (place, base) = place("refused");
    let mut cases: Vec<(i32, &str, Box<dyn Fn(&mut Value)>)> = Vec::new();
    let mut case = |code, message, change: fn(&mut Value)| cases.push((code, message, Box::new(change)));
    case(3, "`model.wings`: unknown field `wings`", |c| c["model"]["wings"] = json!(2));
    case(3, "`model`: missing field `heads`", |c| drop(c["model"].as_object_mut().unwrap().remove("heads")));
    case(3, "`limits`: missing field `max_loss`", |c| {
        drop(c["limits"].as_object_mut().unwrap().remove("max_loss"));
    });
    case(3, "`batch.micro`: invalid type: string", |c| c["batch"]["micro"] = json!("4"));
    case(3, "`model.kv_heads`: 4 query heads are not divisible by 3 key and value heads", |c| {
        c["model"]["kv_heads"] = json!(3);
    });
    case(3, "`batch.global_sequences`: 8 is not 4 x 1 x 4 ranks = 16", |c| {
        c["mesh"]["shard_degree"] = json!(4);
    });
    case(3, "`model.adapter.targets`: `qkv`: this model family has the modules", |c| {
        c["model"]["adapter"] =
            json!({"kind": "lora", "rank": 8, "alpha": 16.0, "dropout": 0.0, "targets": ["qkv"]});
    });
    case(3, "`memory.offload`: `cpu` is unsupported", |c| c["memory"]["offload"] = json!("cpu"));
    case(3, "`model.layers`: 16777216 is not between 1 and 2^12", |c| {
        c["model"]["layers"] = json!(1 << 24);
    });
    case(3, "`model.hidden_size`: 1099511627776 is not between 1 and 2^20", |c| {
        c["model"]["hidden_size"] = json!(1_u64 << 40);
    });
    case(3, "MiB are available", |c| {
        c["model"]["vocab_size"] = json!(1_000_000_000);
        c["model"]["hidden_size"] = json!(8192);
    });
    case(3, "`precision.compute`: GPUs require `bf16`", |c| {
        c["cluster"] = json!({"instance": "ml.p4d.24xlarge", "nodes": 1, "gpus_per_node": 2});
    });
    case(3, "`model.head_dim`: 12 is not a multiple of 8 up to 256", |c| {
        c["cluster"] = json!({"instance": "ml.p4d.24xlarge", "nodes": 1, "gpus_per_node": 2});
        c["precision"]["compute"] = json!("bf16");
        c["model"]["head_dim"] = json!(12);
    });
    case(14, "0 GPUs found, but the config requires 2 per host (ml.p4d.24xlarge)", |c| {
        c["cluster"] = json!({"instance": "ml.p4d.24xlarge", "nodes": 1, "gpus_per_node": 2});
        c["precision"]["compute"] = json!("bf16");
    });
    case(10, "index.json: No such file", |c| c["data"]["train"] = json!("/nowhere"));
    case(10, "sequences of 24 tokens, but `model.sequence_length` is 12", |c| {
        c["model"]["sequence_length"] = json!(12);
    });
    case(10, "40 sequences do not fill a step of 64", |c| {
        c["batch"] = json!({"micro": 4, "accumulation": 8, "global_sequences": 64});
        c["data"]["epochs"] = json!(1);
    });
    case(11, "state.json", |c| c["checkpoint"]["resume"] = json!("/nowhere"));
    case(12, "the loss exceeds `limits.max_loss` 0.5", |c| c["limits"]["max_loss"] = json!(0.5));
    for (code, message, change) in cases {
        let mut config = base.clone();
        change(&mut config);
        let output = Command::new(WORKER)
            .args(["launch", &write(&place, &config)])
            .env("CUDA_VISIBLE_DEVICES", "")
            .output()
            .unwrap();
        let errors = text(&output.stderr);
        assert!(errors.contains(message), "`{message}` is not in {errors}");
        assert_eq!(output.status.code(), Some(code), "{errors}");
    }
    assert_eq!(worker(&["launch"]).status.code(), Some(2));
    let mut gpus = base.clone();
    gpus["cluster"] = json!({"instance": "ml.p4d.24xlarge", "nodes": 1, "gpus_per_node": 2});
    assert_eq!(worker(&["launch", &write(&place, &gpus), "--ranks", "2"]).status.code(), Some(0));
    // Truncated data is an error, not a signal.
    let file = place.at("train/tokens-00003.bin");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 2]).unwrap();
    let output = worker(&["launch", &write(&place, &base)]);
    assert_eq!(output.status.code(), Some(10));
    assert!(text(&output.stderr).contains("it was truncated or modified after packing"));
}
