//! The disk of an instance, and the data that SageMaker copies to it before the program starts.

use trainc_ir::units::GIB;
use trainc_ir::{Channel, Cluster, Plan};

/// The disk that contains `/opt/ml` and `/tmp`.
pub(crate) struct Disk {
    pub(crate) bytes: f64,
    pub(crate) name: &'static str,
    /// Whether `cluster volume` sets its size.
    pub(crate) is_volume: bool,
}

/// Returns the disk of each instance, if its size is known.
pub(crate) fn disk(plan: &Plan, cluster: &Cluster) -> Option<Disk> {
    let instance = plan.instance.as_ref()?;
    if instance.ebs_volume_ignored {
        let bytes = instance.nvme_total_gb? as f64 * 1e9;
        return Some(Disk { bytes, name: "its NVMe", is_volume: false });
    }
    let bytes = cluster.volume_bytes.get()?.div_ceil(GIB) * GIB;
    Some(Disk { bytes: bytes as f64, name: "its volume", is_volume: true })
}

/// Words in the name of a channel that has a copy of the model, not data.
pub(crate) const COPIES: &[&str] = &["model", "weights", "checkpoint", "tokenizer"];

/// The data that SageMaker copies to each instance.
pub(crate) struct Copied<'a> {
    /// The channels with them.
    pub(crate) channels: Vec<&'a Channel>,
    /// The bytes of all of them.
    pub(crate) total_bytes: f64,
    /// The least bytes of one instance.
    pub(crate) bytes: f64,
}

/// Returns the channels with data, not with a copy of the model.
fn data_channels(plan: &Plan) -> impl Iterator<Item = &Channel> {
    let is_copy = |channel: &&Channel| {
        channel.name.value().is_some_and(|name| COPIES.iter().any(|word| name.contains(word)))
    };
    plan.job.channels.iter().filter(move |channel| !is_copy(channel))
}

/// Returns whether SageMaker copies what is below a channel's prefix to the instances.
fn is_file(plan: &Plan, channel: &Channel) -> bool {
    channel.s3.val().is_some() && plan.job.input_mode(channel) == "file"
}

/// Returns whether data may be copied to the instances: those of some channel are.
pub(crate) fn may_copy_data(plan: &Plan) -> bool {
    data_channels(plan).any(|channel| is_file(plan, channel))
}

/// Returns the data of `dataset size=` if they are copied: all channels with data are prefixes in file mode.
/// Which of several kinds of channels has them is not known.
pub(crate) fn copied_data(plan: &Plan) -> Option<Copied<'_>> {
    let total_bytes = plan.job.train.dataset.as_ref()?.size_bytes.get()? as f64;
    let channels: Vec<&Channel> = data_channels(plan).collect();
    if channels.is_empty() || !channels.iter().all(|channel| is_file(plan, channel)) {
        return None;
    }
    let is_divided = channels.iter().any(|channel| channel.shard.value().is_some_and(|how| how == "by-key"));
    let nodes = plan.job.cluster.as_ref().and_then(|cluster| cluster.nodes.get()).unwrap_or(1).max(1);
    let bytes = if is_divided { total_bytes / nodes as f64 } else { total_bytes };
    Some(Copied { channels, total_bytes, bytes })
}
