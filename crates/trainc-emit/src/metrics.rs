//! The metrics that SageMaker reads from the log of a job.

use super::fill::Fill;
use super::request::MetricDefinition;
use trainc_ir::Plan;

/// The names of the worker's metrics in its log lines: `step=12 loss=2.31 … mfu=0.41 memory_mib=812`. Without
/// a known peak, `mfu=-` does not match.
const OF_WORKER: &[&str] =
    &["step", "loss", "grad_norm", "lr", "tokens_per_s", "mfu", "memory_mib", "validation_loss"];

/// Returns the metrics of a job: those of engine `worker`, otherwise those of the program.
pub(super) fn definitions(plan: &Plan, fill: Fill) -> Vec<MetricDefinition> {
    if plan.is_worker() {
        let of = |name: &&str| MetricDefinition {
            name: format!("train:{name}"),
            regex: format!("(?:^| ){name}=([0-9.]+(?:[eE][+-]?[0-9]+)?)"),
        };
        return OF_WORKER.iter().map(of).collect();
    }
    let metrics = plan.job.program.iter().flat_map(|program| &program.metrics);
    let of = |metric: &trainc_ir::Metric| {
        Some(MetricDefinition { name: metric.name.clone(), regex: fill.field(&metric.regex)? })
    };
    metrics.filter_map(of).collect()
}
