//! PyTorch FSDP: replicas of shard groups, by a strategy (`torch.distributed.fsdp.ShardingStrategy`), and
//! FSDP2 as accelerate combines it with other axes.

use trainc_ir::Axis;
use trainc_ir::engine::{Absent, Degree, Law, Order, Quantized, Ranks, Sharding, States, Strategy, System};

const WORLD: Absent = Absent::World("full-shard: the whole world");

/// PyTorch FSDP in a script of the user.
pub static FSDP: Law = Law {
    name: "fsdp",
    system: System::Fsdp,
    ranks: Ranks::PerAccelerator,
    factors: &[Degree { axis: Axis::Shard, absent: WORLD }],
    order: Order::Axes(&[Axis::Replica, Axis::Shard]),
    states: States::ByStrategy,
    strategies: &[
        Strategy { word: "full-shard", degree: WORLD, is_fixed: true, sharding: Sharding::Full },
        Strategy { word: "shard-grad-op", degree: WORLD, is_fixed: true, sharding: Sharding::Gradients },
        Strategy {
            word: "no-shard",
            degree: Absent::One("no-shard: nothing is sharded"),
            is_fixed: true,
            sharding: Sharding::None,
        },
        Strategy {
            word: "hybrid-shard",
            degree: Absent::Node("hybrid-shard: the GPUs of one node"),
            is_fixed: false,
            sharding: Sharding::Full,
        },
    ],
    whole_model: false,
    wraps: true,
    offloads_states: true,
    unscalable: None,
    quantized: Quantized::Nf4,
    measured_as: &[
        (Sharding::None, "DDP"),
        (Sharding::Gradients, "FSDP shard_grad_op"),
        (Sharding::Full, "FSDP"),
    ],
    ..Law::PLAIN
};

/// FSDP1 of accelerate: like a script's, but hybrid groups are always the GPUs of a node, and without `wrap`
/// the model's own class of layers is wrapped (`TRANSFORMER_BASED_WRAP`).
pub static FSDP1: Law = Law {
    name: "fsdp1",
    strategies: &[
        Strategy { word: "full-shard", degree: WORLD, is_fixed: true, sharding: Sharding::Full },
        Strategy { word: "shard-grad-op", degree: WORLD, is_fixed: true, sharding: Sharding::Gradients },
        Strategy {
            word: "no-shard",
            degree: Absent::One("no-shard: nothing is sharded"),
            is_fixed: true,
            sharding: Sharding::None,
        },
        Strategy {
            word: "hybrid-shard",
            degree: Absent::Node("hybrid-shard: the GPUs of one node"),
            is_fixed: true,
            sharding: Sharding::Full,
        },
    ],
    wraps_itself: true,
    ..FSDP
};

const REST: Absent = Absent::Rest("the ranks that the other degrees leave");
const ONE: Absent = Absent::One("accelerate: 1 unless set");

/// FSDP2 of accelerate, in the order of the ranks of its `ParallelismConfig` (1.15.0,
/// `parallelism_config.py:267`: dp_replicate, dp_shard, cp, tp). Context ranks hold different shards: the
/// states are divided over `dp_shard_cp`.
pub static FSDP2: Law = Law {
    name: "fsdp2",
    factors: &[
        Degree { axis: Axis::Shard, absent: REST },
        Degree { axis: Axis::Context, absent: ONE },
        Degree { axis: Axis::Tensor, absent: ONE },
    ],
    replicas: Some(ONE),
    order: Order::Axes(&[Axis::Replica, Axis::Shard, Axis::Context, Axis::Tensor]),
    // torch 2.13.0 `distributed/tensor/experimental/_attention.py`.
    context_parts: 2,
    states_over: &[Axis::Shard, Axis::Context],
    strategies: &[
        Strategy { word: "full-shard", degree: REST, is_fixed: false, sharding: Sharding::Full },
        Strategy { word: "shard-grad-op", degree: REST, is_fixed: false, sharding: Sharding::Gradients },
        Strategy {
            word: "no-shard",
            degree: Absent::One("no-shard: nothing is sharded"),
            is_fixed: true,
            sharding: Sharding::None,
        },
        Strategy {
            word: "hybrid-shard",
            degree: Absent::Node("hybrid-shard: the GPUs of one node"),
            is_fixed: false,
            sharding: Sharding::Full,
        },
    ],
    wraps_itself: true,
    varies: &[Axis::Context],
    quantized: Quantized::Any,
    measured_as: &[
        (Sharding::None, "DDP"),
        (Sharding::Gradients, "FSDP2 shard_grad_op"),
        (Sharding::Full, "FSDP2"),
    ],
    ..FSDP
};
