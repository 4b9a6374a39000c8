//! `node!` declares a node once: its struct, its table, how it is read, and what visitors see of it.

use super::address::Address;
use super::ast::{Node, Value};
use super::declared::{Declared, Place};
use super::kind::{Kind, Shown};
use super::origin::{Field, Origin, Val};
use super::scalar::{Raw, RequestMember, Scalar};
use super::spec::{NodeSpec, Repeat, Rows};
use trainc_diag::source::{Span, Spanned};

/// A value of a job and where it comes from.
pub struct Leaf<'a> {
    /// The path of its node, such as `cluster.spot` or `channel train`.
    pub path: &'a str,
    /// Its name in the node; empty if the node has only this value.
    pub name: &'a str,
    /// Its declaration.
    pub declared: &'static Declared,
    /// Its origin; `None` if it is invalid.
    pub origin: Option<&'a Origin>,
    /// The value.
    pub value: &'a dyn Shown,
}

impl Leaf<'_> {
    /// Returns the path of the value, as `--set` takes it; `None` for a value without a name of its own.
    pub fn set_path(&self) -> Option<String> {
        let name = self.declared.name;
        let steps = match self.declared.place {
            Place::Arg(0) => vec![self.path],
            Place::Prop | Place::Child => vec![self.path, name],
            Place::ChildProp(child) => vec![self.path, child, name],
            _ => return None,
        };
        let steps: Vec<String> =
            steps.into_iter().filter(|step| !step.is_empty()).map(|step| step.replace(' ', ".")).collect();
        Some(steps.join("."))
    }
}

/// Receives the values of a job.
pub type Visitor<'a> = &'a mut dyn FnMut(&Leaf<'_>);

/// Receives the nodes of a job: the table of each, and the span of its word.
pub type NodeVisitor<'a> = &'a mut dyn FnMut(&'static NodeSpec, Span);

/// A text of a job, for changes in place.
pub enum Slot<'a> {
    /// A value.
    Text(&'a mut Field<String>),
    /// An address.
    Address(&'a mut Field<Address>),
    /// A word of a list.
    Word(&'a mut Val<String>),
    /// A value of any type.
    Scalar(&'a mut Field<Scalar>),
    /// A single value of `request`.
    Raw(&'a mut Raw),
}

impl Slot<'_> {
    /// Returns its text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(field) => field.value().map(String::as_str),
            Self::Address(field) => field.text(),
            Self::Word(val) => Some(&val.value),
            Self::Scalar(field) => match field.value() {
                Some(Scalar::Text(text)) => Some(text),
                _ => None,
            },
            Self::Raw(raw) => raw.text(),
        }
    }

    /// Returns its span.
    pub fn span(&self) -> Option<Span> {
        match self {
            Self::Text(field) => field.span(),
            Self::Address(field) => field.span(),
            Self::Word(val) => val.origin.span(),
            Self::Scalar(field) => field.span(),
            Self::Raw(Raw::Scalar(scalar)) => Some(scalar.span),
            Self::Raw(_) => None,
        }
    }
}

/// Receives the texts of a job.
pub type TextVisitor<'a> = &'a mut dyn FnMut(&'static Declared, Slot<'_>);

/// The struct of a node, made by `node!`.
pub trait NodeType: Sized {
    /// Its table.
    const SPEC: &'static NodeSpec;

    /// Reads it; `None` without the name that tells it from others.
    fn read(node: &Node) -> Option<Self>;

    /// Returns the text that tells it from others of its name.
    fn key(&self) -> Option<&str>;

    /// Shows its values; `path` is that of the node.
    fn visit(&self, path: &str, with: Visitor);

    /// Shows the nodes in it.
    fn visit_nodes(&self, with: NodeVisitor);

    /// Returns the span of its word; `None` if it is not written.
    fn span(&self) -> Option<Span>;

    /// Passes its texts.
    fn visit_texts(&mut self, with: TextVisitor);
}

/// Shows a node, then those in it.
fn show_node<N: NodeType>(node: &N, with: NodeVisitor) {
    if let Some(span) = node.span() {
        with(N::SPEC, span);
    }
    node.visit_nodes(with);
}

/// A part of a node: one value or several, or other nodes.
pub trait Part: Sized {
    /// The tables of the nodes that it consists of.
    const NODES: &'static [&'static NodeSpec] = &[];

    /// Reads it; `None` if the node is nothing without it.
    fn read(declared: &'static Declared, node: &Node) -> Option<Self>;

    /// Returns the text, if it is one.
    fn key(&self) -> Option<&str> {
        None
    }

    /// Shows its values; `path` is that of the node that it is a part of.
    fn visit(&self, _declared: &'static Declared, _path: &str, _with: Visitor) {}

    /// Shows the nodes that it consists of.
    fn visit_nodes(&self, _with: NodeVisitor) {}

    /// Passes its texts.
    fn visit_texts(&mut self, _declared: &'static Declared, _with: TextVisitor) {}
}

/// Declares a part that consists of other nodes.
pub(crate) const fn nested<P: Part>() -> Declared {
    super::declared::children(P::NODES)
}

/// Converts the span of a node's word to that of a struct.
pub(crate) fn word<T: From<Span>>(node: &Node) -> T {
    T::from(node.name.span)
}

/// Returns whether a value tells its node from others of the same name.
pub(crate) fn is_key(declared: &Declared, spec: &NodeSpec) -> bool {
    match spec.repeat {
        Repeat::ByFirst => matches!(declared.place, Place::Arg(0)),
        Repeat::ByName => matches!(declared.place, Place::Prop) && declared.name == "name",
        Repeat::Once | Repeat::Many => false,
    }
}

/// Returns the path of a child.
fn child_path(parent: &str, spec: &NodeSpec, key: Option<&str>) -> String {
    let path = match (spec.rows, parent) {
        (Rows::OfParent, _) => return parent.to_owned(),
        (_, "") => spec.name.to_owned(),
        (Rows::Beside, _) => format!("{parent} {}", spec.name),
        (Rows::Keyed | Rows::Together, _) => format!("{parent}.{}", spec.name),
    };
    match key.filter(|_| spec.rows == Rows::Keyed) {
        Some(key) => format!("{path} {key}"),
        None => path,
    }
}

/// Returns the tables of the children that a part consists of.
fn tables(declared: &Declared) -> &'static [&'static NodeSpec] {
    match declared.place {
        Place::Children(tables) => tables,
        _ => &[],
    }
}

fn children<'a>(declared: &'static Declared, node: &'a Node) -> impl Iterator<Item = &'a Node> {
    tables(declared).iter().flat_map(|spec| node.children_named(spec.name))
}

impl<N: NodeType> Part for Option<N> {
    const NODES: &'static [&'static NodeSpec] = &[N::SPEC];

    fn read(declared: &'static Declared, node: &Node) -> Option<Self> {
        Some(children(declared, node).next().and_then(N::read))
    }

    fn visit(&self, declared: &'static Declared, path: &str, with: Visitor) {
        if let Some((node, spec)) = self.as_ref().zip(tables(declared).first()) {
            node.visit(&child_path(path, spec, node.key()), with);
        }
    }

    fn visit_nodes(&self, with: NodeVisitor) {
        if let Some(node) = self {
            show_node(node, with);
        }
    }

    fn visit_texts(&mut self, _: &'static Declared, with: TextVisitor) {
        if let Some(node) = self {
            node.visit_texts(with);
        }
    }
}

impl<N: NodeType> Part for Vec<N> {
    const NODES: &'static [&'static NodeSpec] = &[N::SPEC];

    fn read(declared: &'static Declared, node: &Node) -> Option<Self> {
        Some(children(declared, node).filter_map(N::read).collect())
    }

    fn visit(&self, declared: &'static Declared, path: &str, with: Visitor) {
        for (node, spec) in self.iter().zip(tables(declared).iter().cycle()) {
            node.visit(&child_path(path, spec, node.key()), with);
        }
    }

    fn visit_nodes(&self, with: NodeVisitor) {
        for node in self {
            show_node(node, with);
        }
    }

    fn visit_texts(&mut self, _: &'static Declared, with: TextVisitor) {
        for node in self {
            node.visit_texts(with);
        }
    }
}

/// Returns the value of a declaration in a node. A child without an argument has none, but a span.
fn written<'a>(declared: &Declared, node: &'a Node) -> Result<&'a Spanned<Value>, Option<Span>> {
    let child = |name| node.child(name);
    match declared.place {
        Place::Arg(at) => node.arg(at).ok_or(None),
        Place::Prop => node.prop(declared.name).ok_or(None),
        Place::Child => match child(declared.name) {
            Some(child) => child.arg(0).ok_or(Some(child.name.span)),
            None => Err(None),
        },
        Place::ChildProp(name) => child(name).and_then(|child| child.prop(declared.name)).ok_or(None),
        _ => Err(None),
    }
}

impl<T: Kind> Field<T> {
    /// Reads what was written, if anything was.
    pub fn of(written: Option<&Spanned<Value>>, declared: &Declared) -> Self {
        written.map_or(Self::Absent, |written| match T::read(&written.value, declared) {
            Some(value) => Self::Is(Val::written(value, written.span)),
            None => Self::Bad,
        })
    }

    /// Shows it under a name.
    pub(crate) fn visit_as(&self, name: &str, declared: &'static Declared, path: &str, with: Visitor) {
        let (origin, value): (_, &dyn Shown) = match self {
            Self::Absent => return,
            Self::Bad => (None, &""),
            Self::Is(val) => (Some(&val.origin), &val.value),
        };
        with(&Leaf { path, name, declared, origin, value });
    }
}

impl<T: Kind> Part for Field<T> {
    fn read(declared: &'static Declared, node: &Node) -> Option<Self> {
        Some(match written(declared, node) {
            Ok(written) => Self::of(Some(written), declared),
            Err(bare) => bare
                .zip(T::WITHOUT_ARGUMENT)
                .map_or(Self::Absent, |(span, value)| Self::Is(Val::written(value, span))),
        })
    }

    fn key(&self) -> Option<&str> {
        self.value().and_then(T::text)
    }

    fn visit(&self, declared: &'static Declared, path: &str, with: Visitor) {
        if let Some(name) = declared.listed {
            self.visit_as(name, declared, path, with);
        }
    }

    fn visit_texts(&mut self, declared: &'static Declared, with: TextVisitor) {
        if let Some(slot) = T::slot(self) {
            with(declared, slot);
        }
    }
}

/// A name: the node is nothing without it.
impl Part for String {
    fn read(declared: &'static Declared, node: &Node) -> Option<Self> {
        Some(Val::read(declared, node)?.value)
    }

    fn key(&self) -> Option<&str> {
        Some(self)
    }
}

/// A name with its place: the node is nothing without it.
impl Part for Val<String> {
    fn read(declared: &'static Declared, node: &Node) -> Option<Self> {
        match Field::read(declared, node)? {
            Field::Is(val) => Some(val),
            Field::Absent | Field::Bad => None,
        }
    }

    fn key(&self) -> Option<&str> {
        Some(&self.value)
    }

    fn visit(&self, declared: &'static Declared, path: &str, with: Visitor) {
        let Some(name) = declared.listed else { return };
        with(&Leaf { path, name, declared, origin: Some(&self.origin), value: &self.value });
    }
}

/// The place of a node's name.
impl Part for Span {
    fn read(_: &'static Declared, node: &Node) -> Option<Self> {
        Some(node.arg(0)?.span)
    }
}

/// The place of a child's word.
impl Part for Option<Span> {
    fn read(declared: &'static Declared, node: &Node) -> Option<Self> {
        Some(node.child(declared.name).map(|child| child.name.span))
    }
}

impl Part for Vec<Val<String>> {
    fn read(declared: &'static Declared, node: &Node) -> Option<Self> {
        let values = node.children_named(declared.name).flat_map(|child| &child.args);
        let texts = values
            .filter_map(|arg| Some(Val::written(<String as Kind>::read(&arg.value, declared)?, arg.span)));
        Some(texts.collect())
    }

    fn visit(&self, declared: &'static Declared, path: &str, with: Visitor) {
        for val in self {
            val.visit(declared, path, with);
        }
    }

    fn visit_texts(&mut self, declared: &'static Declared, with: TextVisitor) {
        for val in self {
            with(declared, Slot::Word(val));
        }
    }
}

/// A name and a text, both with their spans.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The name.
    pub key: String,
    /// The span of the name.
    pub key_span: Span,
    /// The text; a placeholder inside is replaced by bind.
    pub value: Field<String>,
}

impl Part for Vec<Pair> {
    fn read(declared: &'static Declared, node: &Node) -> Option<Self> {
        let all = |node: &Node| {
            let pair = |(key, value): &(Spanned<String>, Spanned<Value>)| Pair {
                key: key.value.clone(),
                key_span: key.span,
                value: Field::<Scalar>::of(Some(value), declared).map(|scalar| scalar.as_variable()),
            };
            node.props.iter().map(pair).collect::<Vec<_>>()
        };
        Some(match declared.place {
            Place::AnyProps => all(node),
            _ => node.children_named(declared.name).flat_map(all).collect(),
        })
    }

    fn visit(&self, declared: &'static Declared, path: &str, with: Visitor) {
        let Some(listed) = declared.listed else { return };
        for Pair { key, key_span, value } in self {
            let name = &format!("{listed}.{key}");
            if value.is_absent() {
                with(&Leaf { path, name, declared, origin: Some(&Origin::Written(*key_span)), value: &"" });
            }
            value.visit_as(name, declared, path, with);
        }
    }

    fn visit_texts(&mut self, declared: &'static Declared, with: TextVisitor) {
        for pair in self {
            with(declared, Slot::Text(&mut pair.value));
        }
    }
}

impl Part for Vec<RequestMember> {
    fn read(declared: &'static Declared, node: &Node) -> Option<Self> {
        // The members have no table; an `allow` has.
        let members =
            children(declared, node).flat_map(|node| &node.children).filter(|child| child.spec.is_none());
        Some(members.map(RequestMember::read).collect())
    }

    fn visit(&self, declared: &'static Declared, _: &str, with: Visitor) {
        for RequestMember { name, span, value } in self {
            with(&Leaf { path: "request", name, declared, origin: Some(&Origin::Written(*span)), value });
        }
    }

    fn visit_texts(&mut self, declared: &'static Declared, with: TextVisitor) {
        for member in self {
            visit_raw(&mut member.value, declared, with);
        }
    }
}

fn visit_raw(raw: &mut Raw, declared: &'static Declared, with: TextVisitor) {
    match raw {
        Raw::Scalar(_) => with(declared, Slot::Raw(raw)),
        Raw::List(items) => {
            for item in items {
                visit_raw(item, declared, with);
            }
        }
        Raw::Object(members) => {
            for member in members {
                visit_raw(&mut member.value, declared, with);
            }
        }
    }
}

/// Declares a node. Each field has its documentation, which is also the reference's, and what it is in the
/// manifest; a field without the latter consists of other nodes. `default` is a value and the reason for it.
macro_rules! node {
    (
        $(#[doc = $doc:literal])+
        pub struct $name:ident($word:literal $(, span: $span:ty)? $(; $option:ident: $value:expr)*)
        $(derive $derive:ident)?
        {
            $(
                $(#[doc = $line:literal])*
                pub $field:ident: $ty:ty $(= $declared:expr $(, default $default:expr)?)?;
            )*
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq $(, $derive)?)]
        #[allow(missing_docs, reason = "a field without documentation is a node, which has its own")]
        pub struct $name {
            /// The word of the node.
            pub span: $crate::node::node!(@span $($span)?),
            $($(#[doc = $line])* pub $field: $ty,)*
        }

        impl $name {
            const FIELDS: &'static [$crate::declared::Declared] =
                &[$($crate::node::node!(@declared [$($line)*] $ty $(, $declared)?)),*];
        }

        impl $crate::node::NodeType for $name {
            const SPEC: &'static $crate::spec::NodeSpec = {
                use $crate::declared::Declared;
                use $crate::spec::{Arg, NodeSpec, Prop};
                use $crate::table;
                const FIELDS: &[Declared] = <$name>::FIELDS;
                static ARGS: [Arg; table::count_args(FIELDS)] = table::args(FIELDS);
                static PROPS: [Prop; table::count_props(FIELDS, "")] = table::props(FIELDS, "");
                static OWN: &[&NodeSpec] = &[$({
                    const FIELD: Declared = $crate::node::node!(@declared [$($line)*] $ty $(, $declared)?);
                    static ARGS: [Arg; 1] = [FIELD.value_argument()];
                    static PROPS: [Prop; table::count_props(FIELDS, FIELD.name)] =
                        table::props(FIELDS, FIELD.name);
                    static CHILD: NodeSpec = FIELD.child(&ARGS, &PROPS);
                    &CHILD
                }),*];
                static CHILDREN: [&NodeSpec; table::count_children(FIELDS)] =
                    table::child_tables(FIELDS, OWN);
                static SPEC: NodeSpec = NodeSpec {
                    name: $word,
                    doc: $crate::declared::without_first_space(concat!($($doc),+)),
                    args: &ARGS,
                    props: &PROPS,
                    free_props: table::free_props(FIELDS),
                    children: &CHILDREN,
                    declared: FIELDS,
                    $($option: $value,)*
                    ..NodeSpec::LEAF
                };
                &SPEC
            };

            fn read(node: &$crate::ast::Node) -> Option<Self> {
                let mut fields = Self::FIELDS.iter();
                Some(Self {
                    span: $crate::node::word(node),
                    $(
                        $field: <$ty as $crate::node::Part>::read(fields.next()?, node)?
                            $($(.or_default($default.0.into(), $default.1))?)?,
                    )*
                })
            }

            fn key(&self) -> Option<&str> {
                let mut fields = Self::FIELDS.iter();
                $(
                    if fields.next().is_some_and(|field| $crate::node::is_key(field, Self::SPEC)) {
                        return $crate::node::Part::key(&self.$field);
                    }
                )*
                None
            }

            fn visit(&self, path: &str, with: $crate::node::Visitor) {
                let mut fields = Self::FIELDS.iter();
                $(if let Some(field) = fields.next() {
                    $crate::node::Part::visit(&self.$field, field, path, with);
                })*
            }

            fn visit_nodes(&self, with: $crate::node::NodeVisitor) {
                $($crate::node::Part::visit_nodes(&self.$field, with);)*
            }

            fn span(&self) -> Option<trainc_diag::source::Span> {
                self.span.into()
            }

            fn visit_texts(&mut self, with: $crate::node::TextVisitor) {
                let mut fields = Self::FIELDS.iter();
                $(if let Some(field) = fields.next() {
                    $crate::node::Part::visit_texts(&mut self.$field, field, with);
                })*
            }
        }
    };
    (@span) => { trainc_diag::source::Span };
    (@span $span:ty) => { $span };
    (@declared [] $ty:ty) => { $crate::node::nested::<$ty>() };
    (@declared [] $ty:ty, $declared:expr) => { $declared };
    (@declared [$($line:literal)+] $ty:ty, $declared:expr) => { $declared.doc(concat!($($line),+)) };
}
pub(crate) use node;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Cluster, Job, Storage};
    use crate::spec::Ty;
    use trainc_diag::source::SourceId;

    fn spanned<T>(value: T, at: usize) -> Spanned<T> {
        Spanned::new(value, Span::new(SourceId::default(), at, at + 1))
    }

    fn node(
        spec: &'static NodeSpec,
        args: Vec<Value>,
        props: Vec<(&str, Value)>,
        children: Vec<Node>,
    ) -> Node {
        Node {
            spec: Some(spec),
            name: spanned(spec.name.to_owned(), 1),
            span: Span::default(),
            also: Vec::new(),
            duplicates: Vec::new(),
            removed: Vec::new(),
            args: args.into_iter().map(|value| spanned(value, 2)).collect(),
            props: props
                .into_iter()
                .map(|(name, value)| (spanned(name.to_owned(), 3), spanned(value, 4)))
                .collect(),
            children,
        }
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn rows(job: &Job) -> Vec<String> {
        let mut rows = Vec::new();
        job.visit("", &mut |seen| {
            rows.push(format!("{}|{}={}", seen.path, seen.name, seen.value.show(seen.declared)));
        });
        rows
    }

    #[test]
    fn the_table_has_what_is_declared() {
        let volume = Cluster::SPEC.child("volume").unwrap();
        assert_eq!(volume.doc, "EBS volume of each instance");
        assert_eq!(
            volume.args.iter().map(|arg| (arg.name, arg.ty)).collect::<Vec<_>>(),
            [("size", Ty::Bytes)]
        );
        assert_eq!(volume.props.iter().map(|prop| prop.name).collect::<Vec<_>>(), ["kms"]);
        let spot = Cluster::SPEC.child("spot").unwrap();
        assert!(spot.prop("max-wait").unwrap().required);
        let last = Job::SPEC.children.iter().rev().take(3).map(|child| child.name).collect::<Vec<_>>();
        assert_eq!(last, ["allow", "request", "sweep"]);
        assert_eq!(Storage::SPEC.child("export").unwrap().doc, "an S3 prefix that changes are exported to");
    }

    #[test]
    fn values_are_read_and_shown() {
        let cluster = Cluster::SPEC;
        let child = |name: &str| cluster.child(name).unwrap();
        let job = node(
            Job::SPEC,
            vec![text("x")],
            vec![],
            vec![
                node(
                    cluster,
                    vec![text("ml.x")],
                    vec![("nodes", Value::Bad)],
                    vec![
                        node(child("volume"), vec![Value::Bytes(1 << 30)], vec![("kms", text("k"))], vec![]),
                        node(child("spot"), vec![], vec![("max-wait", Value::Milliseconds(1_500))], vec![]),
                        node(child("group"), vec![text("a")], vec![("nodes", Value::Int(2))], vec![]),
                    ],
                ),
                node(Job::SPEC.child("remote-debug").unwrap(), vec![], vec![], vec![]),
            ],
        );
        let mut job = Job::read(&job).unwrap();
        let read = job.cluster.as_ref().unwrap();
        assert_eq!(read.spot.as_ref().unwrap().max_wait_seconds.get(), Some(2));
        assert_eq!(read.max_run_seconds.get(), Some(86_400), "the default");
        assert!(read.nodes.is_bad());
        assert_eq!(job.remote_debug.get(), Some(true), "a switch without argument is on");
        assert_eq!(
            rows(&job),
            [
                "|job=x",
                "cluster|instance=ml.x",
                "cluster|nodes=",
                "cluster|volume=1 GiB",
                "cluster|volume-kms=k",
                "cluster|max-run=1d",
                "cluster.spot|max-wait=2s",
                "cluster.group a|name=a",
                "cluster.group a|nodes=2",
                "|remote-debug=#true",
            ]
        );
        let mut paths = Vec::new();
        job.visit("", &mut |seen| paths.extend(seen.set_path()));
        assert_eq!(
            paths,
            [
                "",
                "cluster",
                "cluster.nodes",
                "cluster.volume",
                "cluster.volume.kms",
                "cluster.max-run",
                "cluster.spot.max-wait",
                "cluster.group.a",
                "cluster.group.a.nodes",
                "remote-debug",
            ]
        );
        let mut addresses = Vec::new();
        job.visit_texts(&mut |_, slot| {
            if let Slot::Address(field) = slot {
                addresses.extend(field.text().map(str::to_owned));
            }
        });
        assert_eq!(addresses, ["k"]);
    }
}
