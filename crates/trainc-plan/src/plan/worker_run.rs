//! Decides intervals, paths and adapter of engine `worker`.

use trainc_ir::checkpoint_parts::DEFAULT_CHECKPOINT_PATH;
use trainc_ir::worker::{GRACE_SECONDS, VALIDATION_CHANNEL, WorkerAdapter, WorkerRunSettings};
use trainc_ir::{Adapter, CheckpointInterval, Cluster, Plan};

/// Default seconds between checkpoints: an interruption then costs a quarter of an hour on average.
const CHECKPOINT_SECONDS: u64 = 1800;
/// Steps between log lines on SageMaker; a local run logs every step.
const LOG_STEPS: u64 = 10;

/// Returns the run of a bound plan; before binding, the checkpoint directory may contain placeholders.
pub(super) fn worker_run_settings(plan: &Plan) -> WorkerRunSettings {
    let (job, on_sagemaker) = (&plan.job, plan.deployable);
    let (checkpoint_interval_seconds, checkpoint_interval_steps) = checkpoint_interval(plan);
    let has_validation =
        job.channels.iter().any(|one| one.name.value().is_some_and(|name| name == VALIDATION_CHANNEL));
    let tenth_of_steps = plan.run.steps.as_ref().map(|steps| steps.value.div_ceil(10).max(1));
    WorkerRunSettings {
        log_interval_steps: if on_sagemaker { LOG_STEPS } else { 1 },
        evaluation_interval_steps: checkpoint_interval_steps.or(tenth_of_steps).filter(|_| has_validation),
        checkpoint_interval_seconds,
        checkpoint_interval_steps,
        checkpoint_directory: checkpoint_directory(plan, on_sagemaker),
        save_and_stop_seconds: job.cluster.as_ref().filter(|_| on_sagemaker).and_then(save_and_stop_seconds),
        adapter: job.adapter.as_ref().and_then(adapter),
    }
}

fn adapter(written: &Adapter) -> Option<WorkerAdapter> {
    let rank = written.rank.get()?;
    Some(WorkerAdapter {
        kind: written.kind.value()?.clone(),
        rank,
        alpha: written.alpha.get().unwrap_or(rank as f64),
        dropout: written.dropout.get().unwrap_or(0.0),
        // The same default as in the count of trainable parameters.
        targets: written.targets.value().cloned().unwrap_or_else(|| vec!["all-linear".to_owned()]),
    })
}

fn checkpoint_directory(plan: &Plan, on_sagemaker: bool) -> String {
    let written = plan.job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.local.value()).cloned();
    let default = if on_sagemaker { DEFAULT_CHECKPOINT_PATH } else { "checkpoints" };
    written.unwrap_or_else(|| default.to_owned())
}

/// Returns seconds or steps between checkpoints. `every="optimal"` gets the default interval, since the
/// optimal one is a prediction, and predictions must not affect a job's digest.
fn checkpoint_interval(plan: &Plan) -> (Option<u64>, Option<u64>) {
    match plan.job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.every.get()) {
        Some(CheckpointInterval::Steps(steps)) => (None, Some(steps)),
        Some(CheckpointInterval::Seconds(seconds)) => (Some(seconds), None),
        Some(CheckpointInterval::Optimal) | None => (Some(CHECKPOINT_SECONDS), None),
    }
}

/// Returns the time after which the worker saves and stops, before SageMaker stops the job at max-run.
fn save_and_stop_seconds(cluster: &Cluster) -> Option<u64> {
    cluster.max_run_seconds.get()?.checked_sub(GRACE_SECONDS).filter(|left| *left > 0)
}
