//! Checkpoints of engine `worker`, whose ranks each write a part.

use super::Plan;
use super::job::Channel;

/// The checkpoint directory if `local` is not set (CheckpointConfig, LocalPath).
pub const DEFAULT_CHECKPOINT_PATH: &str = "/opt/ml/checkpoints";

/// A shard group whose hosts have no shared checkpoint directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitCheckpoint {
    /// Ranks of a shard group.
    pub ranks: u64,
    /// Ranks of a host.
    pub ranks_per_host: u64,
}

impl SplitCheckpoint {
    /// Returns the number of hosts of a shard group.
    pub fn hosts(self) -> u64 {
        self.ranks.div_ceil(self.ranks_per_host)
    }
}

/// Returns the writable file system channel that contains the checkpoint directory, if there is one.
pub fn checkpoint_channel(plan: &Plan) -> Option<&Channel> {
    let local = plan.job.checkpoint.as_ref()?.local.value()?;
    plan.job.channels.iter().find(|channel| {
        let Some(name) = channel.name.value() else { return false };
        let mount = format!("/opt/ml/input/data/{name}");
        is_writable_file_system(channel) && (*local == mount || local.starts_with(&format!("{mount}/")))
    })
}

/// Returns whether a channel is a file system that the job may write to.
pub fn is_writable_file_system(channel: &Channel) -> bool {
    !channel.from.is_absent() && channel.mode.value().map(String::as_str) == Some("rw")
}

/// Returns the shard group of engine `worker` if it spans hosts that would each hold only a part of its
/// checkpoints. The worker requires one directory even if nothing is saved, so a job without `checkpoint`
/// counts too.
pub fn split_checkpoint(plan: &Plan) -> Option<SplitCheckpoint> {
    let mesh = plan.mesh.as_ref().filter(|_| plan.is_worker())?;
    plan.job.parallel.as_ref()?;
    let split = SplitCheckpoint { ranks: mesh.shard_degree.value, ranks_per_host: mesh.processes_per_node };
    let spans = split.ranks_per_host > 0 && split.ranks > split.ranks_per_host;
    let unknown = plan.job.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.local.is_bad());
    (spans && !unknown && checkpoint_channel(plan).is_none()).then_some(split)
}
