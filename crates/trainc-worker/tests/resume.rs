//! Resuming, and exclusive use of the checkpoint directory.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use trainc_worker::checkpoint::{load_state, newest};

use crate::faults::losses;
use crate::processes::{lines, place, signal, start, text, wait_for_checkpoint, worker, write};

fn names(directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_run_from_a_path_resumes_from_its_own_checkpoints() {
    let _alone = crate::processes::alone();
    let (place, mut config) = place("from-path");
    config["checkpoint"]["every_steps"] = json!(2);
    config["checkpoint"]["keep"] = json!(1);
    let run = |config: &Value| {
        let output = worker(&["launch", &write(&place, config)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (losses(&lines(&output)), text(&output.stderr))
    };
    let (whole, _) = run(&config);
    let _ = std::fs::remove_dir_all(place.at("checkpoints"));
    // The first run leaves the checkpoint of step 5 (40 sequences are 5 steps).
    config["data"]["epochs"] = json!(1);
    run(&config);
    let from = place.at("checkpoints/step-00000005");
    assert_eq!(names(&place.at("checkpoints")), ["latest", "step-00000005"]);
    // A second run starts from it, in the same directory or in its own, and is killed after the save of step 8.
    for own in ["checkpoints", "other"] {
        config["checkpoint"]["directory"] = json!(place.at(own));
        config["checkpoint"]["resume"] = json!(from);
        config["data"]["epochs"] = json!(null);
        let path = write(&place, &config);
        let cut = Command::new(crate::processes::WORKER)
            .args(["launch", &path])
            .env("TRAINC_WORKER_FAULT", "latest")
            .output()
            .unwrap();
        assert_eq!(cut.status.code(), Some(13), "{}", text(&cut.stderr));
        assert!(text(&cut.stderr).contains("resumed at step 5"), "{}", text(&cut.stderr));
        assert_eq!(load_state(&newest(Path::new(&place.at(own))).unwrap()).unwrap().step, 6);
        let (rest, errors) = run(&config);
        assert!(errors.contains("resumed at step 6"), "{errors}");
        assert_eq!(rest, whole[6..], "in {own}");
        // The starting point is not removed, although `keep` is 1.
        assert!(Path::new(&from).is_dir());
        assert!(names(&place.at(own)).contains(&"step-00000010".to_owned()));
        assert!(!names(&place.at(own)).contains(&"step-00000008".to_owned()));
        // A changed config starts from the path again.
        let mut changed = config.clone();
        changed["digest"] = json!("1".repeat(64));
        assert!(run(&changed).1.contains("resumed at step 5"));
    }
}

#[test]
fn a_damaged_checkpoint_is_passed_over() {
    let _alone = crate::processes::alone();
    let (place, mut config) = place("passed-over");
    config["checkpoint"]["every_steps"] = json!(4);
    config["checkpoint"]["keep"] = json!(3);
    config["checkpoint"]["resume"] = json!("auto");
    let path = write(&place, &config);
    let whole = losses(&lines(&worker(&["launch", &path])));
    let newest = place.at("checkpoints/step-00000010");
    let file = format!("{newest}/shard-00001-of-00002.safetensors");
    let good = std::fs::read(&file).unwrap();
    let state = std::fs::read(format!("{newest}/state.json")).unwrap();
    let mut flipped = good.clone();
    let last = flipped.len() - 100;
    flipped[last] ^= 1;
    let damages: [(&str, &dyn Fn()); 5] = [
        ("No such file", &|| std::fs::remove_file(&file).unwrap()),
        ("expected", &|| std::fs::write(&file, &good[..good.len() / 2]).unwrap()),
        ("is damaged", &|| std::fs::write(&file, &flipped).unwrap()),
        ("state.json: No such file", &|| std::fs::remove_file(format!("{newest}/state.json")).unwrap()),
        ("state.json: EOF", &|| {
            std::fs::write(format!("{newest}/state.json"), &state[..state.len() / 2]).unwrap();
        }),
    ];
    for (said, damage) in damages {
        damage();
        let output = worker(&["launch", &path]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}: {errors}");
        assert!(errors.contains("step-00000010") && errors.contains(said), "{said}: {errors}");
        assert!(errors.contains("resumed at step 8"), "{said}: {errors}");
        // To the bit, and the damaged one is written again.
        assert_eq!(losses(&lines(&output)), whole[8..], "{said}");
        assert_eq!(std::fs::read(&file).unwrap(), good, "{said}");
    }
    // An older one named by `latest` is not passed over for a newer one.
    std::fs::write(place.at("checkpoints/latest"), "step-00000004\n").unwrap();
    let output = worker(&["launch", &path]);
    assert!(text_of(&output).contains("resumed at step 4"), "{}", text_of(&output));
    // Never from the start where there was something.
    for step in ["04", "08", "10"] {
        let state = place.at(&format!("checkpoints/step-000000{step}/state.json"));
        std::fs::write(state, "{}").unwrap();
    }
    let output = worker(&["launch", &path]);
    assert_eq!(output.status.code(), Some(11), "{}", text_of(&output));
    // A checkpoint named by path is replaced by naming another.
    std::fs::remove_dir_all(place.at("checkpoints")).unwrap();
    assert_eq!(worker(&["launch", &path]).status.code(), Some(0));
    std::fs::write(&file, &flipped).unwrap();
    let output = worker(&["export", &path, "--checkpoint", &newest, "--out", &place.at("exported")]);
    assert_eq!(output.status.code(), Some(11));
    assert!(text(&output.stderr).contains("`--checkpoint '"), "{}", text(&output.stderr));
    config["checkpoint"]["directory"] = json!(place.at("other"));
    config["checkpoint"]["resume"] = json!(newest);
    let output = worker(&["launch", &write(&place, &config)]);
    assert_eq!(output.status.code(), Some(11), "{}", text_of(&output));
    assert!(text_of(&output).contains("set `checkpoint.resume` to "), "{}", text_of(&output));
}

/// Other data, another seed, batch or schedule: refused, or taken with the weights and moments that are there.
#[test]
fn changes_are_refused_or_accepted() {
    let _alone = crate::processes::alone();
    let (place, mut config) = place("changes");
    config["schedule"]["steps"] = json!(8);
    config["checkpoint"]["resume"] = json!("auto");
    config["checkpoint"]["every_steps"] = json!(4);
    assert_eq!(worker(&["launch", &write(&place, &config)]).status.code(), Some(0));
    let copy = |from: &str, to: &str| {
        let status = Command::new("cp").args(["-r", &place.at(from), &place.at(to)]).status();
        assert!(status.unwrap().success());
    };
    copy("checkpoints", "before");
    // More steps at a constant rate are no change.
    config["schedule"]["steps"] = json!(14);
    crate::cases::write_data(&place.0.join("more"), 56, 24, 61, 1);
    let changes: [(&str, &str, Value, u64); 4] = [
        ("data", "train", json!(place.at("more")), 8),
        ("data", "seed", json!(18), 8),
        ("batch", "global_sequences", json!(4), 4),
        ("schedule", "kind", json!("linear"), 8),
    ];
    for (section, name, value, global) in changes {
        std::fs::remove_dir_all(place.at("checkpoints")).unwrap();
        copy("before", "checkpoints");
        let mut config = config.clone();
        config[section][name] = value;
        config["batch"]["micro"] = json!(global / 2);
        let refused = worker(&["launch", &write(&place, &config)]);
        let errors = text_of(&refused);
        assert_eq!(refused.status.code(), Some(11), "{name}: {errors}");
        assert!(errors.contains("set `checkpoint.accept_changes` to true to resume"), "{name}: {errors}");
        assert!(errors.contains(&format!("`{section}.{name}`")), "{name}: {errors}");
        config["checkpoint"]["accept_changes"] = json!(true);
        let path = write(&place, &config);
        let taken = worker(&["launch", &path]);
        let errors = text_of(&taken);
        assert_eq!(taken.status.code(), Some(0), "{name}: {errors}");
        assert!(errors.contains("resumed at step 8") && errors.contains("accepted at step 8"), "{errors}");
        let all = losses(&lines(&taken));
        assert_eq!((all[0].0, all.len()), (9, 6), "{name}");
        // The new order begins at its first sequences, and a restart continues in it.
        let state = load_state(Path::new(&place.at("checkpoints/step-00000012"))).unwrap();
        let began = if name == "kind" { (0, 0) } else { (8, 64) };
        assert_eq!((state.order.step, state.order.sequences), began, "{name}");
        assert_eq!(state.sequences, 64 + 4 * global, "{name}");
        std::fs::remove_dir_all(place.at("checkpoints/step-00000014")).unwrap();
        std::fs::write(place.at("checkpoints/latest"), "step-00000012\n").unwrap();
        config["checkpoint"]["accept_changes"] = json!(false);
        let again = worker(&["launch", &write(&place, &config)]);
        assert!(text_of(&again).contains("resumed at step 12"), "{name}: {}", text_of(&again));
        assert_eq!(losses(&lines(&again)), all[4..], "{name}");
    }
}

#[test]
fn an_inconsistent_state_is_rejected() {
    let _alone = crate::processes::alone();
    let (place, mut config) = place("state");
    config["checkpoint"]["resume"] = json!("auto");
    let path = write(&place, &config);
    assert_eq!(worker(&["launch", &path]).status.code(), Some(0));
    let file = place.at("checkpoints/step-00000010/state.json");
    let good: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    for (field, value, said) in [
        ("shards", json!(0), "0 shards in 2 files"),
        ("shards", json!(3), "3 shards in 2 files"),
        ("step", json!(u64::MAX / 2), "invalid step 9223372036854775807"),
        ("sequences", json!(7), "a different global batch size"),
        ("form", json!("x"), "format `x`"),
    ] {
        let mut changed = good.clone();
        changed[field] = value;
        // As an older binary could have written it.
        changed.as_object_mut().unwrap().remove("digest");
        if changed["shards"] == 0 {
            changed["files"] = json!([]);
        }
        std::fs::write(&file, changed.to_string()).unwrap();
        for verb in ["launch", "preflight"] {
            let output = worker(&[verb, &path]);
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(11), "{errors}");
            assert!(errors.contains(&said.replace("0 shards in 2", "0 shards in 0")), "{said}: {errors}");
            assert!(!errors.contains("panicked"), "{errors}");
        }
    }
}

#[test]
fn a_state_with_a_flipped_bit_is_rejected() {
    let _alone = crate::processes::alone();
    let (place, mut config) = place("state-bits");
    let path = write(&place, &config);
    assert_eq!(worker(&["launch", &path]).status.code(), Some(0));
    let directory = place.at("checkpoints/step-00000010");
    let file = place.at("checkpoints/step-00000010/state.json");
    let good = std::fs::read(&file).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        std::fs::write(&file, bad).unwrap();
        let failure = load_state(Path::new(&directory)).expect_err("a flipped bit");
        assert!(failure.message.contains("state.json"), "{failure}");
    }
    // Consistent numbers.
    let text = String::from_utf8(good).unwrap();
    let changed =
        text.replace("\"step\": 10", "\"step\": 8").replace("\"sequences\": 80", "\"sequences\": 64");
    assert_ne!(changed, text);
    std::fs::write(&file, changed).unwrap();
    config["checkpoint"]["resume"] = json!("auto");
    let output = worker(&["launch", &write(&place, &config)]);
    let errors = text_of(&output);
    assert_eq!(output.status.code(), Some(11), "{errors}");
    assert!(errors.contains("state.json is damaged"), "{errors}");
}

fn text_of(output: &std::process::Output) -> String {
    text(&output.stderr)
}

#[test]
fn a_damaged_own_state_is_passed_over() {
    let _alone = crate::processes::alone();
    let (place, mut config) = place("own-state");
    assert_eq!(worker(&["launch", &write(&place, &config)]).status.code(), Some(0));
    config["checkpoint"]["resume"] = json!(place.at("checkpoints/step-00000010"));
    config["checkpoint"]["directory"] = json!(place.at("other"));
    config["checkpoint"]["every_steps"] = json!(2);
    config["schedule"]["steps"] = json!(16);
    let path = write(&place, &config);
    let whole = worker(&["launch", &path]);
    assert_eq!(whole.status.code(), Some(0), "{}", text_of(&whole));
    let cut = |step: &str| {
        let file = place.at(&format!("other/step-000000{step}/state.json"));
        let good = std::fs::read(&file).unwrap();
        std::fs::write(&file, &good[..good.len() / 2]).unwrap();
    };
    cut("16");
    let output = worker(&["launch", &path]);
    assert!(text_of(&output).contains("resumed at step 14"), "{}", text_of(&output));
    assert_eq!(losses(&lines(&output)), losses(&lines(&whole))[4..]);
    // Starting from the path again would lose the run's progress.
    cut("14");
    cut("16");
    let output = worker(&["launch", &path]);
    assert_eq!(output.status.code(), Some(11), "{}", text_of(&output));
    assert!(text_of(&output).contains("step-00000016"), "{}", text_of(&output));
}

#[test]
fn one_run_at_a_time_per_directory() {
    let _alone = crate::processes::alone();
    let (place, mut config) = place("lock");
    config["schedule"]["steps"] = json!(1_000_000);
    config["checkpoint"]["every_steps"] = json!(20);
    config["checkpoint"]["resume"] = json!("auto");
    let path = write(&place, &config);
    let mut first = start(&["launch", &path]);
    wait_for_checkpoint(&mut first, &place.at("checkpoints"));
    for verb in ["launch", "preflight"] {
        let second = worker(&[verb, &path]);
        assert_eq!(second.status.code(), Some(11), "{}", text(&second.stderr));
        assert!(text(&second.stderr).contains("another run is using it"), "{}", text(&second.stderr));
        assert!(!Path::new(&place.at("failure")).exists(), "the first run has not failed");
    }
    // The lock is released when its process dies.
    signal(first.id(), "-KILL");
    first.wait().unwrap();
    config["schedule"]["steps"] = json!(5);
    config["checkpoint"]["resume"] = json!("never");
    let third = worker(&["launch", &write(&place, &config)]);
    assert_eq!(third.status.code(), Some(0), "{}", text(&third.stderr));
}

/// The same tensors with other positions are a different function: the run neither resumes from there nor overwrites
/// anything.
#[test]
fn a_checkpoint_of_a_different_model_is_rejected() {
    let _alone = crate::processes::alone();
    let (place, mut config) = place("another-model");
    let done = worker(&["launch", &write(&place, &config)]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let card = Path::new(config["output"]["model"].as_str().unwrap()).join("config.json");
    let before = std::fs::read(&card).unwrap();
    config["model"]["positions"]["theta"] = json!(500.0);
    config["checkpoint"]["resume"] = json!("auto");
    let refused = worker(&["launch", &write(&place, &config)]);
    assert_eq!(refused.status.code(), Some(11), "{}", text(&refused.stderr));
    let why = text(&refused.stderr);
    assert!(why.contains("to a different model: `model.positions.theta` was 10000.0, is 500.0"), "{why}");
    assert_eq!(std::fs::read(&card).unwrap(), before);
}

#[test]
fn unwritable_directories_are_reported_before_the_first_step() {
    let _alone = crate::processes::alone();
    let (place, config) = place("no-place");
    for (section, member, code) in
        [("checkpoint", "directory", 11), ("output", "model", 15), ("output", "data", 15)]
    {
        let mut config = config.clone();
        config[section][member] = json!("/proc/trainc");
        let refused = worker(&["launch", &write(&place, &config)]);
        assert_eq!(refused.status.code(), Some(code), "{}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains(&format!("`{section}.{member}` /proc/trainc: ")));
        assert!(lines(&refused).is_empty());
    }
}
