//! The table types of the language: the arguments, properties and children of each node.
//!
//! The parser, `trainc schema manifest`, the reference page and the language server all use these tables, so
//! a spelling exists in one place.

use super::declared::Declared;

/// The type of a value in the language.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ty {
    /// A string; placeholders are allowed.
    Text,
    /// A string that the plan depends on, or a name: placeholders have no value there yet.
    Plain,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number between two bounds, both included.
    Int(u64, u64),
    /// A number between two bounds, both included.
    Number(f64, f64),
    /// `#true` or `#false`.
    Bool,
    /// A size with a unit, such as `"500GiB"`.
    Bytes,
    /// A duration with a unit, such as `"5d"`.
    Duration,
    /// A data rate with a unit, such as `"600GB/s"`.
    Rate,
    /// Steps, a duration or a word, such as `"200 steps"`, `"30m"`, `"optimal"`.
    Every,
    /// Steps, or a fraction of the steps, such as `"2000 steps"` or `0.01`.
    Warmup,
    /// Steps, or the word `epoch`, such as `"200 steps"`.
    StepsOrEpoch,
    /// A whole number, 1 or more.
    Count,
    /// `#true`, `#false`, or one of these words.
    BoolOr(&'static [&'static str]),
    /// Any scalar; placeholders are allowed.
    Scalar,
}

impl Ty {
    /// Describes the type for messages: `a size with a unit, such as "500GiB"`.
    pub fn describe_expected(self) -> String {
        match self {
            Self::Text | Self::Plain => "a string".to_owned(),
            Self::Word(words) => trainc_diag::text::backtick_list(words, "or"),
            Self::Int(0, u64::MAX) | Self::Count => "a whole number".to_owned(),
            Self::Int(low, u64::MAX) => format!("a whole number, {low} or more"),
            Self::Int(low, high) => format!("a whole number from {low} to {high}"),
            Self::Number(..) => "a number".to_owned(),
            Self::Bool => "`#true` or `#false`".to_owned(),
            Self::Bytes => "a size with a unit, such as `\"500GiB\"`".to_owned(),
            Self::Duration => "a duration with a unit, such as `\"90m\"` or `\"5d\"`".to_owned(),
            Self::Rate => "a data rate with a unit, such as `\"600GB/s\"`".to_owned(),
            Self::Every => "steps, a duration or `optimal`, such as `\"200 steps\"` or `\"30m\"`".to_owned(),
            Self::Warmup => "steps or a fraction of them, such as `\"2000 steps\"` or `0.01`".to_owned(),
            Self::StepsOrEpoch => "steps or `epoch`, such as `\"200 steps\"`".to_owned(),
            Self::BoolOr(words) => {
                format!("`#true`, `#false` or {}", trainc_diag::text::backtick_list(words, "or"))
            }
            Self::Scalar => "a value".to_owned(),
        }
    }

    /// Returns the name of the type in the schema: `text`, `size`, `whole 1..8`.
    pub fn schema_name(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Plain => "plain".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(" ")),
            Self::Int(low, u64::MAX) => format!("whole {low}.."),
            Self::Int(low, high) => format!("whole {low}..{high}"),
            Self::Number(low, high) if low == f64::MIN && high == f64::MAX => "number".to_owned(),
            Self::Number(low, high) if high == f64::MAX => format!("number {low}.."),
            Self::Number(low, high) => format!("number {low}..{high}"),
            Self::Bool => "bool".to_owned(),
            Self::Bytes => "size".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::Rate => "rate".to_owned(),
            Self::Every => "steps or duration or optimal".to_owned(),
            Self::Warmup => "steps or fraction".to_owned(),
            Self::StepsOrEpoch => "steps or epoch".to_owned(),
            Self::Count => "whole 1..".to_owned(),
            Self::BoolOr(words) => format!("bool or {}", words.join(" ")),
            Self::Scalar => "any".to_owned(),
        }
    }
}

/// A positional argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arg {
    /// Its name, for messages and the schema.
    pub name: &'static str,
    /// Its type.
    pub ty: Ty,
    /// Required once all layers are merged.
    pub required: bool,
    /// May be repeated (only the last argument).
    pub many: bool,
}

/// A property.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prop {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: Ty,
    /// Required once all layers are merged.
    pub required: bool,
    /// One line for the reference.
    pub doc: &'static str,
}

/// The repetition of a node in its parent, with the key that distinguishes two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Once.
    Once,
    /// Many times, distinguished by the first argument.
    ByFirst,
    /// Many times, distinguished by the property `name`.
    ByName,
    /// Many times, without a key.
    Many,
}

/// The paths of a node's values among the origins of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Its name below its parent, with its key where it may be repeated: `cluster.group workers`.
    Keyed,
    /// Its name below its parent, also where it is repeated: `role.read`.
    Together,
    /// Its name after that of its parent: `storage data import`.
    Beside,
    /// As those of its parent.
    OfParent,
}

/// The table of a node.
#[derive(Debug, PartialEq)]
pub struct NodeSpec {
    /// Its name.
    pub name: &'static str,
    /// One line for the reference.
    pub doc: &'static str,
    /// Arguments in order.
    pub args: &'static [Arg],
    /// Properties.
    pub props: &'static [Prop],
    /// The type of properties with any name, if the node takes them (tags, environment).
    pub free_props: Option<Ty>,
    /// Children.
    pub children: &'static [&'static NodeSpec],
    /// Takes children of any name and form (`request`).
    pub free_children: bool,
    /// Its repetition in its parent.
    pub repeat: Repeat,
    /// Mutually exclusive sets of properties, arguments and children, by name. The first name of a set
    /// selects it: a later layer that writes it drops the values of the other sets in earlier layers.
    pub alternatives: &'static [&'static [&'static str]],
    /// Properties that depend on the first argument: a later layer that changes it drops those of earlier
    /// layers.
    pub of_first: &'static [&'static str],
    /// The engines that support a child of `parallel`; `None` for other nodes.
    pub engines: Option<&'static [&'static str]>,
    /// What its values reach that have neither a member nor a placeholder; empty: what its parent reaches.
    pub reaches: &'static str,
    /// Whether it has an effect on SageMaker alone, with all that is in it.
    pub only_sagemaker: bool,
    /// Whether it is in a layer, so that `#null` in it takes away what an earlier layer set.
    pub is_layered: bool,
    /// The paths of its values among the origins of a plan.
    pub rows: Rows,
    /// The declarations of its values, if it was declared with `node!`.
    pub declared: &'static [Declared],
}

impl NodeSpec {
    /// A node that takes nothing, the base of all others.
    pub const LEAF: Self = Self {
        name: "",
        doc: "",
        args: &[],
        props: &[],
        free_props: None,
        children: &[],
        free_children: false,
        repeat: Repeat::Once,
        alternatives: &[],
        of_first: &[],
        engines: None,
        reaches: "",
        only_sagemaker: false,
        is_layered: true,
        rows: Rows::Keyed,
        declared: &[],
    };

    /// Returns the child of that name.
    pub fn child(&self, name: &str) -> Option<&'static NodeSpec> {
        self.children.iter().copied().find(|child| child.name == name)
    }

    /// Returns the property of that name.
    pub fn prop(&self, name: &str) -> Option<&'static Prop> {
        self.props.iter().find(|prop| prop.name == name)
    }

    /// Returns the argument at a position.
    pub fn arg(&self, at: usize) -> Option<&'static Arg> {
        self.args.get(at).or_else(|| self.args.last().filter(|last| last.many))
    }
}

/// Makes a required argument.
pub const fn arg(name: &'static str, ty: Ty) -> Arg {
    Arg { name, ty, required: true, many: false }
}

/// Makes an optional argument.
pub const fn optional_arg(name: &'static str, ty: Ty) -> Arg {
    Arg { name, ty, required: false, many: false }
}

/// Makes a required argument that may be repeated.
pub const fn repeated_arg(name: &'static str, ty: Ty) -> Arg {
    Arg { name, ty, required: true, many: true }
}

/// Makes an optional property.
pub const fn prop(name: &'static str, ty: Ty, doc: &'static str) -> Prop {
    Prop { name, ty, required: false, doc }
}

/// Makes a required property.
pub const fn required_prop(name: &'static str, ty: Ty, doc: &'static str) -> Prop {
    Prop { name, ty, required: true, doc }
}

const ONE_TEXT: &[Arg] = &[arg("value", Ty::Text)];
const ONE_PLAIN: &[Arg] = &[arg("value", Ty::Plain)];
const ONE_BOOL: &[Arg] = &[optional_arg("on", Ty::Bool)];
const ONE_DURATION: &[Arg] = &[arg("duration", Ty::Duration)];
const ONE_BYTES: &[Arg] = &[arg("size", Ty::Bytes)];
const ONE_RATE: &[Arg] = &[arg("rate", Ty::Rate)];
const ONE_COUNT: &[Arg] = &[arg("count", Ty::Count)];
const ONE_SCALAR: &[Arg] = &[arg("value", Ty::Scalar)];

/// Makes a node with one argument and nothing else. A boolean is optional: the node alone means `#true`.
///
/// # Panics
///
/// At compile time, for a type with bounds or words: such a node lists its argument itself.
pub const fn value_node(name: &'static str, ty: Ty, doc: &'static str) -> NodeSpec {
    let args = match ty {
        Ty::Text => ONE_TEXT,
        Ty::Plain => ONE_PLAIN,
        Ty::Bool => ONE_BOOL,
        Ty::Duration => ONE_DURATION,
        Ty::Bytes => ONE_BYTES,
        Ty::Rate => ONE_RATE,
        Ty::Count => ONE_COUNT,
        Ty::Scalar => ONE_SCALAR,
        _ => panic!("a node of this type lists its argument itself"),
    };
    NodeSpec { name, doc, args, ..NodeSpec::LEAF }
}
