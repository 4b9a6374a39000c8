//! Engine `worker` on SageMaker: the binary and its config travel in a channel, the entry point starts them.

use super::names;
use super::request::MetricDefinition;
use crate::ir::Plan;

/// The line that the container's shell runs. `exec` makes the launcher the first process, so that it gets
/// SIGTERM; S3 loses the execute bit, so `install` sets it again.
pub(super) fn start_line(plan: &Plan) -> String {
    let channel = channel_name(plan);
    format!(
        "install -m 755 /opt/ml/input/data/{channel}/trainc-worker /tmp/ && exec /tmp/trainc-worker launch /opt/ml/input/data/{channel}/worker.json"
    )
}

/// `worker`, or the next free name.
pub(super) fn channel_name(plan: &Plan) -> String {
    let taken = |name: &str| {
        plan.job.channels.iter().any(|channel| channel.name.value().is_some_and(|other| other == name))
    };
    if !taken("worker") {
        return "worker".to_owned();
    }
    (2..100).map(|n| format!("worker-{n}")).find(|name| !taken(name)).unwrap_or_else(|| "worker".to_owned())
}

/// Where binary and config lie.
pub(super) fn prefix(plan: &Plan) -> String {
    let job = plan.job.name.value().map_or("", String::as_str);
    format!("s3://{}/trainc/{job}/worker/{}/", names::default_bucket(plan), crate::ir::plan::DIGEST_MARK)
}

/// The figures of the worker's log lines: `step=12 loss=2.31 … mfu=0.41`.
pub(super) fn metrics() -> Vec<MetricDefinition> {
    ["loss", "grad_norm", "lr", "tokens_per_s", "mfu"]
        .into_iter()
        .map(|name| MetricDefinition {
            name: format!("train:{name}"),
            regex: format!("\\b{name}=([0-9.eE+-]+)"),
        })
        .collect()
}

/// What the training toolkit would set up for EFA: the worker is the first process, so nothing else does.
pub(super) fn environment(plan: &Plan) -> Vec<(String, String)> {
    let efa = plan.instance.as_ref().and_then(|instance| instance.efa) == Some(true);
    if !efa {
        return Vec::new();
    }
    [("FI_PROVIDER", "efa"), ("FI_EFA_USE_DEVICE_RDMA", "1"), ("RDMAV_FORK_SAFE", "1")]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
