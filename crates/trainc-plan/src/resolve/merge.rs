//! Merges two sets of nodes: nodes of the same kind and name are merged, and the later value wins. `#null` is
//! a value like any other here, so that a later layer may replace it; `removal.rs` takes it away in the end.

use super::other_engine;
use std::collections::BTreeMap;
use trainc_diag::source::{Span, Spanned};
use trainc_ir::Override;
use trainc_syntax::ast::{Duplicate, Node, Value};
use trainc_syntax::spec::Repeat;

/// Merges later nodes into earlier ones and records the changes.
pub(crate) fn merge_nodes(base: &mut Vec<Node>, later: Vec<Node>, path: &str, overrides: &mut Vec<Override>) {
    let (of_all, later): (Vec<Node>, Vec<Node>) = later.into_iter().partition(Node::removes_all);
    for node in of_all {
        base.retain(|earlier| {
            let goes = earlier.name.value == node.name.value;
            if goes {
                record_removal(earlier, &node, &append_to_path(path, earlier), overrides);
            }
            !goes
        });
        base.push(node);
    }
    let mut index: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (at, node) in base.iter().enumerate() {
        index.entry(node_identity(node)).or_insert(at);
    }
    for node in later {
        let here = append_to_path(path, &node);
        let place = node_identity(&node);
        if let Some(earlier) = index.get(&place).and_then(|at| base.get_mut(*at)) {
            merge_or_replace(earlier, node, &here, overrides);
        } else {
            index.insert(place, base.len());
            base.push(node);
        }
    }
}

/// Merges a later node into an earlier one, unless one of the two takes the node away.
fn merge_or_replace(earlier: &mut Node, later: Node, path: &str, overrides: &mut Vec<Override>) {
    if earlier.removal().is_some() || later.removal().is_some() {
        record_removal(earlier, &later, path, overrides);
        *earlier = later;
    } else {
        merge_node(earlier, later, path, overrides);
    }
}

/// Records that a later node takes an earlier one away.
fn record_removal(earlier: &Node, later: &Node, path: &str, overrides: &mut Vec<Override>) {
    if let Some(by) = later.removal().filter(|_| earlier.removal().is_none()) {
        overrides.push(changed(path.to_owned(), value_or_word(earlier), by, true));
    }
}

/// Returns the span of a node's value, if it has that alone; otherwise that of its word.
pub(super) fn value_or_word(node: &Node) -> Span {
    let keyed = usize::from(node.spec.is_some_and(|spec| spec.repeat == Repeat::ByFirst));
    let is_alone = node.props.is_empty() && node.children.is_empty();
    node.args.get(keyed).filter(|_| is_alone).map_or(node.name.span, |value| value.span)
}

/// Makes the record of a value that a later layer changed or took away.
fn changed(path: String, from: Span, by: Span, is_removed: bool) -> Override {
    Override { path, from, by, replaced_by: None, is_removed }
}

/// Returns the key by which two nodes count as the same: the node name, and the key of a repeatable node.
/// Nodes with free properties (`environment`) count as one, regardless of their number.
fn node_identity(node: &Node) -> (String, String) {
    let key = match node.spec.map_or(Repeat::Once, |spec| spec.repeat) {
        Repeat::Many | Repeat::Once => String::new(),
        Repeat::ByFirst | Repeat::ByName => format!("{:?}", node.key()),
    };
    (node.name.value.clone(), key)
}

fn append_to_path(path: &str, node: &Node) -> String {
    let name = match node.key() {
        Some(key) => format!("{}.{key}", node.name.value),
        None => node.name.value.clone(),
    };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

/// Drops values of earlier layers that a later value excludes, such as `arn` if the later layer writes
/// `create`.
fn drop_excluded(earlier: &mut Node, later: &Node, path: &str, overrides: &mut Vec<Override>) {
    let alternatives = earlier.spec.map_or(&[][..], |spec| spec.alternatives);
    let chosen = |set: &[&str]| set.first().and_then(|leader| span_of(later, leader));
    let leader = |set: &&'static [&'static str]| Some((*set.first()?, chosen(set)?));
    let Some((chosen_name, by)) = alternatives.iter().find_map(leader) else { return };
    let kept: Vec<&str> =
        alternatives.iter().filter(|set| chosen(set).is_some()).flat_map(|set| set.iter().copied()).collect();
    let all = alternatives.iter().flat_map(|set| set.iter().copied());
    for name in all.filter(|name| !kept.contains(name)) {
        let Some(from) = span_of(earlier, name) else { continue };
        let replaced_by = Some(format!("{path}.{chosen_name}"));
        let path = format!("{path}.{name}");
        overrides.push(Override { path, from, by, replaced_by, is_removed: false });
        earlier.props.retain(|(key, _)| key.value != name);
        earlier.children.retain(|child| child.name.value != name);
        if let Some(at) = argument_index(earlier, name) {
            earlier.args.truncate(at);
        }
    }
}

/// Drops the properties that belong to the first argument of the earlier layers, if the later layer replaces
/// it.
fn drop_with_replaced_argument(earlier: &mut Node, later: &Node, path: &str, overrides: &mut Vec<Override>) {
    let names = earlier.spec.map_or(&[][..], |spec| spec.of_first);
    let (Some(old), Some(new)) = (earlier.args.first(), later.args.first()) else { return };
    if old.value == new.value {
        return;
    }
    let by = new.span;
    let replaced_by =
        earlier.spec.and_then(|spec| spec.args.first()).map(|first| format!("{path}.{}", first.name));
    earlier.props.retain(|(key, value)| {
        let goes = names.contains(&key.value.as_str());
        // A property that the later layer also writes is recorded when the properties are merged.
        if goes && !later.props.iter().any(|(name, _)| name.value == key.value) {
            let path = format!("{path}.{}", key.value);
            let (from, replaced_by, is_removed) = (value.span, replaced_by.clone(), new.value == Value::Null);
            overrides.push(Override { path, from, by, replaced_by, is_removed });
        }
        !goes || later.props.iter().any(|(name, _)| name.value == key.value)
    });
}

/// Returns the span of the property, child or argument with that name, unless it is `#null`.
fn span_of(node: &Node, name: &str) -> Option<Span> {
    let is_value = |value: &&Spanned<Value>| value.value != Value::Null;
    let prop = node.props.iter().find(|(key, _)| key.value == name).map(|(_, value)| value);
    let child = || node.children.iter().find(|child| child.name.value == name && child.removal().is_none());
    let arg = || argument_index(node, name).and_then(|at| node.args.get(at));
    let value = prop.filter(is_value).map(|value| value.span);
    value.or_else(|| child().map(|child| child.name.span)).or_else(|| Some(arg().filter(is_value)?.span))
}

/// Returns the position of the argument with that name.
fn argument_index(node: &Node, name: &str) -> Option<usize> {
    node.spec?.args.iter().position(|arg| arg.name == name)
}

/// Returns the duplicates of both layers, each merged as if it were the node that counts: over the earlier
/// layers and under the later ones.
fn merge_duplicates(earlier: &mut Node, later: &mut Node) -> Vec<Duplicate> {
    let (under, over) = (std::mem::take(&mut earlier.duplicates), std::mem::take(&mut later.duplicates));
    let mut ignored = Vec::new();
    // The duplicate keeps its own span, at which its problems are reported.
    let mut merged = |mut under: Node, over: Node, place: (Spanned<String>, Span)| {
        merge_or_replace(&mut under, over, "", &mut ignored);
        (under.name, under.span) = place;
        Duplicate::Node(under)
    };
    let mut out: Vec<Duplicate> = Vec::new();
    for twin in under {
        match twin {
            Duplicate::Node(twin) => {
                let place = (twin.name.clone(), twin.span);
                out.push(merged(twin, later.clone(), place));
            }
            Duplicate::Property(name, value) => {
                if !later.props.iter().any(|(key, _)| key.value == name.value) {
                    out.push(Duplicate::Property(name, value));
                }
            }
        }
    }
    for twin in over {
        out.push(match twin {
            Duplicate::Node(twin) => {
                let place = (twin.name.clone(), twin.span);
                merged(earlier.clone(), twin, place)
            }
            property @ Duplicate::Property(..) => property,
        });
    }
    out
}

fn merge_node(earlier: &mut Node, mut later: Node, path: &str, overrides: &mut Vec<Override>) {
    if !earlier.duplicates.is_empty() || !later.duplicates.is_empty() {
        for twin in merge_duplicates(earlier, &mut later) {
            earlier.add_duplicate(twin);
        }
    }
    drop_excluded(earlier, &later, path, overrides);
    drop_with_replaced_argument(earlier, &later, path, overrides);
    other_engine::drop_unsupported(earlier, &later, path, overrides);
    earlier.also.push(later.span);
    earlier.also.extend(later.also);
    let mut note = |path: String, old: &Spanned<Value>, new: &Spanned<Value>| {
        if old.value != new.value && old.value != Value::Null {
            overrides.push(changed(path, old.span, new.span, new.value == Value::Null));
        }
    };
    let replaced = if later.args.is_empty() { None } else { Some(later.args) };
    if let Some(args) = replaced {
        let keyed = later.spec.is_some_and(|spec| spec.repeat == Repeat::ByFirst);
        let skip = usize::from(keyed);
        for (at, (old, new)) in earlier.args.iter().zip(&args).enumerate() {
            if at >= skip {
                note(path.to_owned(), old, new);
            }
        }
        earlier.args = args;
    }
    for (key, value) in later.props {
        match earlier.props.iter_mut().find(|(name, _)| name.value == key.value) {
            Some((name, old)) => {
                note(format!("{path}.{}", key.value), old, &value);
                (*name, *old) = (key, value);
            }
            None => earlier.props.push((key, value)),
        }
    }
    if earlier.spec.is_some_and(|spec| spec.free_children) {
        // Members of `request` are replaced as a whole, by name.
        for child in later.children {
            match earlier.children.iter_mut().find(|old| old.name.value == child.name.value) {
                Some(old) => {
                    let path = format!("{path}.{}", child.name.value);
                    overrides.push(changed(path, old.name.span, child.name.span, false));
                    *old = child;
                }
                None => earlier.children.push(child),
            }
        }
    } else {
        merge_nodes(&mut earlier.children, later.children, path, overrides);
    }
}
