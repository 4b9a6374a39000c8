//! What a layer that could not be had may have said: unknown, so nothing is reported as missing.
//!
//! Every node that a job must have, and every value of the nodes that are there, stands as
//! [`Value::Bad`](crate::syntax::ast::Value::Bad) where nobody wrote it. Later stages stay silent about those and
//! go on with the rest.

use crate::source::{Span, Spanned};
use crate::syntax::ast::{Node, Value};
use crate::syntax::nodes::JOB;
use crate::syntax::spec::NodeSpec;

/// Nodes without which a stage has something to say.
const NODES: [&str; 9] =
    ["region", "model", "cluster", "parallel", "train", "program", "image", "output", "role"];

/// Children of `train` without which a stage has something to say.
const TRAIN: [&str; 7] =
    ["precision", "sequence-length", "micro-batch", "accumulation", "global-batch", "optimizer", "dataset"];

/// Fills in what is not there.
pub(super) fn fill(job: &mut Node) {
    let at = job.name.span;
    for child in &mut job.children {
        values(child, at);
    }
    for name in NODES {
        add(job, &JOB, name, at);
    }
    // A job whose interruptions nobody provides for: the checkpoint may stand in the layer.
    if job.children.iter().any(|child| child.name.value == "cluster" && child.children.iter().any(|child| child.name.value == "spot")) {
        add(job, &JOB, "checkpoint", at);
    }
    if let Some(train) = job.children.iter_mut().find(|child| child.name.value == "train")
        && let Some(spec) = train.spec
    {
        for name in TRAIN {
            add(train, spec, name, at);
        }
        if !train.children.iter().any(|child| matches!(child.name.value.as_str(), "steps" | "tokens" | "epochs")) {
            add(train, spec, "steps", at);
        }
    }
}

fn add(parent: &mut Node, table: &NodeSpec, name: &str, at: Span) {
    let Some(spec) = table.child(name) else { return };
    if parent.children.iter().any(|child| child.name.value == name) {
        return;
    }
    let mut node = Node {
        spec: Some(spec),
        name: Spanned::new(name.to_owned(), at),
        span: at,
        also: Vec::new(),
        args: Vec::new(),
        props: Vec::new(),
        children: Vec::new(),
    };
    values(&mut node, at);
    parent.children.push(node);
}

/// The values of one node and of its children.
fn values(node: &mut Node, at: Span) {
    let Some(spec) = node.spec else { return };
    // A switch that stands alone is on; only what must be there is unknown.
    let wanted = spec.args.iter().filter(|arg| arg.required || spec.children.len() > 1).count();
    while node.args.len() < wanted {
        node.args.push(Spanned::new(Value::Bad, at));
    }
    for prop in spec.props {
        if !node.props.iter().any(|(name, _)| name.value == prop.name) {
            node.props.push((Spanned::new(prop.name.to_owned(), at), Spanned::new(Value::Bad, at)));
        }
    }
    for child in &mut node.children {
        if child.name.value != "allow" {
            values(child, at);
        }
    }
}
