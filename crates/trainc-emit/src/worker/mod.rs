//! Engine `worker` on SageMaker: a channel contains the binary and its config, and the entry point starts it.

mod config;

use super::request::MetricDefinition;
use super::{canonical_json, names};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainc_catalog::efa::{self, Starter};
use trainc_ir::Plan;
use trainc_ir::plan::DIGEST_MARK;

/// The file name of the binary in its channel.
pub const BINARY: &str = "trainc-worker";
/// The file name of the config in the same channel.
pub const CONFIG: &str = "worker.json";
/// The file name of the key by which the hosts of a job recognise each other: next to the worker's config, or to the
/// archive of a job with an enforced budget. No plan contains it.
pub const KEY: &str = "rendezvous.key";

/// The command that starts the binary, `worker/launch.json`.
#[derive(Serialize)]
struct Launch {
    /// The program and its leading arguments.
    entry_point: Vec<String>,
    /// Further arguments.
    arguments: Vec<String>,
    /// Variables that are set before it starts.
    environment: BTreeMap<String, String>,
}

/// Returns `worker/worker.json` and `worker/launch.json` for engine `worker`.
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
    let mut out = vec![
        ("worker/launch.json".to_owned(), canonical_json::to_file_bytes(&launch)),
        ("worker/worker.json".to_owned(), canonical_json::to_file_bytes(&config)),
    ];
    let scripts = super::start::files(plan).into_iter().filter(|_| plan.deployable);
    out.extend(scripts.map(|file| (format!("worker/{}", file.path), file.bytes.to_vec())));
    out
}

/// Returns the files of the worker's channel: S3 URI and content of the config and, if available, of the binary. None for
/// other engines and for clusters that are not SageMaker clusters.
pub fn uploads(plan: &Plan, digest: &str) -> Vec<(String, Arc<[u8]>)> {
    let Some(config) = config(plan, digest).filter(|_| plan.deployable) else { return Vec::new() };
    let prefix = worker_prefix(plan).replace(DIGEST_MARK, digest);
    let binary = plan.worker.as_ref().and_then(|worker| worker.binary.as_ref());
    let binary = binary.map(|file| (format!("{prefix}{BINARY}"), Arc::clone(&file.bytes)));
    let config = (format!("{prefix}{CONFIG}"), Arc::from(canonical_json::to_file_bytes(&config)));
    let scripts = super::start::files(plan).into_iter();
    let scripts = scripts.map(|file| (format!("{prefix}{}", file.path), Arc::clone(&file.bytes)));
    std::iter::once(config).chain(scripts).chain(binary).collect()
}

/// Returns the S3 URI of the worker's key. None where [`uploads`] returns no files.
pub(super) fn key_uri(plan: &Plan, digest: &str) -> Option<String> {
    let is_uploaded = plan.is_worker() && plan.deployable;
    is_uploaded.then(|| format!("{}{KEY}", worker_prefix(plan).replace(DIGEST_MARK, digest)))
}

/// Returns the S3 prefix of the worker's files; below it each job has a prefix with its digest.
pub fn worker_base_prefix(plan: &Plan) -> String {
    let job = plan.job.name.value().map_or("", String::as_str);
    format!("s3://{}/trainc/{job}/worker", names::default_bucket(plan))
}

/// Returns the config of a plan with engine `worker`, for a local run.
pub fn config(plan: &Plan, digest: &str) -> Option<Value> {
    let mut config = serde_json::to_value(config::config(plan, digest)?).ok()?;
    super::replace_mark(&mut config, digest);
    Some(config)
}

/// Returns the config and the digest of the binary, for the job's digest; empty for other engines.
pub(super) fn digest_inputs(plan: &Plan) -> Value {
    let Some(config) = config::config(plan, "") else { return Value::Object(serde_json::Map::new()) };
    let binary =
        plan.worker.as_ref().and_then(|worker| worker.binary.as_ref().map(|file| file.sha256().to_owned()));
    let mut inputs = serde_json::json!({ "config": config, "binary": binary });
    let scripts: Vec<String> =
        super::start::files(plan).iter().map(|file| file.sha256().to_owned()).collect();
    if let Some(members) = inputs.as_object_mut().filter(|_| !scripts.is_empty()) {
        members.insert("scripts".to_owned(), scripts.into());
    }
    inputs
}

/// Returns the command that the container's shell runs. `exec` makes the launcher the first process, so that it receives
/// SIGTERM; `install` restores the execute bit, which S3 does not store.
pub(super) fn start_line(plan: &Plan) -> String {
    let channel = channel_name(plan);
    let start = if super::start::is_started(plan) {
        format!("python3 /opt/ml/input/data/{channel}/{}", super::SECRETS_SHIM)
    } else {
        command(plan).join(" ")
    };
    format!("install -m 755 /opt/ml/input/data/{channel}/trainc-worker /tmp/ && exec {start}")
}

/// Returns the command that launches the ranks of a host.
pub(super) fn command(plan: &Plan) -> Vec<String> {
    let config = format!("/opt/ml/input/data/{}/worker.json", channel_name(plan));
    vec!["/tmp/trainc-worker".to_owned(), "launch".to_owned(), config]
}

/// Returns the name of the channel: `worker`, or the next free name.
pub(super) fn channel_name(plan: &Plan) -> String {
    super::channels::free_name(plan, "worker")
}

/// Returns the S3 prefix of binary and config.
pub(super) fn worker_prefix(plan: &Plan) -> String {
    format!("{}/{DIGEST_MARK}/", worker_base_prefix(plan))
}

/// Returns the metrics of the worker's log lines: `step=12 loss=2.31 … mfu=0.41 memory_mib=812`. Without a known peak,
/// `mfu=-` does not match.
fn metrics_of(names: &[&str]) -> Vec<MetricDefinition> {
    names
        .iter()
        .map(|name| MetricDefinition {
            name: format!("train:{name}"),
            regex: format!("(?:^| ){name}=([0-9.]+(?:[eE][+-]?[0-9]+)?)"),
        })
        .collect()
}

/// Returns the metrics of every worker job.
pub(super) fn metrics() -> Vec<MetricDefinition> {
    metrics_of(&["step", "loss", "grad_norm", "lr", "tokens_per_s", "mfu", "memory_mib", "validation_loss"])
}

/// Returns the environment that NCCL over EFA requires, which no toolkit sets, since the worker is the first process.
pub(super) fn environment(plan: &Plan) -> Vec<(String, String)> {
    let hosts = plan.mesh.as_ref().map_or(1, |mesh| mesh.nodes);
    let instance = plan.instance.as_ref();
    instance.map(|instance| efa::environment(instance, Starter::Worker, hosts)).unwrap_or_default()
}
