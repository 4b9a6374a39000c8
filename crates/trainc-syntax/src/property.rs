//! Properties: read by the table of their node, or by the most likely meaning where the table has none of
//! that name.

use super::ast::{Duplicate, Node, Value};
use super::codes::{T0120, T0121, T0123, T0128};
use super::document;
use super::reader::Reader;
use super::required_values::example;
use super::spec::{NodeSpec, Prop, Repeat, Ty};
use super::suggestions::{node_alias, other_name, parents_with_spec, property_alias, unsupported_setting};
use super::value::parse_value;
use kdl::{KdlEntry, KdlNode};
use std::collections::BTreeMap;
use trainc_diag::Diagnostic;
use trainc_diag::source::{Span, Spanned};
use trainc_diag::text;

/// The probable meaning of a property that its node does not take.
enum Meaning {
    /// The node's first argument.
    Argument,
    /// A child of the node.
    Child(&'static NodeSpec),
    /// A property with a similar name.
    Property(&'static Prop),
    /// A node of another parent: the parent's name, and the node's table.
    OtherParent(&'static str, &'static NodeSpec),
}

impl Meaning {
    fn from_key(key: &str, spec: &'static NodeSpec) -> Option<Self> {
        if let Some(child) = spec.child(key) {
            return Some(Self::Child(child));
        }
        if spec.arg(0).is_some_and(|arg| arg.name == key) {
            return Some(Self::Argument);
        }
        let other = property_alias(key).and_then(|name| spec.prop(name));
        let near = |key| text::nearest(key, spec.props.iter().map(|prop| prop.name));
        if let Some(prop) = other.or_else(|| near(key).and_then(|near| spec.prop(near))) {
            return Some(Self::Property(prop));
        }
        // `tensor=8` for `tensor-degree 8`.
        if let Some(child) = spec.child(&format!("{key}-degree")) {
            return Some(Self::Child(child));
        }
        match parents_with_spec(key).as_slice() {
            [(parent, child)] if child.arg(0).is_some() => Some(Self::OtherParent(parent, child)),
            _ => None,
        }
    }
}

/// A property that was written as a node, a sibling of the node that it belongs to.
pub(super) struct MisplacedProperty {
    owner: &'static NodeSpec,
    name: Spanned<String>,
    value: Spanned<Value>,
}

impl MisplacedProperty {
    /// Adds the property to the node that it belongs to, so that nothing is reported as missing.
    pub(super) fn insert(self, list: &mut Vec<Node>) {
        if let Some(owner) = list.iter_mut().find(|node| node.name.value == self.owner.name) {
            if owner.prop(&self.name.value).is_none() {
                owner.props.push((self.name, self.value));
            }
            return;
        }
        let at = self.name.span;
        list.push(Node {
            spec: Some(self.owner),
            name: Spanned::new(self.owner.name.to_owned(), at),
            span: at,
            also: Vec::new(),
            duplicates: Vec::new(),
            removed: Vec::new(),
            args: self.owner.args.iter().map(|_| Spanned::new(Value::Bad, at)).collect(),
            props: vec![(self.name, self.value)],
            children: Vec::new(),
        });
    }
}

/// Returns the only node, among those that are valid in a place, that takes a property of this name.
pub(super) fn owner_of(
    name: &str,
    known: &[&str],
    specs: &'static [&'static NodeSpec],
) -> Option<&'static NodeSpec> {
    // A name of the API or another tool for a node that is valid here.
    let is_sibling =
        other_name(name).is_some_and(|other| specs.iter().any(|spec| Some(spec.name) == other.node));
    let taken = is_sibling || node_alias(name).is_some() || !parents_with_spec(name).is_empty();
    if taken || text::nearest(name, known.iter().copied()).is_some() {
        return None;
    }
    let name = property_alias(name).unwrap_or(name);
    // A node that may be repeated is ambiguous.
    let mut owners =
        specs.iter().copied().filter(|spec| spec.prop(name).is_some() && spec.repeat == Repeat::Once);
    owners.next().filter(|_| owners.next().is_none())
}

/// Returns whether a node takes a name and a value, and has neither: `hyperparameter lr=2e-5`.
fn takes_name_and_value(spec: &NodeSpec, read: &Node) -> bool {
    read.args.is_empty() && spec.props.is_empty() && matches!(spec.args, [_, second] if second.required)
}

/// Returns whether a name is an identifier of letters, digits, `_` and `-`.
fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
}

impl Reader<'_> {
    /// Reads `lr 2e-5`, `lr: 2e-5` and `lr:2e-5` as `lr=2e-5`; returns the number of arguments consumed.
    pub(super) fn property_without_equals(
        &mut self,
        entry: &KdlEntry,
        next: Option<&KdlEntry>,
        spec: &'static NodeSpec,
        read: &mut Node,
        seen: &mut BTreeMap<String, Span>,
    ) -> usize {
        if spec.arg(read.args.len()).is_some() {
            return 0;
        }
        // A node that takes any property takes every name, as in `environment "A" "b"`.
        let takes =
            |name: &str| spec.prop(name).is_some() || (spec.free_props.is_some() && is_identifier(name));
        let Some(word) = entry.value().as_string() else { return 0 };
        // An ARN or a URI in quotes is a value.
        let is_unquoted = document::value_text(entry).starts_with(|c: char| c.is_ascii_alphabetic());
        let (prop, behind) = match word.split_once(':').filter(|_| is_unquoted) {
            Some((name, value)) if takes(name) && !value.contains([':', '/']) => {
                (name, Some(value).filter(|value| !value.is_empty()))
            }
            _ if takes(word) => (word, None),
            _ => return 0,
        };
        let name = self.value_span(entry);
        let next = next.filter(|next| next.name().is_none() && behind.is_none());
        let value = next.map(|next| self.value_span(next));
        let of_next =
            value.map(|value| self.text.get(value.start as usize..value.end as usize).unwrap_or("…"));
        let Some(shown) = behind.or(of_next) else { return 0 };
        let joined = format!("{prop}={shown}");
        self.push(
            Diagnostic::new(
                &T0128,
                name,
                if word == prop {
                    format!("unexpected argument `{prop}`; it is a property")
                } else {
                    format!("unexpected argument `{word}`; `{prop}` is a property")
                },
            )
            .help(format!("write `{joined}`"))
            .fix(value.map_or(name, |value| name.to(value)), joined),
        );
        let key = Spanned::new(prop.to_owned(), name);
        let Some(next) = next else {
            // Its value is part of a word and was not read.
            read.props.push((key, Spanned::new(Value::Bad, name)));
            return 1;
        };
        self.property(next, key, spec, read, seen);
        2
    }

    /// Reads a child with the name of a property of its parent; returns whether it was one.
    pub(super) fn property_as_child(
        &mut self,
        node: &KdlNode,
        spec: &'static NodeSpec,
        read: &mut Node,
        seen: &mut BTreeMap<String, Span>,
    ) -> bool {
        let name = node.name().value();
        if spec.child(name).is_some() {
            return false;
        }
        // A node with properties of any name, such as `environment`, has no children.
        let free = spec
            .free_props
            .filter(|_| spec.children.is_empty() && node.children().is_none() && node.entries().len() == 1);
        let known = spec.prop(name).or_else(|| property_alias(name).and_then(|name| spec.prop(name)));
        let known =
            known.map(|prop| (prop.name.to_owned(), prop.ty)).or_else(|| Some((name.to_owned(), free?)));
        let Some((property, ty)) = known else { return false };
        let (key, value, shown) = self.property_from_node(spec, node, &property, ty);
        self.push(
            Diagnostic::new(
                &T0120,
                key.span,
                format!("unknown node `{name}` in `{}`; it is a property", spec.name),
            )
            .write_on_line_of(spec.name, format!("{property}={shown}")),
        );
        if seen.insert(property, key.span).is_none() {
            read.props.push((key, value));
        } else {
            read.add_duplicate(Duplicate::Property(key, value));
        }
        true
    }

    /// Reads a node with the name of a property of a sibling.
    pub(super) fn misplaced_property(
        &mut self,
        node: &KdlNode,
        name: &str,
        owner: &'static NodeSpec,
        place: &str,
    ) -> MisplacedProperty {
        let known = property_alias(name).unwrap_or(name);
        let span = self.span(node.name().span());
        let Some(prop) = owner.prop(known) else {
            let (name, value) = (Spanned::new(known.to_owned(), span), Spanned::new(Value::Bad, span));
            return MisplacedProperty { owner, name, value };
        };
        let (name_there, value, shown) = self.property_from_node(owner, node, prop.name, prop.ty);
        self.push(
            Diagnostic::new(
                &T0120,
                span,
                format!("unknown node `{name}` {place}; it is a property of `{}`", owner.name),
            )
            .write_on_line_of(owner.name, format!("{}={shown}", prop.name)),
        );
        MisplacedProperty { owner, name: name_there, value }
    }

    /// Returns the name and the value of a property that was written as a node, and the text of the value.
    fn property_from_node(
        &mut self,
        spec: &NodeSpec,
        node: &KdlNode,
        property: &str,
        ty: Ty,
    ) -> (Spanned<String>, Spanned<Value>, String) {
        let name = Spanned::new(property.to_owned(), self.span(node.name().span()));
        let first = node.entries().iter().find(|entry| entry.name().is_none());
        let Some(entry) = first else {
            let value = if ty == Ty::Bool { Value::Bool(true) } else { Value::Bad };
            let at = name.span;
            return (name, Spanned::new(value, at), example(ty));
        };
        let span = self.value_span(entry);
        let value = self.layered_value(spec, entry, span, ty, property);
        let shown = self.text.get(span.start as usize..span.end as usize).unwrap_or("…").to_owned();
        (name, Spanned::new(value, span), shown)
    }

    /// Reads a property; returns whether its meaning is known.
    pub(super) fn property(
        &mut self,
        entry: &KdlEntry,
        key: Spanned<String>,
        spec: &'static NodeSpec,
        read: &mut Node,
        seen: &mut BTreeMap<String, Span>,
    ) -> bool {
        let span = self.value_span(entry);
        let ty = match (spec.prop(&key.value), spec.free_props) {
            (Some(prop), _) => prop.ty,
            (None, Some(ty)) => ty,
            (None, None) => {
                let diagnostic = self.unknown_property(&key, span, spec, read);
                self.push(diagnostic);
                if let Some(second) = spec.arg(1).filter(|_| takes_name_and_value(spec, read)) {
                    let value = self.layered_value(spec, entry, span, second.ty, spec.name);
                    let at = key.span;
                    read.args = vec![Spanned::new(Value::Text(key.value), at), Spanned::new(value, span)];
                    return true;
                }
                return self.property_as_suggested(entry, span, key, spec, read);
            }
        };
        if let Some(first) = seen.insert(key.value.clone(), key.span) {
            self.push(
                Diagnostic::new(&T0123, key.span, format!("duplicate property `{}`", key.value))
                    .label(first, "the first")
                    .help("keep one of them"),
            );
            let value = self.layered_value(spec, entry, span, ty, &key.value);
            read.add_duplicate(Duplicate::Property(key, Spanned::new(value, span)));
            return true;
        }
        let value = self.layered_value(spec, entry, span, ty, &key.value);
        read.props.push((key, Spanned::new(value, span)));
        true
    }

    /// Reads a property whose name was reported by its probable meaning, so that nothing is reported as
    /// missing; returns whether there is one.
    fn property_as_suggested(
        &mut self,
        entry: &KdlEntry,
        span: Span,
        key: Spanned<String>,
        spec: &'static NodeSpec,
        read: &mut Node,
    ) -> bool {
        let Some(meaning) = Meaning::from_key(&key.value, spec) else { return false };
        match meaning {
            Meaning::Argument => {
                if let Some(arg) = spec.arg(0).filter(|_| read.args.is_empty()) {
                    let value = self.layered_value(spec, entry, span, arg.ty, &key.value);
                    read.args.push(Spanned::new(value, span));
                }
            }
            Meaning::Child(child) | Meaning::OtherParent(_, child) => {
                let Some(arg) = child.arg(0) else { return true };
                let value = self.layered_value(child, entry, span, arg.ty, &key.value);
                let node = Node {
                    spec: Some(child),
                    name: Spanned::new(child.name.to_owned(), key.span),
                    span: key.span.to(span),
                    also: Vec::new(),
                    duplicates: Vec::new(),
                    removed: Vec::new(),
                    args: vec![Spanned::new(value, span)],
                    props: Vec::new(),
                    children: Vec::new(),
                };
                match meaning {
                    Meaning::OtherParent(parent, _) => self.misplaced.push((parent, node)),
                    _ => read.children.push(node),
                }
            }
            Meaning::Property(prop) => {
                // A value that does not fit is not a second error: the name was reported.
                let fits = parse_value(entry.value(), prop.ty).is_ok();
                let value = if fits { self.value(entry, span, prop.ty, prop.name) } else { Value::Bad };
                if !read.props.iter().any(|(name, _)| name.value == prop.name) {
                    let name = Spanned::new(prop.name.to_owned(), key.span);
                    read.props.push((name, Spanned::new(value, span)));
                }
            }
        }
        true
    }

    fn unknown_property(
        &self,
        key: &Spanned<String>,
        value: Span,
        spec: &'static NodeSpec,
        read: &Node,
    ) -> Diagnostic {
        let diagnostic =
            Diagnostic::new(&T0121, key.span, format!("`{}` has no property `{}`", spec.name, key.value));
        let shown = self.text.get(value.start as usize..value.end as usize).unwrap_or("…");
        if let Some(why) = unsupported_setting(&key.value).filter(|_| spec.name == "storage") {
            return diagnostic.note(why);
        }
        if takes_name_and_value(spec, read) {
            return diagnostic.help(format!(
                "write the name and the value as two arguments: `{} \"{}\" {shown}`",
                spec.name, key.value
            ));
        }
        match Meaning::from_key(&key.value, spec) {
            Some(Meaning::Argument) => {
                let whole = format!("{} {shown}", spec.name);
                diagnostic.help(format!("write it without a name: `{whole}`")).suggest_code(whole, None)
            }
            // A child with properties only, such as `spot max-wait="2d"`.
            Some(Meaning::Child(child)) if child.args.is_empty() => {
                let first = child.props.first().map(|prop| format!(" {}={}", prop.name, example(prop.ty)));
                let shown = format!("{}{}", child.name, first.unwrap_or_default());
                diagnostic.help(format!("write it as a child node: `{shown}`")).suggest_code(shown, None)
            }
            // `entrypoint` replaces the toolkit, which starts a script.
            Some(Meaning::Child(child)) if child.name == "entrypoint" && shown.ends_with(".py\"") => {
                let whole = format!("{} {shown}", spec.name);
                diagnostic.help(format!("write it without a name: `{whole}`")).suggest_code(whole, None)
            }
            Some(Meaning::Child(child)) => {
                let shown = format!("{} {shown}", child.name);
                diagnostic.help(format!("write it as a child node: `{shown}`")).suggest_code(shown, None)
            }
            Some(Meaning::Property(prop)) => {
                diagnostic.help(format!("did you mean `{}`?", prop.name)).fix(key.span, prop.name)
            }
            Some(Meaning::OtherParent(parent, child)) => {
                let shown = format!("{} {shown}", child.name);
                diagnostic
                    .help(format!("`{}` belongs in `{parent}`: `{shown}`", child.name))
                    .suggest_code(shown, Some(parent))
            }
            None if other_name(&key.value).is_some() => {
                diagnostic.help(other_name(&key.value).map_or_else(|| "".into(), |other| other.help()))
            }
            None if spec.props.is_empty() => diagnostic.note(format!("`{}` takes no properties", spec.name)),
            None => {
                let known: Vec<&str> = spec.props.iter().map(|prop| prop.name).collect();
                diagnostic.note(format!("valid properties: {}", known.join(", ")))
            }
        }
    }
}
