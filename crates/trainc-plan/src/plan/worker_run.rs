//! Decides intervals, paths and adapter of engine `worker`.

use trainc_ir::checkpoint_parts::DEFAULT_CHECKPOINT_PATH;
use trainc_ir::worker::{
    GRACE_SECONDS, VALIDATION_CHANNEL, WorkerAdapter, WorkerCommand, WorkerOutput, WorkerRunSettings,
};
use trainc_ir::{Adapter, Channel, CheckpointInterval, Cluster, EvaluationInterval, Plan};

/// Default seconds between checkpoints: an interruption then costs a quarter of an hour on average.
const CHECKPOINT_SECONDS: u64 = 1800;
/// Steps between log lines on SageMaker; a local run logs every step.
const LOG_STEPS: u64 = 10;

/// Where a training job's container has its channels, and where SageMaker reads what it leaves.
const INPUT: &str = "/opt/ml/input/data";
const OUTPUT_IN_CONTAINER: WorkerOutput =
    WorkerOutput { model: "/opt/ml/model", data: "/opt/ml/output/data", failure: "/opt/ml/output/failure" };
/// What starts the worker on another machine, in the directory of its config.
const INSTALLED: WorkerCommand =
    WorkerCommand { entry_point: &["trainc-worker", "launch"], arguments: &["worker.json"] };
/// Where a run on another machine leaves them, below its directory.
const OUTPUT_ON_MACHINE: WorkerOutput = WorkerOutput { model: "model", data: "output", failure: "failure" };

/// Returns the run of a bound plan; before binding, directories may contain placeholders.
pub(super) fn worker_run_settings(plan: &Plan, in_container: bool) -> WorkerRunSettings {
    let job = &plan.job;
    let (checkpoint_interval_seconds, checkpoint_interval_steps) = checkpoint_interval(plan);
    let has_validation =
        job.channels.iter().any(|one| one.name.value().is_some_and(|name| name == VALIDATION_CHANNEL));
    let written = match job.train.evaluate.as_ref().and_then(|evaluate| evaluate.every.get()) {
        Some(EvaluationInterval::Steps(steps)) => Some(steps),
        // The worker has no epochs.
        Some(EvaluationInterval::Epoch) | None => None,
    };
    let tenth_of_steps = plan.run.steps.as_ref().map(|steps| steps.value.div_ceil(10).max(1));
    WorkerRunSettings {
        log_interval_steps: if in_container { LOG_STEPS } else { 1 },
        evaluation_interval_steps: written
            .or(checkpoint_interval_steps)
            .or(tenth_of_steps)
            .filter(|_| has_validation),
        checkpoint_interval_seconds,
        checkpoint_interval_steps,
        checkpoint_directory: checkpoint_directory(plan, in_container),
        installed: (!in_container).then_some(INSTALLED),
        input_directories: job
            .channels
            .iter()
            .filter_map(|channel| input_directory(channel, in_container))
            .collect(),
        output: if in_container { OUTPUT_IN_CONTAINER } else { OUTPUT_ON_MACHINE },
        save_and_stop_seconds: job.cluster.as_ref().filter(|_| in_container).and_then(save_and_stop_seconds),
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

fn checkpoint_directory(plan: &Plan, in_container: bool) -> String {
    let written = plan.job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.local.value()).cloned();
    let default = if in_container { DEFAULT_CHECKPOINT_PATH } else { "checkpoints" };
    written.unwrap_or_else(|| default.to_owned())
}

/// Returns the name and the directory of a channel: in the container, or as the manifest names it.
fn input_directory(channel: &Channel, in_container: bool) -> Option<(String, String)> {
    let name = channel.name.value()?.clone();
    let directory = if in_container {
        format!("{INPUT}/{name}")
    } else {
        channel.path.value().map_or_else(|| name.clone(), ToString::to_string)
    };
    Some((name, directory))
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
