//! Tests: what the laws of engines leave on a GPU, from the manifest to the prediction.

use crate::compile;
use trainc_diag::source::SourceMap;
use trainc_ir::{SourceFile, SourceTree};
use trainc_plan::resolve::{LayerLoader, LoadedLayer};
use trainc_plan::{Compiled, Options, ReadError, World};
use trainc_predict::Memory;

/// A world with a program, and a file of the engine with this text.
struct Files<'a>(&'a str);

impl LayerLoader for Files<'_> {
    fn read_layer(&mut self, _: &str, _: &str) -> Result<LoadedLayer, ReadError> {
        Err(ReadError::NotFound)
    }

    fn file_identity(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl World for Files<'_> {
    fn read_directory(&mut self, _: &str, path: &str) -> Result<SourceTree, ReadError> {
        let file = |path: &&str| SourceFile::new(*path, Vec::new(), false);
        Ok(SourceTree { dir: path.to_owned(), files: ["train.py"].iter().map(file).collect() })
    }

    fn read_text(&mut self, _: &str, _: &str) -> Result<String, ReadError> {
        Ok(self.0.to_owned())
    }
}

/// The Llama of 115,008 parameters on which accelerate and transformers were asked, on one node of 8 GPUs.
fn memory(parallel: &str, train: &str, file: &str) -> Memory {
    let compiled = compile_with(parallel, train, file, &[]);
    let problems: Vec<&str> = compiled.problems.iter().map(|found| found.message.as_str()).collect();
    compiled.prediction.memory.unwrap_or_else(|| panic!("{parallel}: {problems:?}"))
}

/// The same job, compiled with `--set`.
pub(super) fn compile_with(parallel: &str, train: &str, file: &str, sets: &[String]) -> Compiled {
    let text = format!(
        r#"job "tiny" {{
    region "us-west-2"
    account "111122223333"
    model "llama" {{
        hidden 64
        layers 2
        heads 8
        kv-heads 8
        ffn 128
        vocab 256
        positions 4096
        tied #false
    }}
    cluster "ml.p4d.24xlarge" nodes=1 {{
        max-run "1d"
    }}
    parallel {parallel}
    train {{
        sequence-length 64
        steps 10
        {train}
    }}
    program "train.py" source="./scripts"
    image "pytorch" version="2.8.0" python="py312"
    output s3="s3://example-runs/tiny/"
    role arn="arn:aws:iam::111122223333:role/training"
}}
"#
    );
    let mut sources = SourceMap::default();
    let source = sources.add("job.kdl", &*text);
    let mut options = Options { today: "2026-06-01".to_owned(), ..Options::default() };
    options.choices.sets.extend_from_slice(sets);
    compile(source, &text, &options, &mut Files(file), &mut sources)
}

const MIXED: &str = r#"precision "bf16"; micro-batch 1; optimizer "adamw""#;

/// Elements of the parameters on rank 0 as accelerate 1.15.0 and transformers 5.24.0 report them
/// (2026-11-28), in 32 bit; those of ZeRO-2 are whole in 16 bit, those of ZeRO-3 are divided over all ranks.
#[test]
fn parameters_are_divided_as_each_law_says() {
    let whole = 115_008.0;
    for (parallel, bytes) in [
        (r#"engine="accelerate" { strategy "full-shard" }"#, 4.0 * 14_376.0),
        (r#"engine="accelerate" { replicate-degree 2; shard-degree 4 }"#, 4.0 * 28_752.0),
        (r#"engine="accelerate" { shard-degree 4; context-degree 2 }"#, 4.0 * 14_376.0),
        (r#"engine="accelerate" { shard-degree 1; context-degree 8 }"#, 4.0 * 14_376.0),
        (r#"engine="accelerate" { strategy "zero-2" }"#, 2.0 * whole),
        (r#"engine="accelerate" { strategy "zero-3" }"#, 2.0 * whole / 8.0),
        (r#"engine="accelerate" { strategy "zero-3"; ulysses-degree 4 }"#, 2.0 * whole / 8.0),
        (r#"engine="deepspeed" { strategy "zero-1" }"#, 2.0 * whole),
        (r#"engine="distributed-config" { shard-degree 8 }"#, 4.0 * 14_376.0),
        (r#"engine="distributed-config" { replicate-degree 8 }"#, 4.0 * whole),
        (r#"engine="distributed-config" { shard-degree 4; tensor-degree 2 }"#, 4.0 * 14_416.0),
        (r#"engine="distributed-config" { tensor-degree 8 }"#, 4.0 * 14_656.0),
    ] {
        assert_eq!(memory(parallel, MIXED, "").parts.parameters, bytes, "{parallel}");
    }
}

/// The optimizer's states are divided by every stage but 0, over Ulysses ranks too.
#[test]
fn states_of_zero_are_divided_over_all_ranks() {
    let states = |strategy: &str| {
        let parts = memory(&format!(r#"engine="deepspeed" {{ {strategy} }}"#), MIXED, "").parts;
        (parts.parameters + parts.gradients + parts.optimizer) / 115_008.0
    };
    assert_eq!(states(r#"strategy "zero-0""#), 20.0);
    assert_eq!(states(r#"strategy "zero-1""#), 4.0 + 16.0 / 8.0);
    assert_eq!(states(r#"strategy "zero-2""#), 2.0 + 18.0 / 8.0);
    assert_eq!(states(r#"strategy "zero-3""#), 18.0 / 8.0);
    assert_eq!(states("strategy \"zero-3\"; ulysses-degree 2"), 18.0 / 8.0);
    // The optimizer alone on the host.
    assert_eq!(states("strategy \"zero-2\"; offload \"optimizer\""), 2.0);
    assert_eq!(states("strategy \"zero-3\"; offload \"optimizer\""), 2.0 / 8.0);
    assert_eq!(states("strategy \"zero-3\"; offload #true"), 0.0);
}

/// A manifest says the types of gradients and states.
#[test]
fn types_of_gradients_and_states_are_written() {
    let parts = |train: &str| {
        let parts = memory(r#"engine="accelerate" { strategy "full-shard" }"#, train, "").parts;
        [parts.parameters, parts.gradients, parts.optimizer].map(|bytes| bytes / 14_376.0)
    };
    let twice = |precision: &str, optimizer: &str| {
        parts(&format!("precision {precision}; micro-batch 1; accumulation 2; optimizer {optimizer}"))
    };
    assert_eq!(twice(r#""bf16""#, r#""adamw""#), [4.0, 4.0, 8.0]);
    assert_eq!(twice(r#""bf16" gradients="bf16""#, r#""adamw""#), [4.0, 2.0, 8.0]);
    assert_eq!(twice(r#""bf16""#, r#""adamw" states="bf16""#), [2.0, 2.0, 4.0]);
    assert_eq!(twice(r#""fp32""#, r#""adamw""#), [4.0, 4.0, 8.0]);
}

/// Limits and devices of a ds_config that the manifest has no word for.
#[test]
fn limits_of_a_ds_config_decide_memory() {
    let file = |more: &str| {
        let text = format!(
            r#"{{"train_micro_batch_size_per_gpu": 1, "bf16": {{"enabled": true}}, "zero_optimization": {{"stage": 3{more}}}}}"#
        );
        memory(r#"engine="deepspeed" file="ds.json""#, r#"optimizer "adamw""#, &text)
    };
    let default = file("");
    assert_eq!(default.parts.buffers, 2.0 * 5e8);
    // The largest module, a table of 256 x 64, and its gradient.
    assert_eq!(default.parts.gathered, 2.0 * (115_008.0 + 16_384.0));
    let less = file(r#", "reduce_bucket_size": 2e8, "stage3_max_reuse_distance": 0, "stage3_prefetch_bucket_size": 0"#);
    assert_eq!(less.parts.buffers, 2.0 * 2e8);
    assert_eq!(less.parts.gathered, 2.0 * 2.0 * 16_384.0);
    let host = |device: &str| {
        let away = format!(r#", "offload_optimizer": {{"device": "{device}", "nvme_path": "/opt/ml/nvme"}}"#);
        file(&away).host_bytes.unwrap()
    };
    let moved = host("cpu") - host("nvme");
    assert!((moved - 16.0 * 115_008.0).abs() < 8.0, "{moved}");
}
