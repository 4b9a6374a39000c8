//! The laws of the engines: ranks, degrees and data ranks as the programs count them, and what they refuse.
//!
//! The rows are configurations that the programs themselves accepted or refused on a process group of that
//! many ranks (accelerate 1.15.0, transformers 5.24.0, DeepSpeed 0.19.8, torchtitan 0.2.2; 2026-11-28), with
//! the sizes that they reported. torchtitan's own refusals are at `data_parallel_shard_degree` and others,
//! ours at the degrees of `parallel`.

use crate::support::{Memory, compile_in, options};
use trainc_ir::{Axis, Mesh};
use trainc_plan::Compiled;

/// Compiles a job of one node with these GPUs.
fn compiled(ranks: u64, parallel: &str) -> Compiled {
    let text = format!(
        "job \"laws\" {{
    cluster \"custom\" nodes=1 {{
        gpu \"A100-SXM4-80GB\" per-node={ranks}
        intra \"600GB/s\"
        inter \"50GB/s\"
    }}
    model \"llama\" {{
        hidden 64; layers 2; heads 8; kv-heads 8; ffn 128; vocab 256; positions 4096
        experts 8; active-experts 2
    }}
    {parallel}
    train {{ precision \"bf16\"; sequence-length 64; micro-batch 1; steps 10 }}
}}
"
    );
    compile_in(Memory::default(), "job.kdl", &text, &options("")).compiled
}

fn mesh(ranks: u64, parallel: &str) -> Mesh {
    let found = compiled(ranks, parallel);
    let problems: Vec<&str> = found.problems.iter().map(|one| one.message.as_str()).collect();
    found.plan.unwrap().mesh.unwrap_or_else(|| panic!("{parallel}: {problems:?}"))
}

/// `(row, ranks, node, [replicas, shard, tensor, pipeline, context, ulysses], ranks with data of their own)`.
const ACCEPTED: &[(&str, u64, &str, [u64; 6], u64)] = &[
    ("accelerate/01", 4, "engine=\"accelerate\"", [1, 4, 1, 1, 1, 1], 4),
    (
        "accelerate/10",
        8,
        "engine=\"accelerate\" { replicate-degree 2; shard-degree 4 }",
        [2, 4, 1, 1, 1, 1],
        8,
    ),
    ("accelerate/13", 8, "engine=\"accelerate\" { shard-degree 1; context-degree 8 }", [1, 1, 1, 1, 8, 1], 1),
    ("accelerate/15", 8, "engine=\"accelerate\" { shard-degree 4; context-degree 2 }", [1, 4, 1, 1, 2, 1], 4),
    ("accelerate/21", 8, "engine=\"accelerate\" { strategy \"zero-2\" }", [1, 8, 1, 1, 1, 1], 8),
    (
        "transformers/01",
        8,
        "engine=\"distributed-config\" { tensor-degree 2; shard-degree 4 }",
        [1, 4, 2, 1, 1, 1],
        4,
    ),
    ("transformers/02", 8, "engine=\"distributed-config\" { shard-degree 8 }", [1, 8, 1, 1, 1, 1], 8),
    ("transformers/09", 8, "engine=\"distributed-config\" { replicate-degree 8 }", [8, 1, 1, 1, 1, 1], 8),
    ("deepspeed/01", 8, "engine=\"deepspeed\" { strategy \"zero-3\" }", [1, 8, 1, 1, 1, 1], 8),
    ("deepspeed, stage 0", 8, "engine=\"deepspeed\" { strategy \"zero-0\" }", [8, 1, 1, 1, 1, 1], 8),
    (
        "deepspeed/20",
        8,
        "engine=\"deepspeed\" { strategy \"zero-3\"; ulysses-degree 2 }",
        [1, 4, 1, 1, 1, 2],
        4,
    ),
    (
        "deepspeed/18",
        8,
        "engine=\"deepspeed\" { strategy \"zero-2\"; tensor-degree 2 }",
        [1, 4, 2, 1, 1, 1],
        4,
    ),
    ("torchtitan/01", 8, "engine=\"torchtitan\"", [1, 8, 1, 1, 1, 1], 8),
    (
        "torchtitan/03",
        8,
        "engine=\"torchtitan\" { replicate-degree 2; shard-degree 4 }",
        [2, 4, 1, 1, 1, 1],
        8,
    ),
    ("torchtitan/04", 8, "engine=\"torchtitan\" { tensor-degree 8 }", [1, 1, 8, 1, 1, 1], 1),
    ("torchtitan/06", 8, "engine=\"torchtitan\" { context-degree 2 }", [1, 4, 1, 1, 2, 1], 4),
    (
        "torchtitan/09",
        16,
        "engine=\"torchtitan\" { shard-degree 2; tensor-degree 2; pipeline-degree 4 }",
        [1, 2, 2, 4, 1, 1],
        2,
    ),
    ("torchtitan/25", 8, "engine=\"torchtitan\" { tensor-degree 2; expert-degree 4 }", [1, 4, 2, 1, 1, 1], 4),
    (
        "torchtitan/27",
        8,
        "engine=\"torchtitan\" { tensor-degree 2; shard-degree 4; expert-degree 8 }",
        [1, 4, 2, 1, 1, 1],
        4,
    ),
];

/// `(row, ranks, node, code of the problem)`.
const REFUSED: &[(&str, u64, &str, &str)] = &[
    ("accelerate/14", 8, "engine=\"accelerate\" { shard-degree 4; context-degree 4 }", "T0303"),
    ("accelerate, total_size 4 of 8", 8, "engine=\"accelerate\" { shard-degree 4 }", "T0301"),
    ("transformers/03", 8, "engine=\"distributed-config\" { tensor-degree 4; shard-degree 4 }", "T0303"),
    ("transformers/05", 8, "engine=\"distributed-config\" { shard-degree 3 }", "T0301"),
    (
        "transformers/08",
        8,
        "engine=\"distributed-config\" { tensor-degree 4; shard-degree 2; expert-degree 2 }",
        "T0304",
    ),
    ("torchtitan/02", 8, "engine=\"torchtitan\" { shard-degree 4 }", "T0301"),
    ("torchtitan/05", 12, "engine=\"torchtitan\" { tensor-degree 8 }", "T0301"),
    ("torchtitan/24", 8, "engine=\"torchtitan\" { expert-degree 3 }", "T0304"),
];

#[test]
fn degrees_are_those_that_the_programs_report() {
    for (row, ranks, parallel, degrees, data) in ACCEPTED {
        let mesh = mesh(*ranks, &format!("parallel {parallel}"));
        let axes = [Axis::Replica, Axis::Shard, Axis::Tensor, Axis::Pipeline, Axis::Context, Axis::Ulysses];
        assert_eq!((mesh.world_size, mesh.ranks()), (*ranks, *ranks), "{row}");
        assert_eq!((axes.map(|axis| mesh.degree(axis)), mesh.data_ranks.value), (*degrees, *data), "{row}");
    }
}

#[test]
fn what_the_programs_refuse_is_an_error_at_the_degrees() {
    for (row, ranks, parallel, code) in REFUSED {
        let found = compiled(*ranks, &format!("parallel {parallel}"));
        let codes: Vec<&str> = found.problems.iter().map(|one| one.code.id).collect();
        assert!(codes.contains(code) && found.problems.errors() > 0, "{row}: {codes:?}");
    }
}

/// The states of one copy, of 115,008 elements, are divided over this many ranks: each holds the elements
/// that the program counted on its first rank (the row's `local_numel`).
#[test]
fn states_are_divided_over_the_ranks_that_hold_different_shards() {
    for (row, ranks, parallel, elements) in [
        ("accelerate/01", 4, "engine=\"accelerate\"", 28_752),
        ("accelerate/10", 8, "engine=\"accelerate\" { replicate-degree 2; shard-degree 4 }", 28_752),
        ("accelerate/13", 8, "engine=\"accelerate\" { shard-degree 1; context-degree 8 }", 14_376),
        ("accelerate/15", 8, "engine=\"accelerate\" { shard-degree 4; context-degree 2 }", 14_376),
        ("transformers/02", 8, "engine=\"distributed-config\" { shard-degree 8 }", 14_376),
        ("transformers/09", 8, "engine=\"distributed-config\" { replicate-degree 8 }", 115_008),
    ] {
        assert_eq!(115_008 / mesh(ranks, &format!("parallel {parallel}")).states_degree(), elements, "{row}");
    }
    // DeepSpeed divides them over the ranks of a Ulysses group as well.
    let ulysses = mesh(8, "parallel engine=\"deepspeed\" { strategy \"zero-3\"; ulysses-degree 2 }");
    assert_eq!((ulysses.shard_degree.value, ulysses.states_degree()), (4, 8));
}

/// The rank groups by the programs' orders, slowest first: accelerate dp_replicate, dp_shard, cp, tp
/// (`parallelism_config.py:267`); transformers pp, replicate, fsdp, tp (`distributed/utils.py:324`);
/// torchtitan pp, dp_replicate, dp_shard, cp, tp (`parallel_dims.py`).
#[test]
fn ranks_are_in_the_order_of_the_programs() {
    let three =
        mesh(8, "parallel engine=\"accelerate\" { replicate-degree 2; shard-degree 2; context-degree 2 }");
    assert_eq!(three.groups(Axis::Replica), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    assert_eq!(three.groups(Axis::Shard), [[0, 2], [1, 3], [4, 6], [5, 7]]);
    assert_eq!(three.groups(Axis::Context), [[0, 1], [2, 3], [4, 5], [6, 7]]);
    let zero = mesh(8, "parallel engine=\"accelerate\" { strategy \"zero-3\"; ulysses-degree 4 }");
    assert_eq!(zero.groups(Axis::Ulysses), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    assert_eq!(zero.groups(Axis::Shard), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    let stages = mesh(
        8,
        "parallel engine=\"torchtitan\" {
            shard-degree 2; tensor-degree 2; pipeline-degree 2; expert-degree 2
        }",
    );
    assert_eq!(stages.groups(Axis::Pipeline), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    assert_eq!(stages.groups(Axis::Tensor), [[0, 1], [2, 3], [4, 5], [6, 7]]);
    // Experts are spread over whole tensor groups.
    assert_eq!(stages.groups(Axis::Expert), [[0, 1], [2, 3], [4, 5], [6, 7]]);
}

/// Ranks that split the sequences hold the activations of their part, and pay for it with exchanges; of the
/// states they hold what as many shards would.
#[test]
fn sequences_are_split_over_context_and_ulysses_ranks() {
    let predicted = |parallel: &str| {
        let text = format!(
            "job \"laws\" {{
    cluster \"custom\" nodes=2 {{
        gpu \"A100-SXM4-80GB\" per-node=8
        intra \"600GB/s\"
        inter \"50GB/s\"
    }}
    model \"meta-llama/Llama-3.1-8B\"
    parallel {parallel}
    train {{
        precision \"bf16\"; sequence-length 8192; micro-batch 1; steps 10
        activation-checkpointing #true
    }}
}}
"
        );
        let found = compile_in(Memory::default(), "job.kdl", &text, &options("")).compiled;
        let prediction = found.prediction;
        (prediction.memory.unwrap().parts, prediction.speed.unwrap().communication)
    };
    for (whole, split) in [
        (
            "engine=\"accelerate\" { wrap \"LlamaDecoderLayer\" }",
            "engine=\"accelerate\" { wrap \"LlamaDecoderLayer\"; context-degree 4 }",
        ),
        (
            "engine=\"accelerate\" { strategy \"zero-3\" }",
            "engine=\"accelerate\" { strategy \"zero-3\"; ulysses-degree 4 }",
        ),
    ] {
        let ((whole_memory, whole_links), (memory, links)) = (predicted(whole), predicted(split));
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
        assert!(near(memory.activations * 4.0, whole_memory.activations), "{split}: {memory:?}");
        assert!(near(memory.logits * 4.0, whole_memory.logits), "{split}: {memory:?}");
        assert!(near(memory.parameters, whole_memory.parameters), "{split}: {memory:?}");
        assert!(near(memory.optimizer, whole_memory.optimizer), "{split}: {memory:?}");
        assert!(links.context > 0.0 && whole_links.context == 0.0, "{split}: {links:?}");
    }
    // All of them reduce the gradients of the same weights.
    let (_, whole) = predicted("engine=\"deepspeed\" { strategy \"zero-1\" }");
    let (_, split) = predicted("engine=\"deepspeed\" { strategy \"zero-1\"; ulysses-degree 4 }");
    assert_eq!(split.gradients, whole.gradients);
    assert!(whole.gradients > 0.0);
}
