//! The probable meaning of an unknown node: names from other tools, the parents that take it, and insertion
//! below them. The node was reported; it is read as the probable one, so that nothing else is reported as
//! missing.

use super::ast::{Duplicate, Node};
use super::nodes;
pub use super::other_names::plain_name;
use super::other_names::{self, Kind, Row};
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
    let row = other_names::find(&[Kind::Node, Kind::PropertyNode], name)?;
    Some((row.ours?, row.text))
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

/// Returns the entry of a name of the API or of the SDK, in any spelling.
pub fn other_name(name: &str) -> Option<OtherName> {
    let Row { name, ours, text, .. } = *other_names::find(&[Kind::Member], name)?;
    Some(OtherName { name, node: ours, write: text })
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
    other_names::find(&[Kind::PropertyNode], name).is_some()
}

/// Returns trainc's name for a property of another tool.
pub fn property_alias(name: &str) -> Option<&'static str> {
    other_names::find(&[Kind::Property], name)?.ours
}

/// Returns the engine for another tool's name of one, and what to write after `engine="…"`; without an
/// engine, what to do.
pub fn engine_alias(name: &str) -> Option<(Option<&'static str>, &'static str)> {
    let row = other_names::find_exact(Kind::Engine, name)?;
    Some((row.ours, row.text))
}

/// Returns the word for a value as another tool spells it.
pub(super) fn value_alias(word: &str) -> Option<&'static str> {
    other_names::find_exact(Kind::Value, word)?.ours
}

/// Returns the note on a setting of CreateFileSystem that the language does not support: the reason and the
/// alternative.
pub(super) fn unsupported_setting(name: &str) -> Option<&'static str> {
    Some(other_names::find(&[Kind::Setting], name)?.text)
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
