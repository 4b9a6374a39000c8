//! Jobs that others published, compiled from our examples and compared with their published time and cost.

use crate::support::{compile_in, options, read};
use trainc_plan::Compiled;
use trainc_predict::Layout;

fn compiled(path: &str, flags: &str) -> Compiled {
    compile_in(crate::support::Memory::default(), "job.kdl", &read(path), &options(flags)).compiled
}

/// philschmid.de, "How to scale LLM workloads to 20B+ with SageMaker", 2 May 2023: GPT-NeoX 20B in 9,407 s
/// on two p4d for 197 dollars.
///
/// The article does not give the number of sequences of 2,048 tokens that its 25,000 answers made, nor the
/// time to the first step. The cost follows from the time alone. With five minutes before the first step,
/// 19,200 sequences (1,490 tokens per answer) match the predicted step; the example's 9,000 (740 tokens per
/// answer) would require a step of
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
    // Three epochs of c sequences in steps of 32: the step time gives c. The interval here is that of
    // settings that were fitted, narrower than the one shown.
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

/// AWS, "Fine-tuning GPT-J using an Amazon SageMaker Hugging Face estimator and the model parallel
/// library", 12 June 2023: under ten minutes; batch and steps are those of our example.
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

/// A published run, in the words of the language.
struct Published {
    /// Model, cluster, engine, training and program as written.
    manifest: [&'static str; 5],
    /// Measured seconds of a step.
    seconds: f64,
    /// Measured peak of a GPU, GiB, with what the program and the allocator hold.
    peak: Option<f64>,
    /// Publication.
    source: &'static str,
}

const LLAMA_LAYER: &str = r#"engine="fsdp" { wrap "LlamaDecoderLayer"; }"#;
const HYBRID: &str =
    r#"engine="fsdp" { wrap "LlamaDecoderLayer"; strategy "hybrid-shard"; shard-degree 8; }"#;
const QWEN_LAYER: &str = r#"engine="fsdp" { wrap "Qwen3DecoderLayer"; }"#;
const MPT_LAYER: &str = r#"engine="fsdp" { wrap "MPTBlock"; }"#;
const TITAN: &str =
    r#"sequence-length 8192; micro-batch 2; activation-checkpointing "selective"; compile #true"#;
const FMS: &str = "sequence-length 4096; micro-batch 2; activation-checkpointing #false; compile #true";
const LLM_FOUNDRY: &str = "mosaicml/llm-foundry scripts/train/benchmarking/README.md @8c8dd48";
const FMS_FSDP: &str = "foundation-model-stack/fms-fsdp README.md @5a296af";
const GIST: &str = "gist chenyaofo/d4cd6a20ab4b95cb3a49491747e2139a: eight A800, DeepSpeed 0.14.2";

/// Runs of six codes on A100 and H100, on the instances with their cards.
fn published_runs() -> [Published; 12] {
    let of = |model, cluster, engine, train, code, seconds, peak, source| Published {
        manifest: [model, cluster, engine, train, code],
        seconds,
        peak,
        source,
    };
    let trl = "huggingface/trl benchmark/sft_benchmark_notion.md @20e8f64";
    [
        of(
            "meta-llama/Llama-3.1-8B",
            r#""ml.p5.48xlarge" nodes=4"#,
            LLAMA_LAYER,
            TITAN,
            "torchtitan",
            64.0 * 8_192.0 / 217_120.0,
            Some(68.57),
            "aws-samples/awsome-distributed-training 3.test_cases/pytorch/torchtitan/slurm/README.md @7217859",
        ),
        of(
            "meta-llama/Llama-2-7b-hf",
            r#""ml.p4de.24xlarge" nodes=16"#,
            HYBRID,
            FMS,
            "fms-fsdp",
            1.8,
            None,
            FMS_FSDP,
        ),
        of(
            "meta-llama/Llama-2-7b-hf",
            r#""ml.p5.48xlarge" nodes=12"#,
            HYBRID,
            FMS,
            "fms-fsdp",
            0.853,
            None,
            FMS_FSDP,
        ),
        of(
            "Qwen/Qwen3-4B",
            r#""ml.p5.48xlarge" nodes=1"#,
            QWEN_LAYER,
            r#"sequence-length 32768; micro-batch 1; activation-checkpointing #true; attention "sdpa"; loss "fused""#,
            "trl",
            7.583,
            Some(24.9),
            trl,
        ),
        of(
            "Qwen/Qwen3-4B",
            r#""ml.p5.48xlarge" nodes=1"#,
            QWEN_LAYER,
            r#"sequence-length 32768; micro-batch 1; activation-checkpointing #true; attention "fa3"; loss "fused""#,
            "trl",
            4.831,
            None,
            trl,
        ),
        of(
            "Qwen/Qwen3-32B",
            r#""ml.p5.48xlarge" nodes=2"#,
            QWEN_LAYER,
            r#"sequence-length 32768; micro-batch 1; activation-checkpointing #true; attention "fa3"; loss "fused""#,
            "trl",
            22.599,
            Some(78.4),
            trl,
        ),
        of(
            "Qwen/Qwen3-32B",
            r#""ml.p5.48xlarge" nodes=4"#,
            QWEN_LAYER,
            r#"sequence-length 32768; micro-batch 1; activation-checkpointing #true; attention "fa3"; loss "fused""#,
            "trl",
            22.733,
            None,
            trl,
        ),
        of(
            "huggyllama/llama-7b",
            r#""ml.p4de.24xlarge" nodes=1"#,
            r#"engine="deepspeed" { strategy "zero-2"; }"#,
            "sequence-length 4096; micro-batch 4; global-batch 64; activation-checkpointing #true",
            "deepspeed",
            13.65,
            None,
            GIST,
        ),
        of(
            "huggyllama/llama-7b",
            r#""ml.p4de.24xlarge" nodes=1"#,
            r#"engine="deepspeed" { strategy "zero-3"; }"#,
            "sequence-length 4096; micro-batch 8; global-batch 128; activation-checkpointing #true",
            "deepspeed",
            29.63,
            None,
            GIST,
        ),
        of(
            "01-ai/Yi-34B",
            r#""ml.p4de.24xlarge" nodes=4"#,
            r#"engine="deepspeed" { strategy "zero-3"; }"#,
            r#"sequence-length 8192; micro-batch 1; activation-checkpointing #true; attention "fa2""#,
            "transformers",
            16.887,
            None,
            "InternLM/xtuner docs/zh_cn/legacy/acceleration/benchmark.rst @b934f46",
        ),
        of(
            "mosaicml/mpt-7b",
            r#""ml.p4de.24xlarge" nodes=1"#,
            MPT_LAYER,
            "sequence-length 4096; micro-batch 16; global-batch 256; activation-checkpointing #true; flash-attention #true",
            "composer",
            35.579,
            None,
            LLM_FOUNDRY,
        ),
        of(
            "mosaicml/mpt-7b",
            r#""ml.p5.48xlarge" nodes=1"#,
            MPT_LAYER,
            "sequence-length 2048; micro-batch 6; activation-checkpointing #false; flash-attention #true",
            "composer",
            1.155,
            None,
            LLM_FOUNDRY,
        ),
    ]
}

/// Runs that ran are inside their intervals of time and memory, and no prediction refuses one of them.
#[test]
fn published_runs_lie_inside_their_intervals() {
    for Published { manifest: [model, cluster, engine, train, code], seconds, peak, source } in
        published_runs()
    {
        let text = format!(
            "job \"published\" {{\n    region \"us-west-2\"\n    account \"111122223333\"\n    model \"{model}\"\n    \
             cluster {cluster} {{ max-run \"1d\"; }}\n    parallel {engine}\n    train {{ precision \"bf16\"; {train}; \
             optimizer \"adamw\" lr=2e-4; steps 100; }}\n    program \"train.py\" source=\"./scripts\" code=\"{code}\"\n    \
             image \"pytorch\" version=\"2.8.0\" python=\"py312\"\n    channel \"train\" s3=\"s3://example-corpus/tokens/\"\n    \
             output s3=\"s3://example-runs/base/output/\"\n    role arn=\"arn:aws:iam::111122223333:role/training\"\n}}\n"
        );
        let found = compile_in(crate::support::Memory::default(), "job.kdl", &text, &options("")).compiled;
        let name = format!("{code} {model} on {cluster} ({source})");
        let is_refusal = |one: &&trainc_diag::Diagnostic| {
            one.severity == trainc_diag::Severity::Error && ["T0326", "T0327"].contains(&one.code.id)
        };
        let refused = found.problems.iter().find(is_refusal);
        assert!(refused.is_none(), "{name}: {refused:?}");
        let speed = found.prediction.speed.as_ref().unwrap_or_else(|| panic!("{name}: {:?}", found.problems));
        let ends = speed.interval;
        assert!(
            (ends.low..=ends.high).contains(&seconds),
            "{name}: {seconds} s, predicted {:.3} ({:.3} to {:.3})",
            speed.step_seconds,
            ends.low,
            ends.high
        );
        let memory = found.prediction.memory.as_ref().unwrap();
        assert_eq!(memory.fits, Some(true), "{name}");
        if let Some(peak) = peak {
            let ends = [memory.interval.low, memory.interval.high].map(|bytes| bytes / 1_073_741_824.0);
            assert!((ends[0]..=ends[1]).contains(&peak), "{name}: {peak} GiB, predicted {ends:?}");
        }
    }
}
