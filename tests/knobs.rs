//! What a manifest says of memory and overlap, through to the prediction.

use crate::support::{Memory, compile_in, options, over_base, trainc};
use serde_json::Value;
use trainc_ir::{Launcher, Scalar};
use trainc_predict::{Gathering, Layout, Moments, Prefetch, Recompute, memory::memory, predict};

/// The layout of the base job with these nodes laid over it.
#[track_caller]
fn layout(nodes: &str) -> Layout {
    let text = over_base(nodes);
    let found = compile_in(Memory::default(), "job.kdl", &text, &options(""));
    Layout::from_plan(found.compiled.plan.as_ref().unwrap()).unwrap()
}

#[track_caller]
fn fsdp(lines: &str) -> Layout {
    layout(&format!("parallel engine=\"fsdp\" {{ wrap \"GPT2Block\"; {lines} }}"))
}

#[test]
fn what_fsdp_gathers_is_read_from_the_manifest() {
    let default = Gathering::default();
    assert_eq!(fsdp("").gathering, default);
    for (written, prefetch) in
        [("backward-pre", Prefetch::Before), ("backward-post", Prefetch::After), ("none", Prefetch::None)]
    {
        let found = fsdp(&format!("prefetch \"{written}\"")).gathering;
        assert_eq!(found, Gathering { prefetch, ..default });
    }
    assert_eq!(fsdp("limit-all-gathers #false").gathering, Gathering { limited: false, ..default });
    assert_eq!(fsdp("limit-all-gathers #true").gathering, default);
}

#[test]
fn what_smp_gathers_is_read_from_the_manifest() {
    let smp = |lines: &str| {
        layout(&format!("parallel engine=\"smp\" {{ shard-degree 16; {lines} }}\nimage \"pytorch\" version=\"1.13.1\" python=\"py39\"")).gathering
    };
    let default = Gathering::default();
    assert_eq!(smp("sdp-max-live-parameters 3000000000").live_parameters, 3e9);
    assert_eq!(smp("sdp-reduce-bucket-size 200000000").bucket, 2e8);
    assert_eq!(smp(""), default);
}

/// Less is held and less is hidden the later a unit is gathered (PyTorch, `BackwardPrefetch`).
#[test]
fn later_gathers_hold_less_and_take_longer() {
    let found = |what: &str| {
        let layout = fsdp(&format!("prefetch \"{what}\""));
        let prediction = predict(&layout, trainc_predict::Constants::shipped());
        (prediction.memory.unwrap().parts.gathered, prediction.speed.unwrap().step_seconds)
    };
    let (before, after, none) = (found("backward-pre"), found("backward-post"), found("none"));
    assert!(after.0 < before.0 && none.0 == after.0, "{before:?} {after:?} {none:?}");
    assert!(before.1 < after.1 && after.1 < none.1, "{before:?} {after:?} {none:?}");
}

/// torch.optim.SGD keeps one number a parameter for its momentum, and none without: 4 bytes each, divided over the ranks.
#[test]
fn momentum_is_one_number_a_parameter() {
    let of = |program: &str| {
        let layout = layout(&format!("train {{ optimizer \"sgd\" lr=0.1 }}\n{program}"));
        (layout.moments, memory(&layout).parts.optimizer, layout)
    };
    let (plain, none, layout) = of("");
    assert_eq!((plain, none), (Moments::Zero, 0.0));
    for written in ["0.9", "\"0.9\"", "1"] {
        let (moments, bytes, _) = of(&format!("program {{ hyperparameter \"momentum\" {written} }}"));
        let expected = 4.0 * layout.model.parameters / 16.0;
        assert_eq!(moments, Moments::One, "{written}");
        assert!((bytes / expected - 1.0).abs() < 1e-9, "{bytes} {expected}");
    }
    for written in ["0.0", "\"0\"", "0"] {
        let (moments, bytes, _) = of(&format!("program {{ hyperparameter \"sgd_momentum\" {written} }}"));
        assert_eq!((moments, bytes), (Moments::Zero, 0.0), "{written}");
    }
}

/// A frozen unit is freed after its use since PyTorch 2.1 (pytorch#101982), so that an adapter's job holds less than one
/// that trains everything; before, every gathered unit stayed until the backward pass was over.
#[test]
fn frozen_units_are_freed_since_pytorch_2_1() {
    let of = |version: &str, adapter: &str| {
        let layout = layout(&format!(
            "model \"huggyllama/llama-65b\"\n{adapter}\nparallel engine=\"fsdp\" {{ wrap \"LlamaDecoderLayer\" }}\n\
             image \"pytorch\" version=\"{version}\" python=\"py310\""
        ));
        let parts = memory(&layout).parts;
        (parts.gathered, parts.total(), layout)
    };
    let lora = "adapter \"lora\" rank=16 targets=\"q_proj,v_proj\"";
    let (freed, total, layout) = of("2.1.0", lora);
    let (kept, ..) = of("2.0.1", lora);
    let (_, whole, _) = of("2.1.0", "");
    let unit = 2.0 * layout.model.layer_parameters;
    assert!(freed <= 3.0 * unit + 2.0 * layout.model.outer_parameters + 1.0, "{freed}");
    assert!(kept >= 2.0 * layout.model.parameters, "{kept}");
    assert!(total < 0.6 * whole, "{total} {whole}");
}

/// Under `SHARD_GRAD_OP` frozen weights lie there once: a shard between steps, whole while they are gathered.
#[test]
fn frozen_weights_are_gathered_once() {
    let of = |quantize: &str| {
        let layout = layout(&format!(
            "model \"huggyllama/llama-7b\"\nadapter \"lora\" rank=16 targets=\"q_proj,v_proj\"\n{quantize}\n\
             parallel engine=\"fsdp\" {{ strategy \"shard-grad-op\"; wrap \"LlamaDecoderLayer\" }}"
        ));
        let parts = memory(&layout).parts;
        (parts.parameters, parts.gathered, 2.0 * layout.model.parameters)
    };
    let (kept, gathered, once) = of("");
    assert!((gathered / once - 1.0).abs() < 1e-9, "{gathered} {once}");
    assert!(kept < 1.1 * once / 16.0, "{kept} {once}");
    let (kept, gathered, once) = of("quantize \"nf4\" compute=\"bf16\"");
    assert!(gathered < 0.4 * once && kept < 0.05 * once, "{kept} {gathered} {once}");
}

/// A container of AWS is started in the same way by its version and by its URI; a copy elsewhere keeps its own toolkit.
#[test]
fn containers_by_uri_are_started_as_by_version() {
    let launcher = |image: &str| {
        let text = over_base(&format!("image {image}"));
        let found = compile_in(Memory::default(), "job.kdl", &text, &options(""));
        assert!(!found.codes().contains(&"T0350"), "{}", found.lines());
        found.compiled.plan.as_ref().unwrap().launch.launcher
    };
    let by =
        |host: &str, name: &str| launcher(&format!("uri=\"{host}.dkr.ecr.us-west-2.amazonaws.com/{name}\""));
    let (aws, own) = ("763104351884", "111122223333");
    let new = "pytorch:2.13.0-cu133-amzn2023-sagemaker";
    assert_eq!(launcher("\"pytorch\" version=\"2.13\""), Launcher::LaunchScript);
    assert_eq!(by(aws, new), Launcher::LaunchScript);
    assert_eq!(by(own, new), Launcher::Torchrun);
    let old = "pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker";
    assert_eq!(by(aws, old), Launcher::Torchrun);
}

/// What is called selective depends on the code: the attention core, or every other product.
#[test]
fn selective_recomputation_is_that_of_the_code() {
    let recompute = |code: &str| {
        layout(&format!("train {{ activation-checkpointing \"selective\" }}\nprogram \"train.py\" source=\"./scripts\"{code}")).recompute
    };
    assert_eq!(recompute(""), Recompute::Selective);
    assert_eq!(recompute(" code=\"megatron\""), Recompute::Selective);
    assert_eq!(recompute(" code=\"torchtitan\""), Recompute::Operations);
}

/// Evaluations take time, reach the program under the names of its class, and need memory of their own.
#[test]
fn evaluations_are_counted_and_passed() {
    let plan = |sets: &[&str]| {
        let mut args =
            vec!["plan", "examples/qwen3-8b-fsdp2/trainc.kdl", "--offline", "-o", "json", "--exit-zero"];
        args.extend(sets.iter().flat_map(|set| ["--set", *set]));
        trainc(&args).json()
    };
    let part = |plan: &Value| plan["run"]["parts"]["evaluation"].as_f64();
    let passed = |plan: &Value, name: &str| {
        let all = plan["delivery"]["passed"].as_array().unwrap().clone();
        all.into_iter().find(|one| one["as"] == name).map(|one| one["value"].clone())
    };
    let (every, sequences) = ("train.evaluate.every=200 steps", "train.evaluate.sequences=640");
    let (plain, five) = (plan(&[]), plan(&[every, sequences]));
    assert_eq!(part(&plain), Some(0.0));
    // Five times 640 sequences forward, of 64,000 that are trained with full recomputation: forward twice, backward
    // as much as two.
    let (seconds, training) = (part(&five).unwrap(), five["run"]["parts"]["training"].as_f64().unwrap());
    assert!((seconds / training / (3_200.0 / 64_000.0 / 4.0) - 1.0).abs() < 0.05, "{seconds} {training}");
    let more = five["run"]["seconds"].as_f64().unwrap() - plain["run"]["seconds"].as_f64().unwrap();
    assert!((more / seconds - 1.0).abs() < 1e-6, "{more} {seconds}");
    assert_eq!(passed(&five, "eval_steps"), Some(200.into()));
    assert_eq!(
        passed(&five, "per_device_eval_batch_size"),
        None,
        "not written, so no setting of the manifest"
    );
    assert_eq!(five["memory"]["fits"], true);
    let large = plan(&[every, sequences, "train.evaluate.micro-batch=64"]);
    assert_eq!(passed(&large, "per_device_eval_batch_size"), Some(64.into()));
    assert!(large["memory"]["fits"].is_null() && large["notes"].to_string().contains("64 sequences a pass"));
    // An epoch of unknown length.
    let epoch = plan(&["train.evaluate.every=epoch", sequences]);
    assert!(part(&epoch).is_none() && epoch["notes"].to_string().contains("run.parts.evaluation: neither"));
    let never = plan(&["train.evaluate.every=2000 steps", sequences]);
    assert!(part(&never) == Some(0.0) && never["notes"].to_string().contains("ends before the first"));
}

/// What would narrow an interval is said of a job that can run so long.
#[test]
fn no_measurement_is_named_of_a_job_that_cannot_run() {
    let named = |sets: &[&str]| {
        let mut args =
            vec!["plan", "examples/llama-7b-fsdp/trainc.kdl", "--offline", "-o", "json", "--exit-zero"];
        args.extend(sets.iter().flat_map(|set| ["--set", *set]));
        trainc(&args).json()["notes"].to_string().contains("speed.interval: would be")
    };
    assert!(named(&[]));
    assert!(!named(&[
        "train.activation-checkpointing=#false",
        "train.micro-batch=16",
        "train.sequence-length=32768"
    ]));
    assert!(!named(&["train.tokens=#null", "train.steps=5"]));
}

/// A script that parses `type=int` stops at `32.0`.
#[test]
fn whole_numbers_are_passed_without_a_fraction() {
    let text = over_base(
        "adapter \"lora\" rank=16 alpha=32 targets=\"q_proj\"\n\
         program { hyperparameter \"alpha\" \"{{ adapter.alpha }}\"; hyperparameter \"half\" \"{{ adapter.alpha / 64 }}\" }",
    );
    let found = compile_in(Memory::default(), "job.kdl", &text, &options(""));
    let plan = found.compiled.plan.unwrap();
    let passed = &plan.job.program.as_ref().unwrap().hyperparameters;
    let value = |name: &str| {
        let h = passed.iter().find(|h| h.name == name).unwrap();
        h.value.value().unwrap().clone()
    };
    assert_eq!((value("alpha"), value("half")), (Scalar::Int(32), Scalar::Float(0.5)));
}
