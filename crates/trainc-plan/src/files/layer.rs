//! A value of a foreign file as a node of the manifest, and the node that has the same value already.

use trainc_diag::source::{Span, Spanned};
use trainc_ir::Scalar;
use trainc_syntax::ast::{Node, Value};
use trainc_syntax::nodes::JOB;
use trainc_syntax::spec::{NodeSpec, Ty};
use trainc_syntax::value::{self, Fault};

/// A place in the language: nodes under `job`, and the property or the argument of the last one.
#[derive(Clone, Debug)]
pub(super) struct Place {
    nodes: Vec<&'static NodeSpec>,
    property: Option<&'static str>,
}

impl Place {
    /// Parses a path such as `train/optimizer.lr`; `None` if the language has no such place.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let (nodes, property) = match path.split_once('.') {
            Some((nodes, property)) => (nodes, Some(property)),
            None => (path, None),
        };
        let mut parent: &'static NodeSpec = &JOB;
        let mut specs = Vec::new();
        for name in nodes.split('/') {
            parent = parent.child(name)?;
            specs.push(parent);
        }
        let property = match property {
            Some(name) => Some(parent.prop(name)?.name),
            None => None,
        };
        Some(Self { nodes: specs, property })
    }

    /// Returns its path as in messages: `train.optimizer.lr`.
    pub(super) fn shown(&self) -> String {
        let names: Vec<&str> = self.nodes.iter().map(|spec| spec.name).chain(self.property).collect();
        names.join(".")
    }

    fn ty(&self) -> Ty {
        let last = self.nodes.last();
        let of_property =
            last.zip(self.property).and_then(|(spec, name)| spec.prop(name)).map(|prop| prop.ty);
        of_property.or_else(|| last.and_then(|spec| spec.arg(0)).map(|arg| arg.ty)).unwrap_or(Ty::Scalar)
    }

    /// Returns the value of this place in a job.
    pub(super) fn find<'a>(&self, job: &'a Node) -> Option<&'a Spanned<Value>> {
        let node = self.nodes.iter().try_fold(job, |node, spec| node.child(spec.name))?;
        match self.property {
            Some(name) => node.prop(name),
            None => node.arg(0),
        }
    }

    /// Returns the value of a node in a job that excludes this one: `train.steps` for `train.epochs`.
    pub(super) fn find_alternative(&self, job: &Node) -> Option<(Span, String)> {
        let (last, parents) = self.nodes.split_last()?;
        let parent = parents.iter().try_fold(job, |node, spec| node.child(spec.name))?;
        let others = parent.spec?.alternatives;
        let own = others.iter().find(|set| set.contains(&last.name))?;
        let excluded = others.iter().filter(|set| *set != own).flat_map(|set| set.iter());
        excluded.filter(|name| !own.contains(name)).find_map(|name| {
            let node = parent.children.iter().find(|child| child.name.value == **name)?;
            let path: Vec<&str> = parents.iter().map(|spec| spec.name).chain([*name]).collect();
            Some((node.arg(0)?.span, path.join(".")))
        })
    }

    /// Converts a value to that of this place.
    pub(super) fn value(&self, value: &Scalar) -> Result<Value, Fault> {
        let ty = self.ty();
        let candidates = [Some(kdl_value(value)), warmup_text(ty, value)];
        let mut fault = None;
        for candidate in candidates.into_iter().flatten() {
            match value::parse_value(&candidate, ty) {
                Ok(value) => return Ok(value),
                Err(one) => fault = fault.or(Some(one)),
            }
        }
        Err(fault.unwrap_or(Fault::Type))
    }

    /// Describes a value that this place cannot have.
    pub(super) fn describe_fault(
        &self,
        fault: &Fault,
        value: &Scalar,
        span: Span,
    ) -> trainc_diag::Diagnostic {
        fault.diagnostic(self.ty(), &value.as_variable(), span, &format!("`{}`", self.shown()))
    }

    /// Returns the node with this value alone, and the nodes around it; all are at the span of the key.
    pub(super) fn node(&self, value: Spanned<Value>, key: Span) -> Option<Node> {
        let (last, parents) = self.nodes.split_last()?;
        let mut node = empty_node(last, key.to(value.span));
        node.name.span = key;
        match self.property {
            Some(name) => node.props.push((Spanned::new(name.to_owned(), key), value)),
            None => node.args.push(value),
        }
        Some(parents.iter().rev().fold(node, |child, spec| Node::synthetic(spec, child)))
    }
}

fn empty_node(spec: &'static NodeSpec, span: Span) -> Node {
    Node {
        spec: Some(spec),
        name: Spanned::new(spec.name.to_owned(), span),
        span,
        also: Vec::new(),
        duplicates: Vec::new(),
        removed: Vec::new(),
        args: Vec::new(),
        props: Vec::new(),
        children: Vec::new(),
    }
}

fn kdl_value(value: &Scalar) -> kdl::KdlValue {
    match value {
        Scalar::Text(text) => kdl::KdlValue::String(text.clone()),
        Scalar::Int(n) => kdl::KdlValue::Integer(*n),
        Scalar::Float(x) => kdl::KdlValue::Float(*x),
        Scalar::Bool(on) => kdl::KdlValue::Bool(*on),
        Scalar::Null => kdl::KdlValue::Null,
    }
}

/// Returns a number of steps as the manifest writes it.
fn warmup_text(ty: Ty, value: &Scalar) -> Option<kdl::KdlValue> {
    match (ty, value) {
        (Ty::Warmup, Scalar::Int(steps)) if *steps > 0 => {
            Some(kdl::KdlValue::String(format!("{steps} steps")))
        }
        _ => None,
    }
}

/// Returns whether two values are the same: `1` and `1.0` are.
pub(super) fn is_same(one: &Value, other: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Int(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    };
    one == other || number(one).zip(number(other)).is_some_and(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_catalog::engine_files;

    #[test]
    fn words_of_the_tables_are_places_of_the_language() {
        for name in ["accelerate", "deepspeed", "distributed-config", "torchtitan", "training-arguments"] {
            for row in &engine_files::keys(name).unwrap().rows {
                for word in row.word.iter().chain(row.also.keys()) {
                    assert!(Place::parse(word).is_some(), "{name} {}: {word}", row.key);
                }
            }
        }
    }
}
