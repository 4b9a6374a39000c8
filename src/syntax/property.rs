//! One property of a node: read by its table, and where the table has none of that name, what was meant.

use super::ast::Node;
use super::meant::{left_out, other_property, parents_of};
use super::read::Reader;
use super::read::T0123;
use super::spec::{NodeSpec, Prop};
use crate::declare_code;
use crate::diag::Diagnostic;
use crate::source::{Span, Spanned};
use crate::text;
use kdl::KdlEntry;
use std::collections::BTreeMap;

declare_code!(T0121, "unknown-property", Error, "a property that its node does not take");

/// What a property that its node does not take was probably meant to be.
enum Meant {
    /// The node's first argument.
    Argument,
    /// A child of the node.
    Child(&'static NodeSpec),
    /// A property of nearly that name.
    Property(&'static Prop),
    /// A node that stands elsewhere: its parent there, and its table.
    Elsewhere(&'static str, &'static NodeSpec),
}

impl Meant {
    fn of(key: &str, spec: &'static NodeSpec) -> Option<Self> {
        if let Some(child) = spec.child(key) {
            return Some(Self::Child(child));
        }
        if spec.arg(0).is_some_and(|arg| arg.name == key) {
            return Some(Self::Argument);
        }
        let other = other_property(key).and_then(|name| spec.prop(name));
        let near = |key| text::nearest(key, spec.props.iter().map(|prop| prop.name));
        if let Some(prop) = other.or_else(|| near(key).and_then(|near| spec.prop(near))) {
            return Some(Self::Property(prop));
        }
        // `tensor=8` for `tensor-degree 8`.
        if let Some(child) = spec.child(&format!("{key}-degree")) {
            return Some(Self::Child(child));
        }
        match parents_of(key).as_slice() {
            [(parent, child)] if child.arg(0).is_some() => Some(Self::Elsewhere(parent, child)),
            _ => None,
        }
    }
}

impl Reader<'_> {
    pub(super) fn property(
        &mut self,
        entry: &KdlEntry,
        key: Spanned<String>,
        spec: &'static NodeSpec,
        read: &mut Node,
        seen: &mut BTreeMap<String, Span>,
    ) {
        let span = self.value_span(entry);
        let ty = match (spec.prop(&key.value), spec.free_props) {
            (Some(prop), _) => prop.ty,
            (None, Some(ty)) => ty,
            (None, None) => {
                let diagnostic = self.unknown_property(&key, span, spec);
                self.push(diagnostic);
                self.as_meant(entry, span, key, spec, read);
                return;
            }
        };
        if let Some(first) = seen.insert(key.value.clone(), key.span) {
            self.push(
                Diagnostic::new(&T0123, key.span, format!("`{}` is given twice", key.value))
                    .label(first, "the first")
                    .help("keep one of them"),
            );
            self.value(entry, span, ty, &format!("`{}`", key.value));
            return;
        }
        let value = self.value(entry, span, ty, &format!("`{}`", key.value));
        read.props.push((key, Spanned::new(value, span)));
    }

    /// Reads on a property whose name was reported as if it stood as it was probably meant, so that nothing is said to
    /// be missing.
    fn as_meant(
        &mut self,
        entry: &KdlEntry,
        span: Span,
        key: Spanned<String>,
        spec: &'static NodeSpec,
        read: &mut Node,
    ) {
        let Some(meant) = Meant::of(&key.value, spec) else { return };
        let name = format!("`{}`", key.value);
        match meant {
            Meant::Argument => {
                if let Some(arg) = spec.arg(0).filter(|_| read.args.is_empty()) {
                    let value = self.value(entry, span, arg.ty, &name);
                    read.args.push(Spanned::new(value, span));
                }
            }
            Meant::Child(child) | Meant::Elsewhere(_, child) => {
                let Some(arg) = child.arg(0) else { return };
                let value = self.value(entry, span, arg.ty, &name);
                let node = Node {
                    spec: Some(child),
                    name: Spanned::new(child.name.to_owned(), key.span),
                    span: key.span.to(span),
                    also: Vec::new(),
                    args: vec![Spanned::new(value, span)],
                    props: Vec::new(),
                    children: Vec::new(),
                };
                match meant {
                    Meant::Elsewhere(parent, _) => self.strays.push((parent, node)),
                    _ => read.children.push(node),
                }
            }
            Meant::Property(prop) => {
                let value = self.value(entry, span, prop.ty, &format!("`{}`", prop.name));
                if !read.props.iter().any(|(name, _)| name.value == prop.name) {
                    let name = Spanned::new(prop.name.to_owned(), key.span);
                    read.props.push((name, Spanned::new(value, span)));
                }
            }
        }
    }

    fn unknown_property(&self, key: &Spanned<String>, value: Span, spec: &'static NodeSpec) -> Diagnostic {
        let diagnostic =
            Diagnostic::new(&T0121, key.span, format!("`{}` has no property `{}`", spec.name, key.value));
        let shown = self.text.get(value.start as usize..value.end as usize).unwrap_or("…");
        if let Some(why) = left_out(&key.value).filter(|_| spec.name == "storage") {
            return diagnostic.note(why);
        }
        match Meant::of(&key.value, spec) {
            Some(Meant::Argument) => {
                diagnostic.help(format!("write it without a name: `{} {shown}`", spec.name))
            }
            Some(Meant::Child(child)) => {
                diagnostic.help(format!("write it as a child: `{} {shown}`", child.name))
            }
            Some(Meant::Property(prop)) => {
                diagnostic.help(format!("did you mean `{}`?", prop.name)).fix(key.span, prop.name)
            }
            Some(Meant::Elsewhere(parent, child)) => {
                diagnostic.help(format!("`{}` belongs in `{parent}`: `{} {shown}`", child.name, child.name))
            }
            None if spec.props.is_empty() => diagnostic.note(format!("`{}` takes no property", spec.name)),
            None => {
                let known: Vec<&str> = spec.props.iter().map(|prop| prop.name).collect();
                diagnostic.note(format!("known here: {}", known.join(", ")))
            }
        }
    }
}
