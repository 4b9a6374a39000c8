//! torchtitan: replicas, FSDP2, context and tensor parallelism and stages, each with its degree.

use trainc_ir::Axis;
use trainc_ir::engine::{
    Absent, Degree, Inside, Law, Order, Quantized, Ranks, Sharding, States, Strategy, System,
};

const ONE: Absent = Absent::One("torchtitan: 1 unless set");

const REST: Absent = Absent::Rest("torchtitan: the ranks that the other degrees leave");

const fn one(axis: Axis) -> Degree {
    Degree { axis, absent: ONE }
}

/// The mesh of torchtitan (0.2.2, `distributed/parallel_dims.py`): stages, replicas, shards, context and
/// tensor ranks, slowest first. The shard degree −1, its default, is what the others leave. Experts are
/// spread over shards, context and tensor ranks, and over whole context and tensor groups of them
/// (`expert_tensor_parallel_degree` 1, its default).
pub static TITAN: Law = Law {
    name: "titan",
    system: System::Fsdp,
    ranks: Ranks::PerAccelerator,
    factors: &[
        Degree { axis: Axis::Shard, absent: REST },
        one(Axis::Context),
        one(Axis::Tensor),
        one(Axis::Pipeline),
    ],
    replicas: Some(ONE),
    inside: &[Inside {
        degree: one(Axis::Expert),
        of: &[Axis::Shard, Axis::Context, Axis::Tensor],
        whole: &[Axis::Context, Axis::Tensor],
    }],
    ignores_experts_of_dense: true,
    order: Order::Axes(&[Axis::Pipeline, Axis::Replica, Axis::Shard, Axis::Context, Axis::Tensor]),
    states: States::ByStrategy,
    // `fsdp_reshard_after_forward`: always, or never.
    strategies: &[
        Strategy { word: "full-shard", degree: REST, is_fixed: false, sharding: Sharding::Full },
        Strategy { word: "shard-grad-op", degree: REST, is_fixed: false, sharding: Sharding::Gradients },
    ],
    // 0.2.2 `distributed/parallel_dims.py:365`, `seq_len_divisor`.
    context_parts: 2,
    tensor_divides_sequence: true,
    states_over: &[Axis::Shard, Axis::Context],
    whole_model: false,
    varies: &[Axis::Tensor, Axis::Context],
    offloads_states: true,
    unscalable: None,
    quantized: Quantized::None("torchtitan trains all weights, in a floating-point type"),
    measured_as: &[(Sharding::Gradients, "FSDP2 shard_grad_op"), (Sharding::Full, "FSDP2")],
    ..Law::PLAIN
};

/// The same with `expert_tensor_parallel_degree` equal to the tensor degree: each expert is split over the
/// tensor ranks, and the experts are spread over shards and context ranks.
pub static TITAN_SPLIT_EXPERTS: Law = Law {
    name: "titan-split-experts",
    inside: &[Inside {
        degree: one(Axis::Expert),
        of: &[Axis::Shard, Axis::Context],
        whole: &[Axis::Context],
    }],
    ..TITAN
};
