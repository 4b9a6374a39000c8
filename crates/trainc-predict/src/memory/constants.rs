//! The few figures that no formula gives: the allocator's reserve and the memory of CUDA and NCCL.

use crate::constants::{Constants, Name};
use crate::layout::Layout;
use crate::settings::{MemorySetting, PeakEnds};

/// Largest number of settings with ends of their own.
const MAX_OWN_ENDS: usize = 24;

/// Fitted on measured runs by `trainc calibrate`; one value for all GPUs, models and systems.
///
/// Context: 0.47 to 0.92 GiB with torch 2.1, 1.78 with 1.10 (ml-engineering, training/performance). NCCL:
/// 0.55 to 2.0 GiB after the first barrier (the same). Slack: fitted on what nvidia-smi and
/// `max_memory_reserved` showed. Pools of ZeRO-3: blocks of one stream are not given to another (PyTorch,
/// CUDA semantics), and each of its streams frees gathered weights or reduced gradients; fitted on runs of
/// TRL and Qwen under ZeRO-3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryConstants {
    /// Memory that the caching allocator reserves above allocations, a fraction of them, while the GPU has
    /// room.
    pub slack: f64,
    /// The part of it that cannot be released when the card is full: split blocks.
    pub fragments: f64,
    /// CUDA context and kernels, bytes.
    pub context_bytes: f64,
    /// NCCL's buffers and communicators if there are collectives, bytes.
    pub nccl_bytes: f64,
    /// Freed blocks that the allocator holds for the streams on which ZeRO-3 gathers and reduces, bytes.
    pub zero_pool_bytes: f64,
    /// Lower end of the interval of a peak: the fraction below the prediction that contains nine in ten
    /// measurements.
    pub below: f64,
    /// Upper end, a fraction above the prediction.
    pub above: f64,
    /// Ends of settings with enough measurements of their own.
    pub own_ends: [Option<PeakEnds>; MAX_OWN_ENDS],
    /// Host memory of one Python process with torch and CUDA loaded, bytes.
    pub process: f64,
    /// The lowest and the highest observed value of it, bytes.
    pub process_between: (f64, f64),
}

impl MemoryConstants {
    /// Returns the lower and the upper end of the interval of a layout's peak, fractions of the prediction.
    pub fn ends(&self, layout: &Layout) -> (f64, f64) {
        let setting = MemorySetting::from_layout(layout);
        let own = self.own_ends.iter().flatten().find(|own| Some(own.setting) == setting);
        own.map_or((self.below, self.above), |own| (own.below, own.above))
    }

    /// Reads them from a file of constants.
    pub fn from_constants(constants: &Constants) -> Self {
        Self {
            slack: constants.get(Name::MemorySlack),
            fragments: constants.get(Name::MemoryFragments),
            context_bytes: constants.get(Name::MemoryContext),
            nccl_bytes: constants.get(Name::MemoryNccl),
            zero_pool_bytes: constants.get(Name::MemoryZeroPools),
            below: constants.get(Name::MemoryBelow),
            above: constants.get(Name::MemoryAbove),
            own_ends: std::array::from_fn(|at| constants.peak_ends().get(at).copied()),
            process: constants.get(Name::HostProcess),
            process_between: (constants.get(Name::HostProcessLow), constants.get(Name::HostProcessHigh)),
        }
    }
}
