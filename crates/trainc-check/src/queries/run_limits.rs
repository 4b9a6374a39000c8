//! Durations and counts of a job that the service accepts.

use trainc_catalog::{limits, shapes};
use trainc_ir::{Cluster, Val};

/// The request member of `max-run`.
pub(crate) const MAX_RUN: &str = "StoppingCondition.MaxRuntimeInSeconds";
/// The request member of `warm-pool`.
pub(crate) const WARM_POOL: &str = "ResourceConfig.KeepAlivePeriodInSeconds";

/// The largest `integer` without an explicit bound: 32 bits (Smithy 2.0, "Simple types").
pub(crate) const MAX_INTEGER: f64 = i32::MAX as f64;

/// Returns whether the service accepts a number in a member of CreateTrainingJob. A rejected number is
/// reported by the rule on durations; other rules ignore it.
pub(crate) fn is_accepted(member: &str, value: u64) -> bool {
    let value = value as f64;
    let shape = shapes::member_at_path("CreateTrainingJob", member);
    let within = shape.is_none_or(|shape| {
        shape.min.is_none_or(|min| value >= min) && shape.max.is_none_or(|max| value <= max)
    });
    within && value <= MAX_INTEGER
}

/// Returns `max-run` in seconds if the service accepts it.
pub(crate) fn max_run(cluster: &Cluster) -> Option<&Val<u64>> {
    let longest = limits::get("job.max-runtime").map(|limit| limit.value);
    cluster
        .max_run_seconds
        .val()
        .filter(|run| is_accepted(MAX_RUN, run.value) && longest.is_none_or(|longest| run.value <= longest))
}
