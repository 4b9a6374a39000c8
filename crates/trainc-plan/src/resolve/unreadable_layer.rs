//! Placeholders for nodes that an unreadable layer may contain, so that they are not reported as missing.
//!
//! Every required node, and every required value of the nodes present, that is not written becomes
//! [`Value::Bad`](trainc_syntax::ast::Value::Bad). Later stages report nothing about such values and process
//! the rest.

use trainc_diag::source::{Span, Spanned};
use trainc_syntax::ast::{Node, Value};
use trainc_syntax::nodes::JOB;
use trainc_syntax::spec::{NodeSpec, Ty};

/// Nodes whose absence a stage reports.
const NODES: [&str; 9] =
    ["region", "model", "cluster", "parallel", "train", "program", "image", "output", "role"];

/// Children of `train` whose absence a stage reports.
const TRAIN: [&str; 6] =
    ["precision", "sequence-length", "micro-batch", "accumulation", "global-batch", "optimizer"];

/// Properties of a node of which at least one is required.
const ONE_OF: [(&str, &[&str]); 4] = [
    ("program", &["source", "git", "s3"]),
    ("role", &["arn", "create"]),
    ("image", &["python", "uri"]),
    ("image", &["version", "transformers", "pytorch", "uri"]),
];

/// Adds a bad value for every required node and value that is missing.
pub(super) fn fill_missing_with_bad(job: &mut Node) {
    let at = job.name.span;
    for child in &mut job.children {
        add_missing_values(child, at);
    }
    for name in NODES {
        add_missing_child(job, &JOB, name, at);
    }
    for (name, either) in ONE_OF {
        if let Some(node) = child_mut(job, name)
            && !node.props.iter().any(|(name, _)| either.contains(&name.value.as_str()))
            && let Some(first) = either.first()
        {
            node.props.push((Spanned::new((*first).to_owned(), at), Spanned::new(Value::Bad, at)));
        }
    }
    // Spot instances require a checkpoint, which may be in the unreadable layer.
    if child_mut(job, "cluster")
        .is_some_and(|cluster| cluster.children.iter().any(|child| child.name.value == "spot"))
    {
        add_missing_child(job, &JOB, "checkpoint", at);
    }
    if let Some(parallel) = child_mut(job, "parallel")
        && let Some(spec) = parallel.spec
        && parallel.props.iter().any(|(_, value)| value.value == Value::Text("fsdp".to_owned()))
    {
        add_missing_child(parallel, spec, "wrap", at);
    }
    if let Some(train) = child_mut(job, "train")
        && let Some(spec) = train.spec
    {
        for name in TRAIN {
            add_missing_child(train, spec, name, at);
        }
        let length: Vec<&str> = train.children.iter().map(|child| child.name.value.as_str()).collect();
        if length.contains(&"epochs") {
            add_missing_child(train, spec, "dataset", at);
        } else if !length.contains(&"steps") && !length.contains(&"tokens") {
            add_missing_child(train, spec, "steps", at);
        }
    }
}

fn child_mut<'a>(parent: &'a mut Node, name: &str) -> Option<&'a mut Node> {
    parent.children.iter_mut().find(|child| child.name.value == name)
}

fn add_missing_child(parent: &mut Node, table: &NodeSpec, name: &str, at: Span) {
    let Some(spec) = table.child(name) else { return };
    if parent.children.iter().any(|child| child.name.value == name) {
        return;
    }
    let mut node = Node {
        spec: Some(spec),
        name: Spanned::new(name.to_owned(), at),
        span: at,
        also: Vec::new(),
        duplicates: Vec::new(),
        removed: Vec::new(),
        args: Vec::new(),
        props: Vec::new(),
        children: Vec::new(),
    };
    add_missing_values(&mut node, at);
    if matches!(name, "optimizer" | "dataset" | "checkpoint") {
        for prop in spec.props.iter().filter(|prop| !prop.required) {
            node.props.push((Spanned::new(prop.name.to_owned(), at), Spanned::new(Value::Bad, at)));
        }
    }
    parent.children.push(node);
}

/// Adds the required values of a node and its first argument, unless it is a switch: a switch without
/// argument is on.
fn add_missing_values(node: &mut Node, at: Span) {
    let Some(spec) = node.spec else { return };
    let has_config = node.props.iter().any(|(name, _)| name.value == "config" || name.value == "uri");
    let is_group = node.children.iter().any(|child| child.name.value == "group");
    let first = spec.args.iter().filter(|arg| arg.required || !matches!(arg.ty, Ty::Bool)).count();
    while node.args.len() < first && !has_config && !is_group {
        node.args.push(Spanned::new(Value::Bad, at));
    }
    for prop in spec.props.iter().filter(|prop| prop.required) {
        if !node.props.iter().any(|(name, _)| name.value == prop.name) {
            node.props.push((Spanned::new(prop.name.to_owned(), at), Spanned::new(Value::Bad, at)));
        }
    }
    for child in &mut node.children {
        if child.name.value != "allow" {
            add_missing_values(child, at);
        }
    }
}
