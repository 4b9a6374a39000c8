//! `trainc run`: a job of the worker on this machine, from the manifest to the model.

use crate::support::{Ran, Scratch, root, wait_until};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Longest that one of these runs may take: two cores may be busy with other tests.
const LONGEST: Duration = Duration::from_mins(2);

/// Steps of the job that is stopped.
const STEPS: u64 = 12;

fn trainc_in(dir: &Path, args: &[&str]) -> Ran {
    crate::support::trainc_in(dir, args, b"", LONGEST)
}

/// The worker's binary. `cargo test --workspace` has built it; where only this package is tested, it is built once.
pub(crate) fn worker() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = Path::new(env!("CARGO_BIN_EXE_trainc")).parent().unwrap().join("trainc-worker");
        if !path.exists() {
            let built = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "--locked", "--package", "trainc-worker"])
                .current_dir(root())
                .status()
                .unwrap();
            assert!(built.success());
        }
        path.to_str().unwrap().to_owned()
    })
}

/// The smallest job that trains: two ranks, some steps, packed text beside the manifest.
fn place(name: &str, steps: u64) -> Scratch {
    let scratch = Scratch::new(name);
    let manifest = format!(
        r#"
job "small" {{
    model "llama" {{
        hidden 32
        layers 2
        heads 2
        ffn 64
        vocab 257
        positions 32
    }}
    cluster "local" {{
        ranks 2
    }}
    parallel engine="worker" {{
        shard-degree 2
    }}
    train {{
        precision "fp32"
        sequence-length 32
        micro-batch 2
        global-batch 8
        optimizer "adamw" lr=1e-2 clip=1.0
        steps {steps}
        seed 1
    }}
    channel "train" path="packed"
    checkpoint every="40 steps" keep=2
}}
"#
    );
    fs::write(scratch.0.join("small.kdl"), manifest).unwrap();
    let example = root().join("examples/tiny-llama");
    let packed = trainc_in(
        &scratch.0,
        &[
            "data",
            "pack",
            "--tokenizer",
            example.join("tokenizer.json").to_str().unwrap(),
            "--sequence-length",
            "32",
            "--out",
            "packed",
            example.join("alice.txt").to_str().unwrap(),
        ],
    );
    assert_eq!(packed.code, Some(0), "{}", packed.err);
    scratch
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The losses by step.
fn losses(lines: &[Value]) -> Vec<(u64, f64)> {
    lines
        .iter()
        .filter(|line| line["type"] == "step")
        .map(|line| (line["step"].as_u64().unwrap(), line["loss"].as_f64().unwrap()))
        .collect()
}

#[test]
fn a_job_trains_and_goes_on_where_it_was_stopped() {
    let whole = place("run-whole", STEPS);
    let args = ["run", "small.kdl", "--worker", worker(), "-o", "json"];
    let ran = trainc_in(&whole.0, &args);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let found = lines(&ran.out);
    assert_eq!(found.first().unwrap()["type"], "version");
    let last = found.last().unwrap();
    assert_eq!(
        (&last["type"], &last["exit"], &last["worker_code"]),
        (&"result".into(), &0.into(), &0.into())
    );
    // What the worker counted is what was planned; resident are program and libraries as well.
    let memory = |name: &str| last["memory"][name].as_f64().unwrap();
    assert!((memory("counted_bytes") / memory("planned_bytes") - 1.0).abs() < 0.08, "{last}");
    assert!(memory("resident_bytes") > 0.5 * memory("counted_bytes"), "{last}");
    let uninterrupted = losses(&found);
    assert_eq!(uninterrupted.len() as u64, STEPS);
    // 257 tokens guessed alike cost ln 257 = 5.549 nats each.
    assert!((uninterrupted[0].1 - 257_f64.ln()).abs() < 0.1, "{uninterrupted:?}");
    assert!(uninterrupted[11].1 < uninterrupted[0].1 - 0.5, "{uninterrupted:?}");
    assert!(whole.0.join("runs/small/model/config.json").is_file());

    let stopped = place("run-stopped", STEPS);
    let mut first = interrupted(&stopped.0, &args);
    assert!(!first.is_empty() && (first.len() as u64) < STEPS, "{first:?}");
    let second = trainc_in(&stopped.0, &args);
    assert_eq!(second.code, Some(0), "{}", second.err);
    first.extend(losses(&lines(&second.out)));
    assert_eq!(first, uninterrupted, "a step was lost, repeated or changed");
}

/// Runs until a step is done, after which the worker waits, and sends SIGINT; gives the steps that were printed.
fn interrupted(dir: &Path, args: &[&str]) -> Vec<(u64, f64)> {
    let out = dir.join("lines.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_trainc"))
        .args(args)
        .current_dir(dir)
        .env("TRAINC_WORKER_FAULT", "step")
        .stdout(fs::File::create(&out).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("a step", || !losses(&whole_lines(&out)).is_empty());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let status = child.wait().unwrap();
    let found = whole_lines(&out);
    assert_eq!(status.code(), Some(8), "{found:?}");
    assert_eq!(found.last().unwrap()["worker_code"], 75);
    losses(&found)
}

fn whole_lines(path: &PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    lines(whole)
}

#[test]
fn a_failure_is_said_once() {
    let scratch = place("run-said-once", 4);
    let data = fs::read_dir(scratch.0.join("packed")).unwrap().flatten().map(|entry| entry.path());
    let tokens = data.into_iter().find(|path| path.extension().is_some_and(|e| e == "bin")).unwrap();
    fs::OpenOptions::new().write(true).open(&tokens).unwrap().set_len(100).unwrap();
    // Both ranks find it, at the same time: what they write to one stream must not mix.
    for _ in 0..5 {
        let ran = trainc_in(&scratch.0, &["run", "small.kdl", "--worker", worker()]);
        assert_eq!(ran.code, Some(8), "{}", ran.err);
        assert_eq!(ran.err.matches("has 100 bytes").count(), 1, "{}", ran.err);
        let _ = fs::remove_dir_all(scratch.0.join("runs"));
    }
}

/// Whether this process, and so what it starts, was started with SIGHUP ignored.
fn hangup_is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1)
}

#[test]
fn whoever_ends_it_no_rank_is_left_and_nothing_is_lost() {
    // The terminal closes; and `trainc run` itself is killed, which it cannot answer.
    // Under `nohup` a hangup is ignored, as it should be: there is nothing to see of it.
    let signals: &[&str] = if hangup_is_ignored() { &["-KILL"] } else { &["-HUP", "-KILL"] };
    for &signal in signals {
        let scratch = place(&format!("run-ended{signal}"), 1_000_000);
        let log = scratch.0.join("runs/small/log.txt");
        let mut child = Command::new(env!("CARGO_BIN_EXE_trainc"))
            .args(["run", "small.kdl", "--worker", worker()])
            .current_dir(&scratch.0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("a step", || fs::read_to_string(&log).is_ok_and(|text| text.contains("step=2 ")));
        let children_of = |pid: &str| -> Vec<String> {
            let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            text.split_whitespace().map(str::to_owned).collect()
        };
        let launcher = children_of(&child.id().to_string());
        let ranks = children_of(&launcher[0]);
        assert_eq!((launcher.len(), ranks.len()), (1, 2));
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), (signal == "-HUP").then_some(8), "{status:?}");
        // Whoever takes over orphans may let them stand as zombies, which have no program.
        let runs = |pid: &String| fs::read_link(format!("/proc/{pid}/exe")).is_ok();
        wait_until("the end of all processes", || !launcher.iter().chain(&ranks).any(runs));
        let saved = fs::read_to_string(scratch.0.join("runs/small/checkpoints/latest")).unwrap();
        assert!(saved.starts_with("step-"), "{signal}: {saved}");
    }
}

#[test]
fn one_run_at_a_time_and_a_signal_by_its_name() {
    let scratch = place("run-killed", 100_000);
    let out = scratch.0.join("lines.json");
    let args = ["run", "small.kdl", "--worker", worker()];
    for json in [true, false] {
        fs::write(&out, "").unwrap();
        let more: &[&str] = if json { &["-o", "json"] } else { &[] };
        let child = Command::new(env!("CARGO_BIN_EXE_trainc"))
            .args(args)
            .args(more)
            .current_dir(&scratch.0)
            .stdout(fs::File::create(&out).unwrap())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = scratch.0.join("runs/small/log.txt");
        let steps = |text: String| text.lines().filter(|line| line.starts_with("step=")).count();
        let before = fs::read_to_string(&log).map_or(0, steps);
        wait_until("two steps", || fs::read_to_string(&log).map_or(0, steps) >= before + 2);
        let second = trainc_in(&scratch.0, &args);
        assert_eq!(second.code, Some(2), "{}", second.err);
        assert!(second.err.contains("another `trainc run` is using `runs/small`"), "{}", second.err);
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
        let launcher = children.split_whitespace().next().unwrap();
        assert!(Command::new("kill").args(["-KILL", launcher]).status().unwrap().success());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(8));
        let said = "the worker was killed by signal 9 (SIGKILL)";
        if json {
            let last = whole_lines(&out).pop().unwrap();
            assert_eq!((&last["worker_code"], &last["reason"]), (&137.into(), &said.into()));
        } else {
            let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(errors.contains(said) && !errors.contains("a bug"), "{errors}");
            assert!(errors.contains("the same command goes on from the last checkpoint"), "{errors}");
        }
    }
}

#[test]
fn the_worker_inherits_a_random_key() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = place("run-key", 2);
    let script = scratch.write("worker.sh", "#!/bin/sh\necho \"$@\" > seen; env >> seen; cat > key\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let keys = [0, 1].map(|_| {
        trainc_in(&scratch.0, &["run", "small.kdl", "--worker", "./worker.sh"]);
        let key = fs::read_to_string(scratch.0.join("key")).unwrap();
        assert!(key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
        let seen = fs::read_to_string(scratch.0.join("seen")).unwrap();
        assert!(seen.starts_with("launch --key-stdin ") && !seen.contains(&key), "{seen}");
        key
    });
    assert_ne!(keys[0], keys[1]);
}

#[test]
fn what_cannot_run_is_refused_before_it_starts() {
    let scratch = place("run-refused", 3);
    let run = |more: &[&str]| {
        let mut args = vec!["run", "small.kdl", "--worker", worker()];
        args.extend(more);
        trainc_in(&scratch.0, &args)
    };
    let other = trainc_in(root(), &["run", "examples/neox-20b-fsdp/trainc.kdl", "--worker", worker()]);
    assert_eq!(other.code, Some(3));
    assert!(other.err.contains("T0544"), "{}", other.err);
    let none = run(&["--data", "nowhere"]);
    assert_eq!(none.code, Some(2));
    assert!(
        none.err.contains("`nowhere` holds no packed tokens; make them with `trainc data pack`"),
        "{}",
        none.err
    );
    // 8 sequences do not divide over 3 ranks of 2.
    let three = run(&["--ranks", "3"]);
    assert_eq!(three.code, Some(3), "{}", three.err);
    assert!(three.err.contains("worker's code 3"), "{}", three.err);
    let gpus = trainc_in(
        root(),
        &[
            "run",
            "examples/llama-7b-worker/trainc.kdl",
            "--worker",
            worker(),
            "--data",
            scratch.0.join("packed").to_str().unwrap(),
            "--out",
            scratch.0.join("out").to_str().unwrap(),
        ],
    );
    assert_eq!(gpus.code, Some(2));
    assert!(gpus.err.contains("`--ranks 2`"), "{}", gpus.err);
}

#[test]
fn the_regexes_of_the_request_read_the_log_of_the_worker() {
    let scratch = place("run-metrics", 3);
    let ran = trainc_in(&scratch.0, &["run", "small.kdl", "--worker", worker()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let memory = ran.out.lines().find(|line| line.starts_with("memory ")).unwrap();
    assert!(memory.contains(" a rank, ") && memory.ends_with(" planned"), "{memory}");
    assert!(
        ran.err.lines().any(|line| line.starts_with("step 3/3") && line.contains(" planned")),
        "{}",
        ran.err
    );
    let log = fs::read_to_string(scratch.0.join("runs/small/log.txt")).unwrap();
    let request =
        fs::read_to_string(root().join("tests/golden/llama-7b-worker/sagemaker/training-job.json")).unwrap();
    let request: Value = serde_json::from_str(&request).unwrap();
    let steps: Vec<&str> = log.lines().filter(|line| line.starts_with("step=")).collect();
    assert_eq!(steps.len(), 3, "{log}");
    for definition in request["AlgorithmSpecification"]["MetricDefinitions"].as_array().unwrap() {
        let name = definition["Name"].as_str().unwrap();
        let regex = regex::Regex::new(definition["Regex"].as_str().unwrap()).unwrap();
        let read = steps.iter().filter(|line| regex.is_match(line)).count();
        // No peak is known of a CPU, and the job evaluates nothing.
        let wanted = if matches!(name, "train:mfu" | "train:validation_loss") { 0 } else { 3 };
        assert_eq!(read, wanted, "{name}: {steps:?}");
    }
}
