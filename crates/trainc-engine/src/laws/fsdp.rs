//! PyTorch FSDP: replicas of shard groups, by a strategy (`torch.distributed.fsdp.ShardingStrategy`).

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
