//! Engine `worker` on SageMaker: the binary and its config travel in a channel, the entry point starts them.

mod config;

use super::request::MetricDefinition;
use super::{canonical, names};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainc_catalog::efa;
use trainc_ir::Plan;
use trainc_ir::plan::DIGEST_MARK;

/// The binary's file name in its channel.
pub const BINARY: &str = "trainc-worker";
/// The config's file name in the same channel.
pub const CONFIG: &str = "worker.json";

/// Seconds between SIGTERM and the end of the container, less some for the last bytes: SageMaker gives 120.
const GRACE_SECONDS: u64 = 100;

/// How the binary is started, `worker/launch.json`.
#[derive(Serialize)]
struct Launch {
    /// The program and its leading arguments.
    entry_point: Vec<String>,
    /// Further arguments.
    arguments: Vec<String>,
    /// Variables that are set before it starts.
    environment: BTreeMap<String, String>,
}

/// `worker/worker.json` and `worker/launch.json`, where engine `worker` runs.
pub(super) fn files(plan: &Plan, digest: &str) -> Vec<(String, Vec<u8>)> {
    let Some(config) = config(plan, digest) else { return Vec::new() };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let launch = if plan.deployable {
        Launch {
            entry_point: words(&["/bin/bash"]),
            arguments: vec!["-c".to_owned(), start_line(plan)],
            environment: environment(plan).into_iter().collect(),
        }
    } else {
        Launch {
            entry_point: words(&["trainc-worker", "launch"]),
            arguments: words(&["worker.json"]),
            environment: BTreeMap::new(),
        }
    };
    vec![
        ("worker/launch.json".to_owned(), canonical::file(&launch)),
        ("worker/worker.json".to_owned(), canonical::file(&config)),
    ]
}

/// What the channel of the worker must hold: address and content of the config and, where the caller found one, of
/// the binary. Nothing for other engines, and for clusters that are not SageMaker's.
pub fn uploads(plan: &Plan, digest: &str) -> Vec<(String, Arc<[u8]>)> {
    let Some(config) = config(plan, digest).filter(|_| plan.deployable) else { return Vec::new() };
    let prefix = prefix(plan).replace(DIGEST_MARK, digest);
    let binary = plan.worker.as_ref().and_then(|worker| worker.binary.as_ref());
    let binary = binary.map(|file| (format!("{prefix}{BINARY}"), Arc::clone(&file.bytes)));
    let config = (format!("{prefix}{CONFIG}"), Arc::from(canonical::file(&config)));
    std::iter::once(config).chain(binary).collect()
}

/// Where the files of the worker lie, below the digest of each job.
pub fn home(plan: &Plan) -> String {
    let job = plan.job.name.value().map_or("", String::as_str);
    format!("s3://{}/trainc/{job}/worker", names::default_bucket(plan))
}

/// The config of a plan whose engine is the worker, for a run on this machine.
pub fn config(plan: &Plan, digest: &str) -> Option<Value> {
    let mut config = serde_json::to_value(config::config(plan, digest)?).ok()?;
    super::replace_mark(&mut config, digest);
    Some(config)
}

/// What of the config shapes the run, with the binary that will read it; empty for other engines.
pub(super) fn shape(plan: &Plan) -> Value {
    let Some(config) = config::config(plan, "") else { return Value::Object(serde_json::Map::new()) };
    let binary =
        plan.worker.as_ref().and_then(|worker| worker.binary.as_ref().map(|file| file.sha256().to_owned()));
    serde_json::json!({ "config": config, "binary": binary })
}

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
    format!("{}/{DIGEST_MARK}/", home(plan))
}

/// The figures of the worker's log lines: `step=12 loss=2.31 … mfu=0.41 memory_mib=812`. Where there is no peak to
/// compare with, `mfu=-` matches nothing.
fn metrics_of(names: &[&str]) -> Vec<MetricDefinition> {
    names
        .iter()
        .map(|name| MetricDefinition {
            name: format!("train:{name}"),
            regex: format!("(?:^| ){name}=([0-9.]+(?:[eE][+-]?[0-9]+)?)"),
        })
        .collect()
}

/// The metrics of every job of the worker.
pub(super) fn metrics() -> Vec<MetricDefinition> {
    metrics_of(&["step", "loss", "grad_norm", "lr", "tokens_per_s", "mfu", "memory_mib", "validation_loss"])
}

/// What NCCL over EFA wants of the container: the worker is the first process, so that no toolkit sets it up.
pub(super) fn environment(plan: &Plan) -> Vec<(String, String)> {
    plan.instance.as_ref().map(efa::environment).unwrap_or_default()
}
