//! SageMaker model parallel: sharding, tensor and pipeline parallelism; in v2 context and expert
//! parallelism inside the shard group.

use trainc_catalog::images::version_key;
use trainc_catalog::smp::{SmpVersion, parameter};
use trainc_ir::engine::{
    Absent, Bf16, Degree, Inside, Law, Limits, Order, Quantized, Ranks, Sharding, States, System,
};
use trainc_ir::{Axis, Parallel, Plan};

const fn one(axis: Axis) -> Degree {
    Degree { axis, absent: Absent::One("smp: 1 unless set") }
}

const FACTORS: &[Degree] = &[one(Axis::Shard), one(Axis::Tensor), one(Axis::Pipeline)];

/// The context degree is at most the shard degree, and experts are spread over its ranks (SMP v2 reference,
/// `context_parallel_degree`, `expert_parallel_degree`).
const INSIDE: &[Inside] = &[in_shard(Axis::Context), in_shard(Axis::Expert)];

const fn in_shard(axis: Axis) -> Inside {
    Inside { degree: one(axis), of: &[Axis::Shard], whole: &[] }
}

/// SMP of a generation that the image does not decide: it is planned as v1, and may have every degree.
pub static SMP: Law = Law {
    name: "smp",
    system: System::SmpV1,
    ranks: Ranks::PerAccelerator,
    factors: FACTORS,
    inside: INSIDE,
    order: Order::Written(placement),
    tensor_reads: true,
    states: States::ByDegree,
    shards_optimizer: true,
    whole_model: false,
    node_rule: true,
    varies: &[Axis::Tensor],
    offloads_activations: true,
    unscalable: None,
    bf16: Bf16::No,
    quantized: Quantized::None(
        "the library shards and gathers floating-point parameters (rule of thumb; no source shows otherwise)",
    ),
    measured_as: &[
        (Sharding::Full, "SMP v1 sharded"),
        (Sharding::Optimizer, "SMP v1 optimizer states"),
        (Sharding::None, "SMP v1"),
    ],
    ..Law::PLAIN
};

/// SMP v1, under MPI.
pub static SMP_V1: Law = Law {
    name: "smp1",
    ranks: Ranks::PerProcess,
    unsupported: &[Axis::Context, Axis::Expert],
    varies: &[Axis::Tensor, Axis::Pipeline],
    limits: v1_limits,
    offloads_between_micro_batches: true,
    bf16: Bf16::WithShards,
    ..SMP
};

/// SMP v2, under torchrun: tensor ranks innermost, then the shard group (SMP v2 documentation, rank layout).
pub static SMP_V2: Law = Law {
    name: "smp2",
    system: System::SmpV2,
    unsupported: &[Axis::Pipeline],
    order: Order::Axes(&[Axis::Replica, Axis::Shard, Axis::Pipeline, Axis::Tensor]),
    shares: &[Axis::Context],
    // Transformer Engine, which the library uses: 2 × context parts (pytorch/torchtitan#1306).
    context_parts: 2,
    tensor_reads: false,
    shards_optimizer: false,
    varies: &[Axis::Tensor, Axis::Context, Axis::Expert],
    bf16: Bf16::Yes,
    measured_as: &[(Sharding::Full, "SMP v2 sharded")],
    ..SMP
};

/// Returns the order of the axes by `placement`: a permutation of data, pipeline and tensor parallelism,
/// slowest first.
fn placement(parallel: &Parallel) -> Vec<Axis> {
    let letters = match parallel.placement.value().map(String::as_str) {
        Some("spread") => "TPD",
        Some(permutation) if permutation.len() == 3 => permutation,
        _ => "DPT",
    };
    let axes = |letter| match letter {
        'D' => &[Axis::Replica, Axis::Shard][..],
        'P' => &[Axis::Pipeline],
        _ => &[Axis::Tensor],
    };
    letters.chars().flat_map(axes).copied().collect()
}

/// Returns the combinations that the library of the image supports.
fn v1_limits(plan: &Plan) -> Limits {
    let library = plan.library.as_deref();
    let older = |version: &str| library.is_none_or(|ours| version_key(ours) < version_key(version));
    let row = parameter(SmpVersion::V1, "sharded_data_parallel_degree");
    let since = row.and_then(|row| row.since.as_deref());
    let excluded = row.is_none_or(|row| {
        let tensor = "tensor_parallel_degree";
        row.excludes.iter().any(|name| name == tensor)
            || row.excludes_before.iter().any(|(name, version)| name == tensor && older(version))
    });
    let needs_shards = |precision: &String| {
        parameter(SmpVersion::V1, precision)
            .is_some_and(|row| row.needs.iter().any(|name| name == "sharded_data_parallel_degree"))
    };
    Limits {
        shards: row.is_some() && !since.is_some_and(older),
        tensor_with_shards: !excluded,
        pipeline_with_shards: false,
        must_shard: plan.job.train.precision.value().is_some_and(needs_shards),
    }
}
