//! The fronts: the words of the language, launchers and versions.

mod ddp;
mod device_map;
mod fsdp;
mod smp;
mod worker;

pub use ddp::{DDP, SMDDP};
pub use device_map::DEVICE_MAP;
pub use fsdp::FSDP;
pub use smp::{SMP, SMP_V1, SMP_V2};
pub use worker::WORKER;

use crate::laws;
use trainc_ir::Launcher;
use trainc_ir::engine::Front;

/// A plain script on each host, or a strategy of TensorFlow.
pub static SCRIPT: Front = Front {
    law: &laws::SCRIPT,
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
pub static ALL: &[&Front] = &[&FSDP, &SMP, &SMP_V1, &SMP_V2, &SMDDP, &DDP, &DEVICE_MAP, &WORKER, &SCRIPT];
