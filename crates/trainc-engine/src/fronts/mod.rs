//! The fronts: the words of the language, launchers and versions.

mod accelerate;
mod ddp;
mod deepspeed;
mod device_map;
mod distributed_config;
mod fsdp;
mod smp;
mod torchtitan;
mod worker;

pub use accelerate::ACCELERATE;
pub use ddp::{DDP, SMDDP};
pub use deepspeed::DEEPSPEED;
pub use device_map::DEVICE_MAP;
pub use distributed_config::DISTRIBUTED_CONFIG;
pub use fsdp::FSDP;
pub use smp::{SMP, SMP_V1, SMP_V2};
pub use torchtitan::TORCHTITAN;
pub use worker::WORKER;

use crate::laws;
use trainc_ir::Launcher;
use trainc_ir::engine::Front;

/// A plain script on each host, or a strategy of TensorFlow.
pub static SCRIPT: Front = Front {
    laws: &[&laws::SCRIPT],
    launchers: &[
        ("", Launcher::Plain),
        ("parameter-server", Launcher::ParameterServer),
        ("multi-worker-mirrored", Launcher::MultiWorkerMirrored),
    ],
    needs_gpu: false,
    ..Front::PLAIN
};

/// All fronts, in the order of the language's reference. Of those with one word the first is the front
/// until the image decides the generation.
pub static ALL: &[&Front] = &[
    &FSDP,
    &ACCELERATE,
    &DEEPSPEED,
    &DISTRIBUTED_CONFIG,
    &TORCHTITAN,
    &SMP,
    &SMP_V1,
    &SMP_V2,
    &SMDDP,
    &DDP,
    &DEVICE_MAP,
    &WORKER,
    &SCRIPT,
];
