//! The laws of degrees and sharding.

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

use trainc_ir::engine::Law;

/// The law of a plain script.
pub static SCRIPT: Law = Law::PLAIN;

/// All laws.
pub static ALL: &[&Law] = &[&FSDP, &SMP, &SMP_V1, &SMP_V2, &SMDDP, &DDP, &DEVICE_MAP, &WORKER, &SCRIPT];
