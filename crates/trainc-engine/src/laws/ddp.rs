//! Data parallelism: every rank has the whole model.

use trainc_ir::Axis;
use trainc_ir::engine::{Law, Order, Ranks, Sharding};

/// PyTorch DDP, or whatever MPI starts.
pub static DDP: Law = Law {
    name: "ddp",
    ranks: Ranks::PerProcess,
    order: Order::Axes(&[Axis::Replica, Axis::Shard]),
    unscalable: None,
    ..Law::PLAIN
};

/// DDP whose collectives SageMaker's data parallel library runs.
pub static SMDDP: Law = Law { name: "smddp", smddp: true, measured_as: &[(Sharding::None, "SMDDP")], ..DDP };
