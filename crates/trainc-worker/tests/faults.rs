//! Faults around a run: power cuts during a save, full disks, environments that contradict the config; and their
//! detection by `preflight`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cases::{Place, llama, mesh, write_data};
use crate::processes::{WORKER, alone, lines, place, text, wait_until, worker, write};

pub(crate) fn losses(lines: &[Value]) -> Vec<(u64, String)> {
    // Warnings are interspersed.
    let steps = lines.iter().filter(|line| line["event"].is_null());
    steps.map(|l| (l["step"].as_u64().unwrap(), l["loss"].to_string())).collect()
}

fn names(directory: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn kills_during_a_save_leave_a_complete_checkpoint() {
    let _alone = alone();
    let (place, mut config) = place("cut");
    config["schedule"]["steps"] = json!(40);
    let whole = losses(&lines(&worker(&["launch", &write(&place, &config)])));
    config["checkpoint"]["every_steps"] = json!(10);
    config["checkpoint"]["keep"] = json!(1);
    config["checkpoint"]["resume"] = json!("auto");
    let path = write(&place, &config);
    let _ = std::fs::remove_dir_all(place.at("checkpoints"));
    let mut all = Vec::new();
    // Each cut ends the run during the save of its tenth step; before `name` this save must have no effect.
    let cuts =
        [("shard", None), ("state", None), ("name", Some(10)), ("latest", Some(20)), ("state", Some(20))];
    for (point, counts) in cuts {
        let output =
            Command::new(WORKER).args(["launch", &path]).env("TRAINC_WORKER_FAULT", point).output().unwrap();
        assert_eq!(output.status.code(), Some(13), "{point}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("killed by signal 9"), "{point}");
        all.extend(losses(&lines(&output)));
        let newest = trainc_worker::checkpoint::newest(Path::new(&place.at("checkpoints")));
        let step = newest.map(|path| trainc_worker::checkpoint::load_state(&path).unwrap().step);
        assert_eq!(step, counts, "after a cut at `{point}`");
    }
    let output = worker(&["launch", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("resumed at step 20"), "{}", text(&output.stderr));
    all.extend(losses(&lines(&output)));
    for (step, loss) in &all {
        assert_eq!((step, loss), (&whole[*step as usize - 1].0, &whole[*step as usize - 1].1));
    }
    assert_eq!(all.last().unwrap().0, 40);
    assert_eq!(names(&place.at("checkpoints")), ["latest", "step-00000040"]);
    assert_eq!(std::fs::read_to_string(place.at("checkpoints/latest")).unwrap(), "step-00000040\n");
    // The log in the output has every step once, in order.
    let metrics = std::fs::read_to_string(place.at("out/metrics.jsonl")).unwrap();
    let metrics: Vec<Value> = metrics.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let steps: Vec<Value> = metrics.iter().filter(|l| l["event"].is_null()).cloned().collect();
    assert_eq!(losses(&steps), whole);
    let start = metrics.iter().find(|l| l["event"] == "start").unwrap();
    assert!(start["memory_parts"]["optimizer"].as_u64().unwrap() > 0, "{start}");
}

#[test]
fn a_full_disk_keeps_earlier_checkpoints() {
    let _alone = alone();
    let (place, mut config) = place("full");
    // 1.6 million parameters with little work: shards of 10 MB, larger than the shared memory.
    config["model"]["layers"] = json!(8);
    config["model"]["intermediate_size"] = json!(2048);
    config["memory"]["prefetch"] = json!(0);
    config["schedule"]["steps"] = json!(5);
    let whole = losses(&lines(&worker(&["launch", &write(&place, &config)])));
    let _ = std::fs::remove_dir_all(place.at("checkpoints"));
    config["checkpoint"]["every_steps"] = json!(2);
    config["checkpoint"]["resume"] = json!("auto");
    let mut short = config.clone();
    short["schedule"]["steps"] = json!(2);
    assert_eq!(worker(&["launch", &write(&place, &short)]).status.code(), Some(0));
    // A file size limit from the second save on.
    let path = write(&place, &config);
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 8000; exec \"$0\" launch \"$1\"", WORKER, &path])
        .output()
        .unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(11), "{errors}");
    assert!(errors.contains("step-00000004: shard-0000"), "{errors}");
    assert!(errors.contains("saved again after the next interval"), "{errors}");
    let reason = std::fs::read_to_string(place.at("failure")).unwrap();
    assert!(reason.starts_with("rank ") && reason.contains("File too large"), "{reason}");
    assert_eq!(names(&place.at("checkpoints")), ["latest", "step-00000002"]);
    let output = worker(&["launch", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(losses(&lines(&output)), whole[2..]);
    assert!(!Path::new(&place.at("failure")).exists(), "the reason of an earlier run is gone");
    // A file system with space for one checkpoint and half of the next, if one may be mounted.
    let namespaces = Command::new("unshare").args(["-rm", "true"]).status().is_ok_and(|s| s.success());
    if !namespaces {
        println!("no namespaces here: a full file system was not tried");
        return;
    }
    let script = r#"
        mkdir -p "$2" && mount -t tmpfs -o size=32m none "$2"
        "$0" launch "$1"; echo "code $?" $(ls "$2")
        mount -o remount,size=128m "$2"
        "$0" launch "$1"; echo "code $?" $(ls "$2")
    "#;
    config["checkpoint"]["directory"] = json!(place.at("small"));
    let path = write(&place, &config);
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, WORKER, &path, &place.at("small")])
        .output()
        .unwrap();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(errors.contains("No space left on device"), "{errors}");
    let said: Vec<&str> = out.lines().filter(|l| !l.starts_with('{')).collect();
    assert_eq!(said, ["code 11 latest step-00000002", "code 0 latest step-00000004 step-00000005"]);
}

/// Runs `agent` on the checkpoint directory again and again while `work` runs.
fn run_with_agent<R>(
    directory: &str,
    pause: u64,
    agent: impl Fn(&Path) + Sync,
    work: impl FnOnce() -> R,
) -> R {
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                agent(Path::new(directory));
                std::thread::sleep(std::time::Duration::from_millis(pause));
            }
        });
        let result = work();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        result
    })
}

/// Leaves a marker beside each file of a checkpoint, as SageMaker's upload does, also in directories that are being removed.
fn leave_markers(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            let name = file.file_name().into_string().unwrap();
            if !name.ends_with(".sagemaker-uploaded") {
                let _ = std::fs::File::create(entry.path().join(name + ".sagemaker-uploaded"));
            }
        }
    }
}

#[test]
fn uploads_beside_a_hundred_saves_end_nothing() {
    let _alone = alone();
    for pause in [2, 50, 300] {
        let (place, mut config) = place("markers");
        config["schedule"]["steps"] = json!(400);
        config["checkpoint"]["every_steps"] = json!(4);
        config["checkpoint"]["keep"] = json!(2);
        config["checkpoint"]["resume"] = json!("auto");
        let path = write(&place, &config);
        let directory = place.at("checkpoints");
        let output = run_with_agent(&directory, pause, leave_markers, || worker(&["launch", &path]));
        assert_eq!(output.status.code(), Some(0), "every {pause} ms: {}", text(&output.stderr));
        assert_eq!(losses(&lines(&output)).len(), 400);
        let complete = trainc_worker::checkpoint::list_checkpoints(Path::new(&directory));
        let steps: Vec<usize> = complete.iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, [396, 400], "every {pause} ms");
        // Nothing was named otherwise, and what could not be removed at once was removed later.
        let left = names(&directory);
        assert!(left.iter().all(|name| name == "latest" || name.starts_with("step-000")), "{left:?}");
        assert!(left.len() <= 4, "every {pause} ms: {left:?}");
        config["schedule"]["steps"] = json!(410);
        let output = worker(&["launch", &write(&place, &config)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("resumed at step 400"), "{}", text(&output.stderr));
    }
}

#[test]
fn a_loss_that_is_not_finite_keeps_earlier_checkpoints() {
    let _alone = alone();
    let (place, mut config) = place("nan");
    config["schedule"]["steps"] = json!(400);
    config["checkpoint"]["every_steps"] = json!(5);
    config["optimizer"]["learning_rate"] = json!(1e6);
    config["optimizer"]["clip_norm"] = json!(null);
    let output = worker(&["launch", &write(&place, &config)]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(12), "{errors}");
    assert!(errors.contains("finite"), "{errors}");
    for (_, path) in trainc_worker::checkpoint::list_checkpoints(Path::new(&place.at("checkpoints"))) {
        let state = trainc_worker::checkpoint::load_state(&path).unwrap();
        trainc_worker::checkpoint::verify(&path, &state).unwrap();
    }
}

/// A checkpoint directory in which nothing can be written for a while, as on a full disk: saves fail, and training
/// continues. It is writable again once a save has failed, or never.
#[test]
fn saves_that_fail_for_a_while_are_survived() {
    let _alone = alone();
    let (place, mut config) = place("no-space");
    config["checkpoint"]["every_steps"] = json!(40);
    config["checkpoint"]["resume"] = json!("auto");
    let directory = place.at("checkpoints");
    let run = |minute: &str, steps: usize, ends: bool| {
        let _ = std::fs::remove_dir_all(&directory);
        let mut config = config.clone();
        config["schedule"]["steps"] = json!(40);
        assert_eq!(worker(&["launch", &write(&place, &config)]).status.code(), Some(0));
        // Files instead of the directories of the next checkpoints.
        let next =
            (2..=steps / 40).map(|number| Path::new(&directory).join(format!("step-{:08}", 40 * number)));
        let next: Vec<_> = next.collect();
        for path in &next {
            std::fs::write(path, "").unwrap();
        }
        config["schedule"]["steps"] = json!(steps);
        let mut running = Command::new(WORKER)
            .args(["launch", &write(&place, &config)])
            .env("TRAINC_WORKER_MINUTE", minute)
            .stdout(std::fs::File::create(place.at("lines")).unwrap())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = String::new();
        for line in BufReader::new(running.stderr.take().unwrap()).lines().map_while(Result::ok) {
            if ends && line.contains("saved again after the next interval") {
                let files = next.iter().filter(|path| path.is_file());
                files.for_each(|path| std::fs::remove_file(path).unwrap());
            }
            errors += &(line + "\n");
        }
        (running.wait().unwrap().code(), errors)
    };
    let newest = || trainc_worker::checkpoint::newest(Path::new(&directory)).unwrap();
    let step = |path: &Path| trainc_worker::checkpoint::load_state(path).unwrap().step;
    let (code, errors) = run("60", 4000, true);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("saved again after the next interval"), "{errors}");
    let printed = std::fs::read_to_string(place.at("lines")).unwrap();
    assert_eq!(printed.lines().filter(|line| line.contains("\"loss\":")).count(), 3960);
    assert_eq!(step(&newest()), 4000);
    // Three failures end the run, and the checkpoint before them remains.
    let (code, errors) = run("1", 100_000, false);
    assert_eq!(code, Some(11), "{errors}");
    assert!(errors.contains(" saves have failed, and the last checkpoint is "), "{errors}");
    assert_eq!(step(&newest()), 40);
}

/// Returns every file below a model directory with its contents.
fn files(directory: &str) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| (name.clone(), std::fs::read(Path::new(directory).join(name)).unwrap());
    names(directory).into_iter().map(read).collect()
}

#[test]
fn an_interrupted_export_keeps_the_old_model() {
    let _alone = alone();
    let (place, mut config) = place("export");
    config["checkpoint"]["resume"] = json!("auto");
    let model = config["output"]["model"].as_str().unwrap().to_owned();
    assert_eq!(worker(&["launch", &write(&place, &config)]).status.code(), Some(0));
    let old = files(&model);
    // Two more steps give a different model.
    config["schedule"]["steps"] = json!(12);
    let path = write(&place, &config);
    for (signal, code) in [("-TERM", Some(75)), ("-KILL", None)] {
        let mut run = Command::new(WORKER)
            .args(["launch", &path])
            .env("TRAINC_WORKER_FAULT", "export")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the export", || {
            assert!(run.try_wait().unwrap().is_none(), "the run ended before its export");
            names(&model).iter().any(|name| name.ends_with(".safetensors.partial"))
        });
        crate::processes::signal(run.id(), signal);
        assert_eq!(run.wait().unwrap().code(), code);
        let mut found = files(&model);
        if code.is_some() {
            assert_eq!(names(&model), old.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
        }
        found.retain(|(name, _)| !name.ends_with(".partial"));
        assert!(found == old, "after {signal}");
        let newest = trainc_worker::checkpoint::newest(Path::new(&place.at("checkpoints"))).unwrap();
        assert_eq!(trainc_worker::checkpoint::load_state(&newest).unwrap().step, 12);
    }
    let output = worker(&["launch", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let new = files(&model);
    let named = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(named(&new), named(&old));
    assert!(new != old);
    // A file size limit that only the model exceeds.
    let largest = new.iter().map(|(_, bytes)| bytes.len()).max().unwrap();
    let blocks = (largest / 512 - 1).to_string();
    let output = Command::new("bash")
        .args(["-c", "ulimit -S -f $2; exec \"$0\" export \"$1\" --out \"$3\"", WORKER, &path, &blocks])
        .arg(place.at("exported"))
        .env("POSIXLY_CORRECT", "1")
        .output()
        .unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(15), "{errors}");
    assert!(errors.contains("File too large"), "{errors}");
    assert!(names(&place.at("exported")).is_empty());
}

#[test]
fn unwritable_metrics_are_a_warning() {
    let _alone = alone();
    let (place, config) = place("metrics");
    // The file is created under a temporary name and renamed, so replacing it afterwards with the device that is always
    // full works.
    std::fs::create_dir_all(place.at("out")).unwrap();
    std::os::unix::fs::symlink("/dev/full", place.at("out/metrics.partial")).unwrap();
    let output = worker(&["launch", &write(&place, &config)]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let all = lines(&output);
    let warnings: Vec<&Value> = all.iter().filter(|line| line["event"] == "warning").collect();
    assert_eq!(warnings.len(), 1, "{all:?}");
    let says = format!(
        "{}: No space left on device (os error 28); no further metrics are written",
        place.at("out/metrics.jsonl")
    );
    assert_eq!(warnings[0]["warning"], says);
    assert!(errors.contains(&format!("warning: {says}\n")), "{errors}");
    assert_eq!(losses(&all).len(), 10);
}

#[test]
fn an_environment_that_contradicts_the_config_fails() {
    let _alone = alone();
    let (place, config) = place("environment");
    let path = write(&place, &config);
    let run = |variables: &[(&str, &str)]| {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let output = Command::new(WORKER).args(["launch", &path]).envs(variables).output().unwrap();
        (output.status.code(), text(&output.stderr), text(&output.stdout))
    };
    let ranks = |rank: &'static str, local: &'static str, world: &'static str| {
        vec![("RANK", rank), ("LOCAL_RANK", local), ("WORLD_SIZE", world)]
    };
    let (code, errors, _) = run(&ranks("0", "0", "4"));
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.contains("planned for 2 ranks, found 4 in torchrun's variables"), "{errors}");
    let (code, errors, _) = run(&ranks("0", "1", "2"));
    assert_eq!(code, Some(3));
    assert!(errors.contains("LOCAL_RANK=1"), "{errors}");
    let (code, errors, out) = run(&ranks("1", "1", "2"));
    assert_eq!((code, out.as_str()), (Some(0), ""), "{errors}");
    let (code, errors, out) = run(&ranks("0", "0", "2"));
    assert_eq!((code, out.lines().count()), (Some(0), 10), "{errors}");
    // SageMaker's directory.
    let base = place.at("ml");
    std::fs::create_dir_all(format!("{base}/input/config")).unwrap();
    std::fs::create_dir_all(format!("{base}/output")).unwrap();
    let resources = |text: &str| {
        std::fs::write(format!("{base}/input/config/resourceconfig.json"), text).unwrap();
        run(&[("SAGEMAKER_BASE_DIR", &base)])
    };
    let (code, errors, _) = resources(r#"{"current_host": "algo-1", "hosts": ["algo-1", "algo-2"]}"#);
    assert_eq!(code, Some(3));
    assert!(
        errors.contains("`cluster.nodes`: planned for 1 hosts, found 2 in resourceconfig.json"),
        "{errors}"
    );
    let (code, errors, _) = resources(
        r#"{"current_host": "algo-1", "hosts": ["algo-1"], "current_instance_type": "ml.m5.large"}"#,
    );
    assert_eq!(code, Some(3));
    assert!(errors.contains("planned for `local`, found `ml.m5.large` in resourceconfig.json"), "{errors}");
    let (code, errors, _) = resources("{");
    assert_eq!(code, Some(3));
    assert!(errors.contains("resourceconfig.json: EOF"), "{errors}");
    // An unreadable config still leaves its reason where SageMaker reads it.
    std::fs::write(&path, "{}").unwrap();
    let (code, _, _) = run(&[("SAGEMAKER_BASE_DIR", &base)]);
    assert_eq!(code, Some(3));
    let reason = std::fs::read_to_string(format!("{base}/output/failure")).unwrap();
    assert!(reason.starts_with("config: `.`: missing field `schema`"), "{reason}");
}

#[test]
fn preflight_reports_failures_of_training() {
    let _alone = alone();
    let (place, config) = place("preflight");
    let output = worker(&["preflight", &write(&place, &config)]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let found = lines(&output);
    let checks: Vec<&str> = found.iter().map(|l| l["check"].as_str().unwrap()).collect();
    assert_eq!(checks, ["ranks", "clocks", "links", "checkpoints", "outputs", "resume", "data", "all"]);
    assert!(found[2]["gather_gb_per_s"].as_f64().unwrap() > 0.0);
    assert!(found[6]["needed_per_s_and_rank"].as_f64().unwrap() > 0.0, "{errors}");
    assert!(names(&place.at("checkpoints")).is_empty(), "nothing is left");
    let failing = |field: &str, name: &str, value: Value| {
        let mut config = config.clone();
        config[field][name] = value;
        let output = worker(&["preflight", &write(&place, &config)]);
        (output.status.code(), text(&output.stderr))
    };
    std::fs::write(place.at("file"), "").unwrap();
    let (code, errors) = failing("checkpoint", "directory", json!(place.at("file/below")));
    assert_eq!(code, Some(11), "{errors}");
    assert!(errors.contains("`checkpoint.directory`") && errors.contains("Not a directory"), "{errors}");
    let (code, errors) = failing("output", "model", json!(place.at("file/below")));
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.contains("`output.model`"), "{errors}");
    let mut unread = config.clone();
    unread["data"]["validation"] = json!("/nowhere");
    unread["log"]["evaluate_every_steps"] = json!(5);
    let output = worker(&["preflight", &write(&place, &unread)]);
    assert_eq!(output.status.code(), Some(10), "{}", text(&output.stderr));
    let (code, errors) = failing("checkpoint", "grace_seconds", json!(0.0));
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("`checkpoint.grace_seconds` is 0"), "{errors}");
}

#[test]
fn eight_ranks_for_a_thousand_steps() {
    let _alone = alone();
    let place = Place::new("eight");
    write_data(&place.0.join("train"), 40, 24, 61, 1);
    // Saves compare the replicas' checksums.
    let mut config = mesh(llama(&place), 2, 4, 1);
    config["schedule"]["steps"] = json!(1000);
    config["checkpoint"]["every_steps"] = json!(100);
    let output = worker(&["launch", &write(&place, &config)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = lines(&output);
    assert_eq!(lines.len(), 1000);
    let memory = |step: usize| lines[step - 1]["memory"].as_u64().unwrap();
    assert!(
        memory(1000) < memory(250) + (1 << 20),
        "{} bytes after 250 steps, {} after 1000",
        memory(250),
        memory(1000)
    );
    assert!(lines[999]["loss"].as_f64().unwrap() < lines[0]["loss"].as_f64().unwrap() / 2.0);
}
