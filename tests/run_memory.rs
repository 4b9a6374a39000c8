//! What the plan says that a rank of the worker holds, against the worker's own account, part by part.

use crate::run::worker;
use crate::support::{Scratch, root, trainc_in};
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// A model of each family, large enough that its buffers and not the ranks' messages are most of it.
const MODELS: [(&str, &str); 4] = [
    (
        "llama",
        r#"model "llama" {
    hidden 256
    layers 4
    heads 8
    kv-heads 2
    ffn 704
    vocab 3000
    positions 512
}"#,
    ),
    (
        "gpt2",
        r#"model "gpt2" {
    hidden 256
    layers 4
    heads 8
    vocab 3000
    positions 512
}"#,
    ),
    (
        "gpt-neox",
        r#"model "gpt_neox" {
    hidden 256
    layers 4
    heads 8
    vocab 3000
    positions 512
}"#,
    ),
    ("a catalogue's", r#"model "gpt2""#),
];

#[derive(Clone, Copy)]
struct Case<'a> {
    model: &'a str,
    shards: u64,
    replicas: u64,
    recompute: bool,
    adapter: &'a str,
    precision: &'a str,
    parallel: &'a str,
}

impl Case<'_> {
    fn manifest(&self) -> String {
        let Self { model, shards, replicas, recompute, adapter, precision, parallel } = self;
        let ranks = shards * replicas;
        let adapters = if adapter.is_empty() { "" } else { "channel \"model\" path=\"weights\"" };
        format!(
            r#"
job "held" {{
{model}
{adapter}
cluster "local" {{
    ranks {ranks}
}}
parallel engine="worker" {{
    shard-degree {shards}
    {parallel}
}}
train {{
    precision "{precision}"
    sequence-length 256
    micro-batch 2
    global-batch {}
    activation-checkpointing #{recompute}
    optimizer "adamw" lr=1e-3
    steps 3
}}
channel "train" path="packed"
{adapters}
}}
"#,
            2 * ranks
        )
    }
}

/// Bytes by part: the plan's, the worker's own.
fn accounts(scratch: &Scratch, case: &Case) -> (Value, Value) {
    fs::write(scratch.0.join("held.kdl"), case.manifest()).unwrap();
    let args = ["emit", "held.kdl", "--out", "out", "--worker", worker()];
    let ran = trainc_in(&scratch.0, &args, b"", Duration::from_mins(1));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let plan = fs::read_to_string(scratch.0.join("out/plan.json")).unwrap();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let config = scratch.0.join("out/worker/worker.json");
    let checked = Command::new(worker()).args(["check", config.to_str().unwrap()]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let own: Value = serde_json::from_slice(&checked.stdout).unwrap();
    (plan["memory"].clone(), own["bytes_per_rank"].clone())
}

/// On GPUs the plan and the worker count the same tensors.
#[test]
fn a_rank_on_a_gpu_is_what_the_plan_says() {
    let scratch = Scratch::new("run-memory-gpu");
    let base = fs::read_to_string(root().join("examples/llama-7b-worker/trainc.kdl")).unwrap();
    let recompute = "activation-checkpointing #true";
    assert!(base.contains(recompute) && base.contains("micro-batch 4"));
    let kept =
        base.replace(recompute, "activation-checkpointing #false").replace("micro-batch 4", "micro-batch 1");
    for manifest in [base, kept] {
        fs::write(scratch.0.join("gpu.kdl"), manifest).unwrap();
        let args = ["plan", "gpu.kdl", "--offline", "-o", "json", "--worker", worker()];
        let ran = trainc_in(&scratch.0, &args, b"", Duration::from_mins(1));
        let plan: Value = serde_json::from_str(&ran.out).unwrap();
        let args = ["emit", "gpu.kdl", "--out", "out", "--worker", worker()];
        let ran = trainc_in(&scratch.0, &args, b"", Duration::from_mins(1));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let config = scratch.0.join("out/worker/worker.json");
        let checked = Command::new(worker()).args(["check", config.to_str().unwrap()]).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let own: Value = serde_json::from_slice(&checked.stdout).unwrap();
        for (part, held) in own["bytes_per_rank"].as_object().unwrap() {
            let (held, planned) = (held.as_f64().unwrap(), plan["memory"]["parts"][part].as_f64().unwrap());
            assert!((planned - held).abs() <= 0.02 * held, "{part} is {held}, the plan says {planned}");
        }
    }
}

/// Holds every part within 8 %; gives the worker's total.
#[track_caller]
fn check(scratch: &Scratch, case: &Case, what: &str) -> f64 {
    let (plan, own) = accounts(scratch, case);
    let parts = own.as_object().unwrap();
    assert_eq!(parts.len(), 7);
    let mut total = 0.0;
    for (part, held) in parts {
        let (held, planned) = (held.as_f64().unwrap(), plan["parts"][part].as_f64().unwrap());
        assert!(
            (planned - held).abs() <= 0.08 * held,
            "{what}, {} shards, recompute {}: {part} is {held}, the plan says {planned}",
            case.shards,
            case.recompute
        );
        total += held;
    }
    assert_eq!(plan["parts"]["reserve"], 0);
    assert!(
        plan["interval"]["low"].as_f64().unwrap() < total
            && total < plan["interval"]["high"].as_f64().unwrap()
    );
    total
}

#[test]
fn what_a_rank_holds_is_what_the_plan_says() {
    let scratch = Scratch::new("run-memory");
    let plain = |model| Case {
        model,
        shards: 1,
        replicas: 1,
        recompute: false,
        adapter: "",
        precision: "fp32",
        parallel: "",
    };
    let adapter = "adapter \"lora\" rank=8 alpha=16";
    for (family, model) in MODELS {
        let plain = plain(model);
        let by_degree = [(1, false), (2, true), (4, true)]
            .map(|(shards, recompute)| check(&scratch, &Case { shards, recompute, ..plain }, family));
        assert!(by_degree[0] > by_degree[1] && by_degree[1] > by_degree[2], "{family}: {by_degree:?}");
        let what = format!("{family} with adapters");
        let adapted = check(&scratch, &Case { shards: 2, recompute: true, adapter, ..plain }, &what);
        assert!(adapted < by_degree[1], "{family}: adapters hold less");
    }
    let (_, llama) = MODELS[0];
    let plain = plain(llama);
    for (case, what) in [
        (Case { recompute: true, ..plain }, "recomputed alone"),
        (Case { shards: 2, ..plain }, "two"),
        (Case { shards: 4, ..plain }, "four"),
        (Case { adapter, ..plain }, "adapters alone"),
        (Case { shards: 4, adapter, ..plain }, "adapters of four"),
        (Case { shards: 2, replicas: 2, ..plain }, "hybrid"),
        (Case { replicas: 2, ..plain }, "replicas"),
        (Case { precision: "bf16", ..plain }, "bf16 alone"),
        (Case { shards: 2, precision: "bf16", ..plain }, "bf16"),
        (Case { shards: 2, parallel: "prefetch 3", ..plain }, "prefetch"),
        (Case { shards: 2, parallel: "reshard-after-forward #false", ..plain }, "no reshard"),
    ] {
        check(&scratch, &case, what);
    }
}
