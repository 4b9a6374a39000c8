//! Channels and the file systems behind them.

use super::kdl::{Node, bound, string};
use super::unsaid::Unsaid;
use serde_json::Value;
use trainc_emit::UnmappedMembers;

/// A file system that channels name, by what tells it from others.
#[derive(Clone, Debug, PartialEq)]
struct System {
    id: String,
    kind: &'static str,
    mount: Option<String>,
}

/// `storage` and `channel` nodes, and where the code lies if a channel brings it. `mode` is how S3 data come where a
/// channel does not say it.
pub(super) fn channels(
    rest: &mut UnmappedMembers,
    isolated: bool,
    mode: Option<&str>,
    described: bool,
    unsaid: &mut Unsaid,
) -> (Vec<Node>, Vec<Node>, Option<String>) {
    let mut systems: Vec<System> = Vec::new();
    let mut nodes = Vec::new();
    let mut code = None;
    for item in rest.list("InputDataConfig") {
        let Value::Object(members) = item else { continue };
        let mut channel = UnmappedMembers(members);
        let Some(name) = channel.text("ChannelName") else { continue };
        let mut source = channel.object("DataSource").unwrap_or_default();
        if isolated && name == "code" {
            // The container may not fetch the code, so it comes as a channel: trainc makes it again.
            code = source.object("S3DataSource").and_then(|mut s3| s3.text("S3Uri"));
            // Either the archive itself, or the prefix where it lies alone.
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
        if let Some(mut system) = source.object("FileSystemDataSource") {
            node = file_system(node, &mut system, &mut systems, unsaid);
            leave(&name, &system, unsaid);
        } else if let Some(mut s3) = source.object("S3DataSource") {
            if !described && !s3.0.contains_key("S3DataDistributionType") {
                unsaid.lose(&format!(
                    "channel `{name}`: no `S3DataDistributionType`; FullyReplicated is sent, which the service takes for none"
                ));
            }
            node = s3_source(node, &mut s3);
            if let Some(mode) = mode {
                channel.0.entry("InputMode").or_insert_with(|| Value::from(mode));
            }
            leave(&name, &s3, unsaid);
        } else if let Some(arn) = source.object("DatasetSource").and_then(|mut set| set.text("DatasetArn")) {
            node = node.maybe("dataset", Some(&arn));
        } else {
            unsaid.lose(&format!("channel `{name}`: its data source has no node"));
            continue;
        }
        node = common(node, &mut channel, described);
        leave(&name, &channel, unsaid);
        leave(&name, &source, unsaid);
        nodes.push(node);
    }
    let storage = systems.iter().enumerate().map(|(index, system)| {
        let node = Node::text("storage", system.kind)
            .prop("name", &string(&system_name(index)))
            .prop("id", &string(&system.id));
        node.maybe("mount", system.mount.as_deref())
    });
    (storage.collect(), nodes, code)
}

fn leave(channel: &str, rest: &UnmappedMembers, unsaid: &mut Unsaid) {
    for member in rest.0.keys() {
        unsaid.lose(&format!("channel `{channel}`: `{member}` has no node"));
    }
}

fn system_name(index: usize) -> String {
    if index == 0 { "data".to_owned() } else { format!("data-{}", index + 1) }
}

fn file_system(
    node: Node,
    source: &mut UnmappedMembers,
    systems: &mut Vec<System>,
    unsaid: &mut Unsaid,
) -> Node {
    let id = source.text("FileSystemId").unwrap_or_default();
    let directory = source.text("DirectoryPath").unwrap_or_default();
    let kind = if source.text("FileSystemType").as_deref() == Some("EFS") { "efs" } else { "lustre" };
    if directory.len() > 1 && directory.ends_with('/') {
        unsaid.lose(&format!("the slash at the end of `{directory}`"));
    }
    let inside = directory.trim_matches('/');
    // A Lustre path begins with the mount name; an EFS path at the root of the file system.
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
    let mut node = node.prop("from", &string(&system_name(index)));
    if !path.is_empty() {
        node = node.prop("path", &string(&bound(&format!("/{path}"))));
    }
    node.prop("mode", &string(source.text("FileSystemAccessMode").as_deref().unwrap_or("ro")))
}

fn s3_source(node: Node, source: &mut UnmappedMembers) -> Node {
    let uri = source.text("S3Uri").unwrap_or_default();
    let property = match source.text("S3DataType").as_deref() {
        Some("ManifestFile") => "manifest",
        Some("AugmentedManifestFile") => "augmented-manifest",
        Some("Converse") => "converse",
        _ => "s3",
    };
    let mut node = node.prop(property, &string(&bound(&uri)));
    if source.text("S3DataDistributionType").as_deref() == Some("ShardedByS3Key") {
        node = node.prop("shard", "\"by-key\"");
    }
    for (member, property) in [("AttributeNames", "attributes"), ("InstanceGroupNames", "groups")] {
        let names: Vec<String> =
            source.list(member).iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
        if !names.is_empty() {
            node = node.prop(property, &string(&names.join(",")));
        }
    }
    let hub = source.object("HubAccessConfig").and_then(|mut hub| hub.text("HubContentArn"));
    node = node.maybe("hub", hub.as_deref());
    if let Some(on) = source.object("ModelAccessConfig").and_then(|mut access| access.switch("AcceptEula")) {
        node = node.prop("accept-eula", if on { "#true" } else { "#false" });
    }
    node
}

fn common(node: Node, channel: &mut UnmappedMembers, described: bool) -> Node {
    let mut node = node;
    for (member, property, words) in [
        ("InputMode", "input", [("File", "file"), ("FastFile", "fast-file"), ("Pipe", "pipe")].as_slice()),
        ("CompressionType", "compression", &[("Gzip", "gzip"), ("None", "none")]),
        ("RecordWrapperType", "record-wrapper", &[("RecordIO", "recordio"), ("None", "none")]),
    ] {
        if let Some((theirs, ours)) =
            words.iter().find(|(theirs, _)| channel.0.get(member).and_then(Value::as_str) == Some(*theirs))
        {
            channel.take_if(member, theirs);
            // What an answer says where nothing was asked.
            if *ours != "none" || !described {
                node = node.prop(property, &string(ours));
            }
        }
    }
    node = node.maybe("content-type", channel.text("ContentType").as_deref());
    if let Some(mut shuffle) = channel.object("ShuffleConfig")
        && let Some(seed) = shuffle.number("Seed")
    {
        node = node.prop("shuffle-seed", &seed.to_string());
    }
    node
}
