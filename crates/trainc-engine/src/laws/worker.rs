//! The law of trainc's own worker: everything is sharded over whole nodes.

use trainc_ir::Axis;
use trainc_ir::engine::{Absent, Bf16, Degree, Law, Order, Quantized, Ranks, Sharding, States, System};

/// The Rust FSDP worker.
pub static WORKER: Law = Law {
    name: "worker",
    system: System::Worker,
    ranks: Ranks::PerAccelerator,
    factors: &[Degree {
        axis: Axis::Shard,
        absent: Absent::Recommended("the whole world, since the size of the model is unknown"),
    }],
    order: Order::Axes(&[Axis::Replica, Axis::Shard]),
    states: States::Sharded,
    whole_model: false,
    unscalable: None,
    // It does not support fp16 either, which is reported with its settings.
    bf16: Bf16::No,
    quantized: Quantized::None("the worker keeps the base weights in its own precision"),
    // It shards by parameter, like FSDP2.
    measured_as: &[(Sharding::Full, "FSDP2")],
    ..Law::PLAIN
};
