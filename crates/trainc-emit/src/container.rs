//! What containers start that do not use the training toolkit of their image, and paths inside of containers.

use super::fill::Fill;
use trainc_ir::payload::CODE_DIRECTORY;
use trainc_ir::{AddedFile, Payload, Plan, Starts};

/// Directory of the input channels in a container.
pub(super) const INPUT: &str = "/opt/ml/input/data";
/// The file name of the archive.
pub(super) const ARCHIVE: &str = "sourcedir.tar.gz";
/// The file name of the worker's binary in its channel.
pub const WORKER_BINARY: &str = "trainc-worker";
/// The file name of the worker's config in the same channel.
pub const WORKER_CONFIG: &str = "worker.json";
/// The file name of the key by which the hosts of a job recognise each other: next to the worker's config, or
/// to the archive of a job with an enforced budget. No plan contains it.
pub const KEY: &str = "rendezvous.key";

/// Returns entry point and arguments of the container; empty if those of the image are used.
///
/// `exec` makes what is started the first process, so that it receives SIGTERM; `install` restores the
/// execute bit, which S3 does not store.
pub(super) fn command(plan: &Plan, fill: Fill) -> (Vec<String>, Vec<String>) {
    let by_shell = |line: String| (vec!["/bin/bash".to_owned()], vec!["-c".to_owned(), line]);
    match &plan.payload.starts {
        Starts::Worker { channel, added } => {
            let start = if added.contains(&AddedFile::StartScript) {
                format!("python3 {INPUT}/{channel}/{}", AddedFile::StartScript.name())
            } else {
                worker_command(channel).join(" ")
            };
            by_shell(format!("install -m 755 {INPUT}/{channel}/{WORKER_BINARY} /tmp/ && exec {start}"))
        }
        Starts::LaunchScript { .. } => {
            let channel = plan.payload.code_channel().unwrap_or_default();
            let script = AddedFile::LaunchScript.name();
            by_shell(format!(
                "mkdir -p {CODE_DIRECTORY} && tar -xzf {INPUT}/{channel}/{ARCHIVE} -C {CODE_DIRECTORY} \
                    && exec python3 {CODE_DIRECTORY}/{script}"
            ))
        }
        Starts::Toolkit | Starts::Container => {
            let program = plan.job.program.as_ref();
            let words = program.map(|it| (fill.words(&it.entrypoint), fill.words(&it.arguments)));
            words.unwrap_or_default()
        }
    }
}

/// Returns the command that launches the ranks of engine `worker` on a host.
pub(super) fn worker_command(channel: &str) -> Vec<String> {
    vec![format!("/tmp/{WORKER_BINARY}"), "launch".to_owned(), format!("{INPUT}/{channel}/{WORKER_CONFIG}")]
}

/// Returns the file of the key by which the hosts recognise each other; `None` if no channel provides it.
pub(super) fn key_file(payload: &Payload) -> Option<String> {
    payload.key_channel().map(|channel| format!("{INPUT}/{channel}/{KEY}"))
}
