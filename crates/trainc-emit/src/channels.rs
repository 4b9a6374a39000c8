//! The channels of a request: those of the job, then those for the code and the worker.

use super::fill::Fill;
use super::request::{
    Channel, DataSource, DatasetSource, FileSystemDataSource, HubAccessConfig, ModelAccessConfig,
    S3DataSource,
};
use super::{archive, names};
use trainc_ir::{Channel as IrChannel, Plan, Storage};

/// Returns all channels, in the order of the manifest.
pub(super) fn all_channels(plan: &Plan, fill: Fill) -> Vec<Channel> {
    let mut out: Vec<Channel> =
        plan.job.channels.iter().filter_map(|channel| convert_channel(plan, channel, fill)).collect();
    let payload = &plan.payload;
    if let Some(name) = payload.code_channel() {
        let mut channel = s3_channel(name, &archive::channel_uri(plan, fill));
        if payload.is_launched_by_script()
            && let DataSource::S3DataSource(source) = &mut channel.data_source
        {
            source.instance_group_names = all_groups(plan);
        }
        out.push(channel);
    }
    let worker = payload.worker_channel();
    out.extend(worker.map(|name| s3_channel(name, &fill.text(&names::worker_prefix(plan)))));
    out
}

/// Returns all instance groups if a channel of the job names some: either every channel names its groups or
/// none does (CreateTrainingJob, `InstanceGroupNames`).
fn all_groups(plan: &Plan) -> Vec<String> {
    if plan.job.channels.iter().all(|channel| channel.groups.is_absent()) {
        return Vec::new();
    }
    let groups = plan.job.cluster.iter().flat_map(|cluster| &cluster.groups);
    groups.filter_map(|group| group.name.value().cloned()).collect()
}

fn s3_channel(name: &str, uri: &str) -> Channel {
    Channel {
        channel_name: name.to_owned(),
        data_source: DataSource::S3DataSource(S3DataSource {
            data_type: "S3Prefix".to_owned(),
            uri: uri.to_owned(),
            distribution: Some("FullyReplicated".to_owned()),
            ..S3DataSource::default()
        }),
    }
}

fn convert_channel(plan: &Plan, channel: &IrChannel, fill: Fill) -> Option<Channel> {
    let data_source = if let Some(arn) = channel.dataset.text() {
        DataSource::DatasetSource(DatasetSource { dataset_arn: fill.text(arn) })
    } else if let Some(storage) = channel.from.value() {
        let storage = plan.job.storage.iter().find(|s| s.name.value() == Some(storage))?;
        DataSource::FileSystemDataSource(file_system(plan, storage, channel, fill))
    } else {
        let (data_type, uri) = if let Some(uri) = channel.s3.text() {
            ("S3Prefix", uri)
        } else if let Some(uri) = channel.manifest.text() {
            ("ManifestFile", uri)
        } else if let Some(uri) = channel.converse.text() {
            ("Converse", uri)
        } else {
            ("AugmentedManifestFile", channel.augmented_manifest.text()?)
        };
        DataSource::S3DataSource(S3DataSource {
            data_type: data_type.to_owned(),
            uri: fill.text(uri),
            distribution: Some(
                if channel.shard.value().is_some_and(|shard| shard == "by-key") {
                    "ShardedByS3Key"
                } else {
                    "FullyReplicated"
                }
                .to_owned(),
            ),
            attribute_names: channel.attributes.value().cloned().unwrap_or_default(),
            instance_group_names: channel.groups.value().cloned().unwrap_or_default(),
            model_access_config: channel
                .accept_eula
                .get()
                .map(|accept_eula| ModelAccessConfig { accept_eula }),
            hub_access_config: fill
                .field(&channel.hub)
                .map(|hub_content_arn| HubAccessConfig { hub_content_arn }),
        })
    };
    Some(Channel { channel_name: fill.field(&channel.name)?, data_source })
}

fn file_system(plan: &Plan, storage: &Storage, channel: &IrChannel, fill: Fill) -> FileSystemDataSource {
    let name = storage.name.value().map_or("", String::as_str);
    let efs = storage.kind.value().map(String::as_str) == Some("efs");
    let path = fill.field(&channel.path);
    let path = path.as_deref().map(|path| path.trim_matches('/')).filter(|path| !path.is_empty());
    let mount = match (fill.field(&storage.mount), efs) {
        (Some(mount), _) => format!("/{}", mount.trim_matches('/')),
        // An EFS path starts at the root of the file system.
        (None, true) => String::new(),
        (None, false) => format!("/{}", names::storage_mount(plan, name)),
    };
    let directory_path = match path {
        Some(path) => format!("{mount}/{path}"),
        None if mount.is_empty() => "/".to_owned(),
        None => mount,
    };
    FileSystemDataSource {
        file_system_id: fill.field(&storage.id).unwrap_or_else(|| names::storage_id(plan, name)),
        file_system_access_mode: fill.field(&channel.mode).unwrap_or_default(),
        file_system_type: if efs { "EFS" } else { "FSxLustre" }.to_owned(),
        directory_path,
    }
}
