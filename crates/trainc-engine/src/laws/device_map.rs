//! A device map: one process places layers on the GPUs of one node, one of which works at a time.

use trainc_ir::Axis;
use trainc_ir::engine::{Absent, Degree, Law, Order, Ranks, Sharding, System};

/// The device map of accelerate.
pub static DEVICE_MAP: Law = Law {
    name: "device-map",
    system: System::DeviceMap,
    ranks: Ranks::OneProcess,
    factors: &[Degree { axis: Axis::Pipeline, absent: Absent::AllGpus("all GPUs of the node") }],
    order: Order::Axes(&[Axis::Pipeline]),
    reads: &[],
    whole_model: false,
    unscalable: Some("a device map is computed by the library, on one node"),
    measured_as: &[(Sharding::None, "device_map")],
    ..Law::PLAIN
};
