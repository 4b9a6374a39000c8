//! Number of micro-batches whose activations a pipeline stage holds.

use super::stages::Stage;
use crate::layout::{Layout, System};

/// Returns the number of micro-batches whose activations a stage keeps at once, before their backward passes.
///
/// One forward, one backward: a stage keeps as many as there are stages from it to the last (Narayanan et al.
/// 2021, section 2.2); interleaved in `v` chunks, `1 + (p-1)/(p v)` times that. SMP v1 runs as many forward
/// passes as `active_microbatches` allows, by default the degree plus two (SageMaker Python SDK
/// documentation).
pub(super) fn micro_batches_in_flight(layout: &Layout, stage: &Stage) -> f64 {
    let stages = layout.degrees.pipeline;
    if stages <= 1.0 || layout.system == System::DeviceMap {
        return 1.0;
    }
    let all = layout.work.passes.max(1.0);
    if layout.system == System::SmpV1 {
        let active = layout.work.num_active_micro_batches.unwrap_or(stages + 2.0);
        return all.min(active);
    }
    let waiting = (stages - stage.index).max(1.0);
    let chunks = layout.degrees.virtual_stages.max(1.0);
    let interleaved = if chunks > 1.0 { 1.0 + (stages - 1.0) / (stages * chunks) } else { 1.0 };
    all.min(waiting) * interleaved
}
