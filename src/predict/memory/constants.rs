//! The few figures that no formula gives: what the allocator keeps and what CUDA and NCCL take.

use super::GIB;
use serde::{Deserialize, Serialize};

/// Fitted on measured runs by `trainc calibrate`; one value for all GPUs, models and systems.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryConstants {
    /// What the caching allocator holds beyond what is allocated, a fraction of it, while the card has room.
    pub slack: f64,
    /// The part of it that cannot be given back when the card is full: blocks that are split.
    pub fragments: f64,
    /// CUDA context and kernels, bytes.
    pub context_bytes: f64,
    /// NCCL's buffers and communicators where ranks talk, bytes.
    pub nccl_bytes: f64,
    /// How far below the prediction a measured peak lies at most nine times in ten, a fraction.
    pub below: f64,
    /// How far above it, a fraction.
    pub above: f64,
}

impl MemoryConstants {
    /// The shipped values.
    ///
    /// Context: 0.47 to 0.92 GiB with torch 2.1, 1.78 with 1.10 (ml-engineering, training/performance). NCCL:
    /// 0.55 to 2.0 GiB after the first barrier (the same). Slack: fitted on BigScience's nvidia-smi figures.
    pub fn shipped() -> &'static Self {
        static SHIPPED: MemoryConstants = MemoryConstants {
            slack: 0.12,
            fragments: 0.06,
            context_bytes: 0.7 * GIB,
            nccl_bytes: 1.2 * GIB,
            below: 0.15,
            above: 0.15,
        };
        &SHIPPED
    }
}
