//! The same run on different layouts of ranks.

use serde_json::{Value, json};
use trainc_worker::exit::Code;
use trainc_worker::log::StepMetrics;
use trainc_worker::thread_ranks::train_on_threads;

use crate::cases::{Place, llama, mesh, parse, write_data};

fn losses(config: &Value) -> Vec<f64> {
    let (_, lines, _) = train_on_threads(&parse(config)).unwrap();
    lines.iter().map(|l: &StepMetrics| l.loss).collect()
}

#[track_caller]
fn close(a: &[f64], b: &[f64], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (step, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() < 2e-6 * b, "{what}, step {step}: {a} and {b}");
    }
}

#[test]
fn every_layout_gives_the_same_losses() {
    let place = Place::new("layouts");
    write_data(&place.0.join("train"), 40, 24, 61, 1);
    let base = llama(&place);
    let alone = losses(&base);
    assert!(alone[9] < alone[0] - 0.2, "the loss falls: {alone:?}");
    let two = losses(&mesh(base.clone(), 2, 1, 1));
    close(&two, &alone, "2 shards");
    assert_eq!(two, losses(&mesh(base.clone(), 2, 1, 1)), "the same layout gives the same bits");
    assert_eq!(two, losses(&mesh(base.clone(), 1, 2, 1)), "2 replicas equal 2 shards");
    let four = losses(&mesh(base.clone(), 4, 1, 1));
    close(&four, &alone, "4 shards");
    assert_eq!(four, losses(&mesh(base.clone(), 2, 2, 1)), "2 x 2 equals 4 shards");
    assert_eq!(four, losses(&mesh(base.clone(), 1, 4, 1)), "4 replicas equal 4 shards");
    // Half as many shards with two passes sum in the same tree; the logged losses are sums in a different order.
    for (twice, once) in losses(&mesh(base.clone(), 2, 1, 2)).iter().zip(&four) {
        assert!((twice - once).abs() <= 4e-16 * once, "{twice} and {once}");
    }
    // Hosts: shard groups that span two, and two replicas on two; each group works in two steps.
    for (shards, replicas, hosts) in [(4, 1, 2), (2, 2, 2), (4, 1, 4), (1, 4, 2)] {
        let mut config = mesh(base.clone(), shards, replicas, 1);
        config["cluster"]["nodes"] = json!(hosts);
        assert_eq!(four, losses(&config), "{shards} x {replicas} on {hosts} hosts");
    }
    close(&losses(&mesh(base.clone(), 1, 1, 4)), &alone, "accumulation");
    // Before the first update, four passes differ from four ranks only in the order of f32 sums.
    let first = |config: &Value| train_on_threads(&parse(config)).unwrap().1.remove(0);
    let (passes, ranks) = (first(&mesh(base.clone(), 1, 1, 4)), first(&mesh(base.clone(), 4, 1, 1)));
    assert!((passes.loss / ranks.loss - 1.0).abs() <= 4e-16, "{passes:?}, {ranks:?}");
    assert!((passes.grad_norm / ranks.grad_norm - 1.0).abs() < 1e-7, "{passes:?}, {ranks:?}");
    close(&losses(&mesh(base.clone(), 2, 2, 2)), &alone, "2 x 2 with accumulation");
    for (field, value) in [
        ("recompute", json!("block")),
        ("prefetch", json!(0)),
        ("prefetch", json!(3)),
        ("reshard_after_forward", json!(false)),
    ] {
        let mut config = mesh(base.clone(), 2, 1, 1);
        config["memory"][field] = value;
        assert_eq!(two, losses(&config), "{field} changes no bit");
    }
    let mut bf16 = mesh(base.clone(), 2, 1, 1);
    bf16["precision"]["compute"] = json!("bf16");
    for (a, b) in losses(&bf16).iter().zip(&alone) {
        assert!((a - b).abs() < 1e-2 * b && a != b, "bf16 {a}, f32 {b}");
    }
    // The vectors are sent in f32, so they are exact whichever rank holds them.
    let rounded = |shards, replicas, hosts| {
        let mut config = mesh(base.clone(), shards, replicas, 1);
        config["precision"]["compute"] = json!("bf16");
        config["cluster"]["nodes"] = json!(hosts);
        losses(&config)
    };
    let four = rounded(4, 1, 1);
    for (shards, replicas, hosts) in [(2, 2, 1), (1, 4, 1), (4, 1, 2), (2, 2, 2)] {
        assert_eq!(four, rounded(shards, replicas, hosts), "{shards} x {replicas} on {hosts} hosts in bf16");
    }
    let mut reduced = mesh(base.clone(), 2, 2, 1);
    reduced["precision"]["reduce"] = json!("bf16");
    for (a, b) in losses(&reduced).iter().zip(&alone).skip(1) {
        assert!((a - b).abs() < 1e-2 * b && a != b, "gradients summed in bf16 {a}, in f32 {b}");
    }
}

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    let place = Place::new("resume");
    write_data(&place.0.join("train"), 20, 24, 61, 1);
    write_data(&place.0.join("validation"), 7, 24, 61, 2);
    let mut base = llama(&place);
    base["model"]["tied_embeddings"] = json!(true);
    base["data"]["validation"] = json!(place.at("validation"));
    base["log"]["evaluate_every_steps"] = json!(3);
    let (_, unbroken, evaluations) = train_on_threads(&parse(&base)).unwrap();
    let unbroken: Vec<f64> = unbroken.iter().map(|l| l.loss).collect();
    base["checkpoint"]["resume"] = json!("auto");
    let _ = std::fs::remove_dir_all(place.at("checkpoints"));
    let mut all = Vec::new();
    // `epochs` ends a run early without changing the schedule: 20 sequences are 2.5 steps.
    for (shards, replicas, hosts, epochs) in
        [(4, 1, 1, Some(1)), (1, 1, 1, Some(2)), (1, 4, 2, Some(3)), (2, 2, 1, None)]
    {
        let mut config = mesh(base.clone(), shards, replicas, 1);
        config["cluster"]["nodes"] = json!(hosts);
        config["data"]["epochs"] = json!(epochs);
        all.extend(losses(&config));
    }
    close(&all, &unbroken, "4 -> 1 -> 4 copies on 2 hosts -> 2 x 2");
    let (_, none_left, _) = train_on_threads(&parse(&mesh(base.clone(), 2, 1, 1))).unwrap();
    assert!(none_left.is_empty());
    // After steps 3, 6 and 9, and after the last, the tenth.
    assert_eq!(evaluations.len(), 4);
    assert!(evaluations[2] < evaluations[0]);
    base["data"]["seed"] = json!(18);
    assert_eq!(train_on_threads(&parse(&base)).unwrap_err().code, Code::Checkpoint);
    base["data"]["seed"] = json!(17);
    base["model"]["intermediate_size"] = json!(40);
    let failure = train_on_threads(&parse(&base)).unwrap_err();
    assert!(failure.message.contains("unit `block.0` has"), "{failure}");
    // A single flipped bit.
    base["model"]["intermediate_size"] = json!(48);
    let newest = trainc_worker::checkpoint::newest(place.0.join("checkpoints").as_path()).unwrap();
    let file = std::fs::read_dir(&newest)
        .unwrap()
        .flatten()
        .find(|f| f.path().extension().unwrap() == "safetensors");
    let file = file.unwrap().path();
    let good = std::fs::read(&file).unwrap();
    let mut bytes = good.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    base["checkpoint"]["resume"] = json!(newest);
    let failure = train_on_threads(&parse(&base)).unwrap_err();
    assert_eq!(failure.code, Code::Checkpoint);
    assert!(failure.message.contains("is damaged"), "{failure}");
    std::fs::write(&file, &good[..middle]).unwrap();
    assert!(train_on_threads(&parse(&base)).unwrap_err().message.contains("bytes"));
    // An incomplete checkpoint is never loaded.
    std::fs::remove_file(newest.join("state.json")).unwrap();
    let older = trainc_worker::checkpoint::newest(place.0.join("checkpoints").as_path()).unwrap();
    assert_ne!(older, newest);
}

#[test]
fn exported_weights_can_be_loaded() {
    let place = Place::new("weights");
    write_data(&place.0.join("train"), 20, 24, 61, 1);
    let mut base = mesh(llama(&place), 2, 1, 1);
    let trained = losses(&base);
    base["model"]["weights"] = json!(place.at("model"));
    base["output"]["model"] = json!(place.at("model2"));
    base["schedule"]["steps"] = json!(1);
    base["data"]["seed"] = json!(99);
    base["data"]["shuffle"] = json!(false);
    let warm = losses(&base);
    assert!(warm[0] < trained[0] - 0.2, "{warm:?} after {trained:?}");
    base["mesh"]["shard_degree"] = json!(1);
    base["batch"]["micro"] = json!(8);
    close(&losses(&base), &warm, "1 shard");
    base["model"]["kv_heads"] = json!(4);
    let failure = train_on_threads(&parse(&base)).unwrap_err();
    assert_eq!(failure.code, Code::Data);
    assert!(failure.message.contains("`model.kv_heads`, which is 4"), "{failure}");
}
