//! Settings of engine `worker`.

/// Settings of engine `worker` that affect its memory and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkerSettings {
    /// True if ranks are processes on CPUs.
    pub cpu: bool,
    /// Units gathered ahead of use.
    pub prefetch: f64,
    /// True if blocks are freed after forward and gathered again.
    pub reshard: bool,
    /// Rank of the adapters; 0 without adapters.
    pub adapter_rank: f64,
    /// True if gradients are reduced in 32 bit, false in 16 bit.
    pub wide_reduction: bool,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self { cpu: false, prefetch: 1.0, reshard: true, adapter_rank: 0.0, wide_reduction: true }
    }
}
