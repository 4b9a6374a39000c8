//! Jobs that others published, compiled from our examples and compared with their published time and cost.

use crate::support::{compile_in, options, read};
use trainc_plan::Compiled;
use trainc_predict::Layout;

fn compiled(path: &str, flags: &str) -> Compiled {
    compile_in(crate::support::Memory::default(), "job.kdl", &read(path), &options(flags)).compiled
}

/// philschmid.de, "How to scale LLM workloads to 20B+ with SageMaker", 2 May 2023: GPT-NeoX 20B in 9,407 s on two
/// p4d for 197 dollars.
///
/// The article does not give the number of sequences of 2,048 tokens that its 25,000 answers made, nor the time to the
/// first step. The cost follows from the time alone. With five minutes before the first step, 19,200 sequences (1,490
/// tokens per answer) match the predicted step; the example's 9,000 (740 tokens per answer) would require a step of
/// 10.8 s, outside the interval.
#[test]
fn neox_20b_in_9407_seconds() {
    let hourly = 37.688 * 2.0 / 3_600.0;
    let usd = 9_407.0 * hourly;
    assert!((usd - 197.0_f64).abs() < 0.05, "{usd}");
    let path = "examples/neox-20b-fsdp/trainc.kdl";
    let with = |sequences: u64| {
        // The price of that time.
        let flags = format!("--set train.dataset.sequences={sequences} --price ml.p4d.24xlarge=37.688");
        let found = compiled(path, &flags);
        let hour = found.plan.as_ref().unwrap().price().unwrap().usd_per_hour;
        assert!((hour - 37.688).abs() < 1e-9, "{hour}");
        (found.prediction.speed.unwrap(), found.prediction.run.unwrap())
    };
    // With this assumption the plan gives the published figures.
    let (_, run) = with(19_200);
    assert!((run.seconds / 9_407.0 - 1.0).abs() < 0.02, "{}", run.seconds);
    let instances = run.cost_parts.instances.exact().unwrap();
    assert!((instances / 197.0 - 1.0).abs() < 0.02, "{instances}");
    assert!((run.parts.startup - 300.0).abs() < 1e-9);
    // Three epochs of c sequences in steps of 32: the step time gives c. The interval here is that of settings that were
    // fitted, narrower than the one shown.
    let (speed, run) = with(9_000);
    let chunks = |step: f64| (9_407.0 - run.parts.startup) / step * 32.0 / 3.0;
    let wider = speed.extrapolation.extra_half_width().exp();
    let (few, many) = (chunks(speed.interval.high / wider), chunks(speed.interval.low * wider));
    assert!(few > 5_000.0 && many < 25_000.0, "{few} to {many} sequences for 25,000 answers");
    let step = (9_407.0 - run.parts.startup) / (3.0 * 9_000.0 / 32.0);
    assert!((step - 10.8).abs() < 0.05 && step > speed.interval.high, "{step}");
    // The cost is time times price, to the cent.
    let instances = run.cost_parts.instances.exact().unwrap();
    assert!((instances - run.seconds * hourly).abs() < 0.01);
}

/// AWS, "Fine-tuning GPT-J using an Amazon SageMaker Hugging Face estimator and the model parallel library", 12 June
/// 2023: under ten minutes; batch and steps are those of our example.
#[test]
fn gptj_in_under_ten_minutes() {
    let run = compiled("examples/gptj-6b-tensor/trainc.kdl", "").prediction.run.unwrap();
    assert!(run.seconds < 600.0, "{}", run.seconds);
    assert!(run.parts.training > 30.0, "{:?}", run.parts);
}

/// huggingface/accelerate#3474: FSDP without a wrap policy gathers the whole model as one unit.
#[test]
fn fsdp_without_a_wrap_policy_is_one_unit() {
    let path = "examples/llama-7b-fsdp/trainc.kdl";
    let of = |text: &str| {
        let found = compile_in(crate::support::Memory::default(), "job.kdl", text, &options("")).compiled;
        Layout::from_plan(found.plan.as_ref().unwrap()).unwrap()
    };
    let written = read(path);
    let line = written.lines().find(|line| line.trim_start().starts_with("wrap ")).unwrap();
    let without = written.replace(line, "");
    assert!(!of(&written).one_unit);
    assert!(of(&without).one_unit);
    assert!(!of(&written.replace(line, "min-parameters 1_000_000")).one_unit);
    let copies = without.replace("\"hybrid-shard\"", "\"no-shard\"").replace("shard-degree 32", "");
    assert!(!of(&copies).one_unit);
}
