//! DeepSpeed ZeRO: the states are divided over all ranks that hold the same layers; of a group of Ulysses
//! each rank reads a part of the same sequences.

use trainc_ir::Axis;
use trainc_ir::engine::{Absent, Degree, Law, Order, Ranks, Sharding, States, Strategy, System};

const DATA_RANKS: Absent = Absent::Rest("ZeRO: all data ranks");
const ONE: Absent = Absent::One("deepspeed: 1 unless set");

const fn stage(word: &'static str, sharding: Sharding) -> Strategy {
    Strategy { word, degree: DATA_RANKS, is_fixed: true, sharding }
}

/// ZeRO, in DeepSpeed's order of the ranks (`runtime/pipe/topology.py`: pipe, data, model). Groups of Ulysses
/// are adjacent data ranks, and the states are divided over them as well (`utils/groups.py`,
/// `_get_sequence_data_parallel_group`).
pub static ZERO: Law = Law {
    name: "zero",
    system: System::DeepSpeed,
    ranks: Ranks::PerAccelerator,
    factors: &[
        Degree { axis: Axis::Shard, absent: DATA_RANKS },
        Degree { axis: Axis::Ulysses, absent: ONE },
        Degree { axis: Axis::Tensor, absent: ONE },
    ],
    order: Order::Axes(&[Axis::Replica, Axis::Shard, Axis::Ulysses, Axis::Tensor]),
    states: States::ByStrategy,
    states_over: &[Axis::Shard, Axis::Ulysses],
    strategies: &[
        Strategy {
            word: "zero-0",
            degree: Absent::One("zero-0: nothing is sharded"),
            is_fixed: true,
            sharding: Sharding::None,
        },
        stage("zero-1", Sharding::Optimizer),
        stage("zero-2", Sharding::Gradients),
        stage("zero-3", Sharding::Full),
    ],
    // `stage` of `zero_optimization` (`runtime/zero/config.py`).
    usual_strategy: Some("zero-0"),
    whole_model: false,
    varies: &[Axis::Ulysses],
    offloads_states: true,
    offloads_optimizer: true,
    unscalable: None,
    measured_as: &[
        (Sharding::None, "DeepSpeed ZeRO-0"),
        (Sharding::Optimizer, "DeepSpeed ZeRO-1"),
        (Sharding::Gradients, "DeepSpeed ZeRO-2"),
        (Sharding::Full, "DeepSpeed ZeRO-3"),
    ],
    ..Law::PLAIN
};
