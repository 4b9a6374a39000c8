//! Channels and their file systems.

use super::kdl::{Node, escape_placeholders, string};
use super::origin::Origin;
use super::unsupported::Unsupported;
use serde_json::Value;
use trainc_emit::UnmappedMembers;

/// The identity of a file system that channels use.
#[derive(Clone, Debug, PartialEq)]
struct System {
    id: String,
    kind: &'static str,
    mount: Option<String>,
}

/// Returns the `storage` and `channel` nodes, and the location of the code if a channel provides it.
pub(super) fn channels(
    unmapped: &mut UnmappedMembers,
    isolated: bool,
    described: bool,
    origin: &Origin,
    unsupported: &mut Unsupported,
) -> (Vec<Node>, Vec<Node>, Option<String>) {
    let mut systems: Vec<System> = Vec::new();
    let mut nodes = Vec::new();
    let mut code = None;
    for item in unmapped.take_list("InputDataConfig") {
        let Value::Object(members) = item else { continue };
        let mut channel = UnmappedMembers(members);
        let Some(name) = channel.take_text("ChannelName") else { continue };
        let mut source = channel.take_object("DataSource").unwrap_or_default();
        if isolated && name == "code" {
            // The isolated container gets the code through a channel, which trainc generates again.
            code = source.take_object("S3DataSource").and_then(|mut s3| s3.take_text("S3Uri"));
            // Either the archive itself, or a prefix that contains only the archive.
            code = code.map(|uri| {
                if uri.ends_with(".tar.gz") {
                    uri
                } else {
                    format!("{}/sourcedir.tar.gz", uri.trim_end_matches('/'))
                }
            });
            continue;
        }
        let mut node = Node::text("channel", &name);
        if let Some(mut system) = source.take_object("FileSystemDataSource") {
            node = file_system(node, &mut system, &mut systems, unsupported);
            list_unmapped(&name, &system, unsupported);
        } else if let Some(mut s3) = source.take_object("S3DataSource") {
            if !described && !s3.0.contains_key("S3DataDistributionType") {
                unsupported.add_difference(&format!(
                    "channel `{name}`: `S3DataDistributionType` is not set; the manifest's \
                        request sets the service's default, FullyReplicated"
                ));
            }
            let uri = s3.0.get("S3Uri").and_then(Value::as_str).unwrap_or_default();
            if let Some(files) = origin.missing_files(uri) {
                unsupported.add_caveat(&format!("channel `{name}`: not uploaded to `{uri}`: {files}"));
                node = node.with_comment(&format!("Not uploaded, as the script would have done: {files}."));
            }
            node = s3_source(node, &mut s3);
            list_unmapped(&name, &s3, unsupported);
        } else if let Some(arn) =
            source.take_object("DatasetSource").and_then(|mut set| set.take_text("DatasetArn"))
        {
            node = node.prop_if_some("dataset", Some(&arn));
        } else {
            unsupported.add_difference(&format!("channel `{name}`: unsupported data source"));
            continue;
        }
        node = add_channel_properties(node, &mut channel, described);
        list_unmapped(&name, &channel, unsupported);
        list_unmapped(&name, &source, unsupported);
        nodes.push(node);
    }
    let storage = systems.iter().enumerate().map(|(index, system)| {
        let node = Node::text("storage", system.kind)
            .prop("name", &string(&file_system_name(index)))
            .prop("id", &string(&system.id));
        node.prop_if_some("mount", system.mount.as_deref())
    });
    (storage.collect(), nodes, code)
}

fn list_unmapped(channel: &str, unmapped: &UnmappedMembers, unsupported: &mut Unsupported) {
    for member in unmapped.0.keys() {
        unsupported.add_difference(&format!("channel `{channel}`: `{member}` is not supported"));
    }
}

fn file_system_name(index: usize) -> String {
    if index == 0 { "data".to_owned() } else { format!("data-{}", index + 1) }
}

fn file_system(
    node: Node,
    source: &mut UnmappedMembers,
    systems: &mut Vec<System>,
    unsupported: &mut Unsupported,
) -> Node {
    let id = source.take_text("FileSystemId").unwrap_or_default();
    let directory = source.take_text("DirectoryPath").unwrap_or_default();
    let kind = if source.take_text("FileSystemType").as_deref() == Some("EFS") { "efs" } else { "lustre" };
    if directory.len() > 1 && directory.ends_with('/') {
        unsupported.add_difference(&format!("the trailing slash of `{directory}`"));
    }
    let inside = directory.trim_matches('/');
    // A Lustre path starts with the mount name; an EFS path starts at the root of the file system.
    let (mount, path) = if kind == "efs" {
        (None, inside)
    } else {
        let (mount, path) = inside.split_once('/').unwrap_or((inside, ""));
        (Some(mount.to_owned()), path)
    };
    let system = System { id, kind, mount };
    let index = systems.iter().position(|known| *known == system).unwrap_or_else(|| {
        systems.push(system);
        systems.len() - 1
    });
    let mut node = node.prop("from", &string(&file_system_name(index)));
    if !path.is_empty() {
        node = node.prop("path", &string(&escape_placeholders(&format!("/{path}"))));
    }
    node.prop("mode", &string(source.take_text("FileSystemAccessMode").as_deref().unwrap_or("ro")))
}

fn s3_source(node: Node, source: &mut UnmappedMembers) -> Node {
    let uri = source.take_text("S3Uri").unwrap_or_default();
    let property = match source.take_text("S3DataType").as_deref() {
        Some("ManifestFile") => "manifest",
        Some("AugmentedManifestFile") => "augmented-manifest",
        Some("Converse") => "converse",
        _ => "s3",
    };
    let mut node = node.prop(property, &string(&escape_placeholders(&uri)));
    if source.take_text("S3DataDistributionType").as_deref() == Some("ShardedByS3Key") {
        node = node.prop("shard", "\"by-key\"");
    }
    for (member, property) in [("AttributeNames", "attributes"), ("InstanceGroupNames", "groups")] {
        let names: Vec<String> =
            source.take_list(member).iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
        if !names.is_empty() {
            node = node.prop(property, &string(&names.join(",")));
        }
    }
    let object = "InputDataConfig[].DataSource.S3DataSource";
    node.value(source, object, "HubAccessConfig.HubContentArn").value(
        source,
        object,
        "ModelAccessConfig.AcceptEula",
    )
}

fn add_channel_properties(node: Node, channel: &mut UnmappedMembers, described: bool) -> Node {
    let mut node = node;
    for member in ["InputMode", "CompressionType", "RecordWrapperType"] {
        // A response contains `None` even if it was not requested.
        if !(described && channel.take_if(member, "None")) {
            node = node.value(channel, CHANNEL, member);
        }
    }
    for member in ["ContentType", "ShuffleConfig.Seed"] {
        node = node.value(channel, CHANNEL, member);
    }
    node
}

/// The path of a channel in the declarations of the language.
const CHANNEL: &str = "InputDataConfig[]";
