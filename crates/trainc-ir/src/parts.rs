//! Where the parts of a checkpoint of the Rust worker lie.

use super::job::Channel;
use super::{Engine, Plan};

/// Where the service puts and finds checkpoints if `local` is not written (CheckpointConfig, LocalPath).
pub const LOCAL: &str = "/opt/ml/checkpoints";

/// A shard group whose hosts share no directory of checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// Ranks of a shard group.
    pub ranks: u64,
    /// Ranks of a host.
    pub here: u64,
}

impl Apart {
    /// Hosts of a shard group.
    pub fn hosts(self) -> u64 {
        self.ranks.div_ceil(self.here)
    }
}

/// The channel of a file system on which the checkpoints lie and which the job writes to, if they lie on one.
pub fn file_system_of(plan: &Plan) -> Option<&Channel> {
    let local = plan.job.checkpoint.as_ref()?.local.value()?;
    plan.job.channels.iter().find(|channel| {
        let Some(name) = channel.name.value() else { return false };
        let mount = format!("/opt/ml/input/data/{name}");
        !channel.from.is_absent()
            && channel.mode.value().map(String::as_str) == Some("rw")
            && (*local == mount || local.starts_with(&format!("{mount}/")))
    })
}

/// Whether a shard group of engine `worker` spans hosts that would each hold a part of its checkpoints. The worker asks
/// for one directory whatever is saved, so a job without `checkpoint` counts too.
pub fn apart(plan: &Plan) -> Option<Apart> {
    let mesh = plan.mesh.as_ref().filter(|mesh| mesh.engine == Engine::Worker && plan.deployable)?;
    plan.job.parallel.as_ref()?;
    let apart = Apart { ranks: mesh.shard_degree.value, here: mesh.processes_per_node };
    let spans = apart.here > 0 && apart.ranks > apart.here;
    let unknown = plan.job.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.local.is_bad());
    (spans && !unknown && file_system_of(plan).is_none()).then_some(apart)
}
