//! The laws of degrees and sharding.

mod ddp;
mod device_map;
mod distributed;
mod fsdp;
mod smp;
mod titan;
mod worker;
mod zero;

pub use ddp::{DDP, SMDDP};
pub use device_map::DEVICE_MAP;
pub use distributed::{DISTRIBUTED, DISTRIBUTED_AUTO};
pub use fsdp::{FSDP, FSDP1, FSDP2};
pub use smp::{SMP, SMP_V1, SMP_V2};
pub use titan::{TITAN, TITAN_SPLIT_EXPERTS};
pub use worker::WORKER;
pub use zero::ZERO;

use trainc_ir::engine::Law;

/// The law of a plain script.
pub static SCRIPT: Law = Law::PLAIN;

/// All laws.
pub static ALL: &[&Law] = &[
    &FSDP,
    &FSDP1,
    &FSDP2,
    &ZERO,
    &DISTRIBUTED,
    &DISTRIBUTED_AUTO,
    &TITAN,
    &TITAN_SPLIT_EXPERTS,
    &SMP,
    &SMP_V1,
    &SMP_V2,
    &SMDDP,
    &DDP,
    &DEVICE_MAP,
    &WORKER,
    &SCRIPT,
];
