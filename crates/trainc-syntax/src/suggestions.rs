//! What a node was probably meant to be: names of other tools, the parents that a name belongs under, and laying
//! such a node where it belongs. It was reported; read on as meant, nothing is said to be missing.

use super::ast::{Duplicate, Node};
use super::nodes;
use super::spec::{NodeSpec, Repeat};

/// Adds a node unless one of its kind and name is there.
pub(super) fn add_missing(list: &mut Vec<Node>, node: Node) {
    if !list.iter().any(|other| is_same(other, &node)) {
        list.push(node);
    }
}

/// Whether two nodes are one to their parent, which stands twice then.
fn is_same(one: &Node, other: &Node) -> bool {
    one.name.value == other.name.value
        && match one.spec.map_or(Repeat::Once, |spec| spec.repeat) {
            Repeat::Many => false,
            Repeat::Once => true,
            Repeat::ByFirst | Repeat::ByName => one.key() == other.key(),
        }
}

/// Adds the children of a second node to those of the first, as the user will have to.
pub(super) fn put_into_one(list: &mut Vec<Node>, second: Vec<Node>) {
    for node in second {
        match list.iter_mut().find(|other| is_same(other, &node)) {
            Some(first) => first.add_duplicate(Duplicate::Node(node)),
            None => list.push(node),
        }
    }
}

/// Puts a node that stood elsewhere under the parent it belongs to, if there is one.
pub(super) fn put_under(list: &mut [Node], parent: &str, node: &mut Option<Node>) {
    for candidate in list {
        if candidate.name.value == parent {
            if let Some(node) = node.take() {
                add_missing(&mut candidate.children, node);
            }
            return;
        }
        put_under(&mut candidate.children, parent, node);
    }
}

/// Our name for a node that other tools call differently, with a word on it.
pub(super) fn other_spelling(name: &str) -> Option<(&'static str, &'static str)> {
    nodes::OTHER_NODES.iter().find(|(other, ..)| *other == name).map(|(_, ours, why)| (*ours, *why))
}

/// Whether what other tools call so is a property of ours on another node.
pub(super) fn is_property(name: &str) -> bool {
    nodes::PROPERTIES_AS_NODES.contains(&name)
}

/// Our name for a property that other tools call differently.
pub fn other_property(name: &str) -> Option<&'static str> {
    nodes::OTHER_PROPERTIES.iter().find(|(other, _)| *other == name).map(|(_, ours)| *ours)
}

/// What of CreateFileSystem the language leaves out, by the names that people try: why, and what to do instead.
pub(super) fn left_out(name: &str) -> Option<&'static str> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    Some(match plain.as_str() {
        "intelligenttiering"
        | "throughputcapacity"
        | "readcache"
        | "datareadcache"
        | "datareadcacheconfiguration" => {
            "trainc makes no Intelligent-Tiering file systems: they have no S3 links; make it apart, and name it with `id=` and `mount=`"
        }
        "backup"
        | "backups"
        | "backupdays"
        | "backupretention"
        | "automaticbackupretentiondays"
        | "dailyautomaticbackupstarttime"
        | "copytagstobackups"
        | "backupid" => {
            "trainc makes file systems without backups, which S3 links exclude: the data are in S3; make one with backups apart, and name it with `id=` and `mount=`"
        }
        "rootsquash" | "rootsquashconfiguration" | "log" | "logconfiguration" => {
            "trainc leaves this setting at the service's default; it can be changed later (UpdateFileSystem)"
        }
        "importpath" | "exportpath" | "importedfilechunksize" | "autoimportpolicy" => {
            "the S3 link of CreateFileSystem itself is the old form; write the children `import \"s3://…\"` and `export \"s3://…\"`"
        }
        _ => return None,
    })
}

/// Where in the language a node of that name stands: the names of its parents.
pub(super) fn homes_of(name: &str) -> Vec<String> {
    parents_of(name).iter().map(|(parent, _)| (*parent).to_owned()).collect()
}

/// The parents of a node of that name, each with the node's table there.
pub(super) fn parents_of(name: &str) -> Vec<(&'static str, &'static NodeSpec)> {
    fn walk(spec: &'static NodeSpec, name: &str, out: &mut Vec<(&'static str, &'static NodeSpec)>) {
        if let Some(child) = spec.child(name) {
            out.push((spec.name, child));
        }
        for child in spec.children {
            walk(child, name, out);
        }
    }
    let mut out = Vec::new();
    walk(&nodes::JOB, name, &mut out);
    out
}
