//! The probable meaning of an unknown node: names from other tools, the parents that take it, and insertion below
//! them. The node was reported; it is read as the probable one, so that nothing else is reported as missing.

use super::aliases;
use super::ast::{Duplicate, Node};
use super::nodes;
use super::spec::{NodeSpec, Repeat};
use trainc_diag::{Help, Suggestion};

/// Adds a node unless one of its kind and name is there.
pub(super) fn add_missing(list: &mut Vec<Node>, node: Node) {
    if !list.iter().any(|other| is_same(other, &node)) {
        list.push(node);
    }
}

/// Returns whether two nodes of one parent are duplicates.
fn is_same(one: &Node, other: &Node) -> bool {
    one.name.value == other.name.value
        && match one.spec.map_or(Repeat::Once, |spec| spec.repeat) {
            Repeat::Many => false,
            Repeat::Once => true,
            Repeat::ByFirst | Repeat::ByName => one.key() == other.key(),
        }
}

/// Adds the children of a second node to those of the first, as the user will have to.
pub(super) fn merge_children(list: &mut Vec<Node>, second: Vec<Node>) {
    for node in second {
        match list.iter_mut().find(|other| is_same(other, &node)) {
            Some(first) => first.add_duplicate(Duplicate::Node(node)),
            None => list.push(node),
        }
    }
}

/// Inserts a misplaced node below the parent that it belongs to, if there is one.
pub(super) fn insert_below(list: &mut [Node], parent: &str, node: &mut Option<Node>) {
    for candidate in list {
        if candidate.name.value == parent {
            if let Some(node) = node.take() {
                add_missing(&mut candidate.children, node);
            }
            return;
        }
        insert_below(&mut candidate.children, parent, node);
    }
}

/// Returns trainc's name for a node of another tool, with an explanation.
pub(super) fn node_alias(name: &str) -> Option<(&'static str, &'static str)> {
    aliases::NODE_ALIASES
        .iter()
        .find(|(other, ..)| is_same_name(other, name))
        .map(|(_, name, why)| (*name, *why))
}

/// A name of the API or of the SageMaker Python SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherName {
    /// The name, as the API or the SDK spells it.
    pub name: &'static str,
    /// The node that says it, if one does.
    pub node: Option<&'static str>,
    /// What to write, or why nothing is to be written.
    pub write: &'static str,
}

/// Returns a name without case, hyphens and underscores: `instance_type` and `InstanceType` are one name.
pub fn plain_name(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// Returns whether two names differ at most in case, hyphens and underscores.
fn is_same_name(one: &str, other: &str) -> bool {
    plain_name(one) == plain_name(other)
}

/// Returns the entry of a name of the API or of the SDK, in any spelling.
pub fn other_name(name: &str) -> Option<OtherName> {
    let plain = plain_name(name);
    let rows = aliases::OTHER_NAMES.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|line| {
        let mut columns = line.split('\t');
        let (name, node, write) = (columns.next()?, columns.next()?, columns.next()?);
        Some(OtherName { name, node: Some(node).filter(|node| *node != "-"), write })
    })
    .find(|row| plain_name(row.name) == plain)
}

impl OtherName {
    /// Returns the help of a diagnostic. Its values are examples, so that its edit is one way of several.
    pub(super) fn help(&self) -> Help {
        let Some((code, rest)) = self.write.strip_prefix('`').and_then(|rest| rest.split_once('`')) else {
            return self.write.into();
        };
        let into =
            rest.split('`').nth(1).filter(|_| rest.starts_with(" in `") || rest.starts_with(" on the `"));
        Help::from(format!("write {}", self.write)).suggest_code(code, into).suggest(Suggestion::Other)
    }
}

/// Returns whether a node of another tool is a property in trainc.
pub(super) fn is_property_alias(name: &str) -> bool {
    aliases::PROPERTY_ALIAS_NODES.iter().any(|other| is_same_name(other, name))
}

/// Returns trainc's name for a property of another tool.
pub fn property_alias(name: &str) -> Option<&'static str> {
    aliases::PROPERTY_ALIASES.iter().find(|(other, _)| is_same_name(other, name)).map(|(_, name)| *name)
}

/// Returns the note on a setting of CreateFileSystem that the language does not support: the reason and the alternative.
pub(super) fn unsupported_setting(name: &str) -> Option<&'static str> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    Some(match plain.as_str() {
        "intelligenttiering"
        | "throughputcapacity"
        | "readcache"
        | "datareadcache"
        | "datareadcacheconfiguration" => {
            "trainc does not create Intelligent-Tiering file systems, because they do not support S3 links; create it separately and refer to it with `id=` and `mount=`"
        }
        "backup"
        | "backups"
        | "backupdays"
        | "backupretention"
        | "automaticbackupretentiondays"
        | "dailyautomaticbackupstarttime"
        | "copytagstobackups"
        | "backupid" => {
            "trainc creates file systems without backups, which S3 links exclude, because the data are in S3; for backups, create the file system separately and refer to it with `id=` and `mount=`"
        }
        "rootsquash" | "rootsquashconfiguration" | "log" | "logconfiguration" => {
            "trainc keeps the service's default for this setting; UpdateFileSystem can change it later"
        }
        "importpath" | "exportpath" | "importedfilechunksize" | "autoimportpolicy" => {
            "S3 links in CreateFileSystem itself are the older form; write the child nodes `import \"s3://…\"` and `export \"s3://…\"`"
        }
        _ => return None,
    })
}

/// Returns the names of the parents of a node of that name.
pub(super) fn parent_names(name: &str) -> Vec<String> {
    parents_with_spec(name).iter().map(|(parent, _)| (*parent).to_owned()).collect()
}

/// Returns the parents of a node of that name, each with the node's table there.
pub(super) fn parents_with_spec(name: &str) -> Vec<(&'static str, &'static NodeSpec)> {
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
