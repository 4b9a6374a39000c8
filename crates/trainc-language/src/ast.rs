//! The nodes of a manifest as written, checked against the language's tables; defaults and names are not
//! resolved.

use super::spec::{NodeSpec, Repeat};
use trainc_diag::source::{Span, Spanned};

/// A value of the type that its place requires.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Int(i128),
    /// A number.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// `#null`.
    Null,
    /// A size, bytes.
    Bytes(u64),
    /// A duration, milliseconds.
    Milliseconds(u64),
    /// A rate, bytes per second.
    BytesPerSecond(u64),
    /// A number of steps.
    Steps(u64),
    /// Present but invalid: already reported.
    Bad,
}

/// A repeated node or property where one is allowed: reported, not merged, but still checked.
#[derive(Clone, Debug, PartialEq)]
pub enum Duplicate {
    /// A node of the same name.
    Node(Node),
    /// A property of the same name, with its value.
    Property(Spanned<String>, Spanned<Value>),
}

/// The most duplicates of a node that are kept, which bounds the work.
const MAX_DUPLICATES: usize = 16;

/// A node with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its table; `None` inside `request`.
    pub spec: Option<&'static NodeSpec>,
    /// Its name.
    pub name: Spanned<String>,
    /// The whole node with its children.
    pub span: Span,
    /// The same node in the later layers that were merged into it.
    pub also: Vec<Span>,
    /// Repeated nodes and properties, in addition to those that take effect.
    pub duplicates: Vec<Duplicate>,
    /// The names of the values and nodes in it that `#null` took away, each at its `#null`.
    pub removed: Vec<Spanned<String>>,
    /// Its arguments.
    pub args: Vec<Spanned<Value>>,
    /// Its properties in the order written: name and value.
    pub props: Vec<(Spanned<String>, Spanned<Value>)>,
    /// Its children.
    pub children: Vec<Node>,
}

impl Node {
    /// Makes a parent that is not in the text for a child that is.
    pub fn synthetic(spec: &'static NodeSpec, child: Self) -> Self {
        Self {
            spec: Some(spec),
            name: Spanned::new(spec.name.to_owned(), child.name.span),
            span: child.span,
            also: Vec::new(),
            duplicates: Vec::new(),
            removed: Vec::new(),
            args: Vec::new(),
            props: Vec::new(),
            children: vec![child],
        }
    }

    /// Keeps a repeated node or property.
    pub fn add_duplicate(&mut self, twin: Duplicate) {
        if self.duplicates.len() < MAX_DUPLICATES {
            self.duplicates.push(twin);
        }
    }

    /// Returns the argument at a position.
    pub fn arg(&self, at: usize) -> Option<&Spanned<Value>> {
        self.args.get(at)
    }

    /// Returns the property of that name.
    pub fn prop(&self, name: &str) -> Option<&Spanned<Value>> {
        debug_assert!(
            self.spec.is_none_or(|spec| spec.free_props.is_some() || spec.prop(name).is_some()),
            "`{}` has no property `{name}` in its table",
            self.name.value
        );
        self.props.iter().find(|(key, _)| key.value == name).map(|(_, value)| value)
    }

    /// Returns the first child of that name.
    pub fn child(&self, name: &'static str) -> Option<&Self> {
        self.children_named(name).next()
    }

    /// Returns all children of that name.
    pub fn children_named(&self, name: &'static str) -> impl Iterator<Item = &Self> {
        debug_assert!(
            self.spec.is_none_or(|spec| name == "allow" || spec.child(name).is_some()),
            "`{}` has no child `{name}` in its table",
            self.name.value
        );
        self.children.iter().filter(move |child| child.name.value == name)
    }

    /// Returns the key that distinguishes this node from others of its name, if its table has one.
    pub fn key(&self) -> Option<&str> {
        match self.spec?.repeat {
            Repeat::ByFirst => self.first_text(),
            Repeat::ByName => match self.prop("name").map(|value| &value.value) {
                Some(Value::Text(text)) => Some(text),
                _ => None,
            },
            Repeat::Once | Repeat::Many => None,
        }
    }

    /// Returns the place of the `#null` with which the node takes away that of earlier layers: it is the only
    /// value, apart from a name.
    pub fn removal(&self) -> Option<Span> {
        let spec = self.spec.filter(|spec| spec.is_layered)?;
        let (last, before) = self.args.split_last()?;
        let has_name = !self.props.is_empty();
        let is_name = |key: &str| spec.repeat == Repeat::ByName && key == "name";
        let is_alone = match spec.repeat {
            Repeat::ByFirst => before.len() <= 1,
            Repeat::ByName => before.is_empty() || has_name,
            Repeat::Once | Repeat::Many => before.is_empty(),
        } && self.children.is_empty()
            && self.props.iter().all(|(key, value)| is_name(&key.value) && value.value != Value::Null);
        let is_null = last.value == Value::Null && before.iter().all(|arg| arg.value != Value::Null);
        (is_alone && is_null).then_some(last.span)
    }

    /// Returns whether the node takes away all nodes of its name, of which a layer may have several.
    pub fn removes_all(&self) -> bool {
        let is_keyed = self.spec.is_some_and(|spec| matches!(spec.repeat, Repeat::ByFirst | Repeat::ByName));
        is_keyed && self.key().is_none() && self.removal().is_some()
    }

    /// Returns the place of the `#null` that took away the value or node of that name.
    pub fn removed(&self, name: &str) -> Option<Span> {
        self.removed.iter().find(|one| one.value == name).map(|one| one.span)
    }

    /// Returns the text of the first argument.
    pub fn first_text(&self) -> Option<&str> {
        match self.args.first().map(|arg| &arg.value) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }
}

/// The top-level nodes of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// The `job` node, if the file has one.
    pub job: Option<Node>,
    /// `extends`, in the order written.
    pub extends: Vec<Node>,
    /// `env`, in the order written.
    pub envs: Vec<Node>,
    /// The other top-level nodes, which make the file a layer.
    pub layer: Vec<Node>,
}
