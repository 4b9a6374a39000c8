//! Engine `worker`: on SageMaker a channel contains the binary and its config, and the entry point starts it.

mod config;

use super::container::{self, WORKER_BINARY, WORKER_CONFIG};
use super::fill::Fill;
use super::{added, canonical_json, names};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainc_ir::Plan;

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
    let installed = plan.worker.as_ref().and_then(|worker| worker.run.installed);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let (launch, scripts) = if let Some(command) = installed {
        let (entry_point, arguments) = (words(command.entry_point), words(command.arguments));
        (Launch { entry_point, arguments, environment: BTreeMap::new() }, Vec::new())
    } else {
        let (entry_point, arguments) = container::command(plan, Fill::Digest(digest));
        let environment = plan.payload.environment.iter().cloned().collect();
        (Launch { entry_point, arguments, environment }, added::to_worker_channel(plan))
    };
    let mut out = vec![
        ("worker/launch.json".to_owned(), canonical_json::to_file_bytes(&launch)),
        ("worker/worker.json".to_owned(), canonical_json::to_file_bytes(&config)),
    ];
    out.extend(scripts.into_iter().map(|file| (format!("worker/{}", file.path), file.bytes.to_vec())));
    out
}

/// Returns the files of the worker's channel: S3 URI and content of the config and, if available, of the
/// binary. None for other engines.
pub fn uploads(plan: &Plan, digest: &str) -> Vec<(String, Arc<[u8]>)> {
    let Some(config) = config(plan, digest) else { return Vec::new() };
    let prefix = Fill::Digest(digest).text(&names::worker_prefix(plan));
    let binary = plan.worker.as_ref().and_then(|worker| worker.binary.as_ref());
    let binary = binary.map(|file| (format!("{prefix}{WORKER_BINARY}"), Arc::clone(&file.bytes)));
    let config = (format!("{prefix}{WORKER_CONFIG}"), Arc::from(canonical_json::to_file_bytes(&config)));
    let scripts = added::to_worker_channel(plan)
        .into_iter()
        .map(|file| (format!("{prefix}{}", file.path), Arc::clone(&file.bytes)));
    std::iter::once(config).chain(scripts).chain(binary).collect()
}

/// Returns the config of a plan with engine `worker`, for a local run.
pub fn config(plan: &Plan, digest: &str) -> Option<Value> {
    serde_json::to_value(config::config(plan, Fill::Digest(digest))?).ok()
}

/// Returns the config and the digest of the binary, for the job's digest; empty for other engines.
pub(super) fn digest_inputs(plan: &Plan) -> Value {
    let Some(config) = config::config(plan, Fill::Mark) else { return Value::Object(serde_json::Map::new()) };
    let binary =
        plan.worker.as_ref().and_then(|worker| worker.binary.as_ref().map(|file| file.sha256().to_owned()));
    let mut inputs = serde_json::json!({ "config": config, "binary": binary });
    let scripts: Vec<String> =
        added::to_worker_channel(plan).iter().map(|file| file.sha256().to_owned()).collect();
    if let Some(members) = inputs.as_object_mut().filter(|_| !scripts.is_empty()) {
        members.insert("scripts".to_owned(), scripts.into());
    }
    inputs
}
