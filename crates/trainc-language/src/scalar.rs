//! Untyped values: hyperparameters and raw request members.

use super::ast::{Node, Value};
use super::number::python_float;
use serde_json::Value as Json;
use trainc_diag::source::{Span, Spanned};

/// A scalar, as written or as the value of a placeholder.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// Text.
    Text(String),
    /// A whole number.
    Int(i128),
    /// A number with a point or an exponent.
    Float(f64),
    /// `#true` or `#false`.
    Bool(bool),
    /// `#null`.
    Null,
}

impl Scalar {
    /// Converts a value as written; `None` for sizes and other values with a unit.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(Self::Text(text.clone())),
            Value::Int(n) => Some(Self::Int(*n)),
            Value::Float(x) => Some(Self::Float(*x)),
            Value::Bool(on) => Some(Self::Bool(*on)),
            Value::Null => Some(Self::Null),
            Value::Bytes(_)
            | Value::Milliseconds(_)
            | Value::BytesPerSecond(_)
            | Value::Steps(_)
            | Value::Bad => None,
        }
    }

    /// Converts it to JSON.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Text(text) => Json::from(text.as_str()),
            Self::Int(n) => i64::try_from(*n).map_or_else(|_| Json::from(*n as f64), Json::from),
            Self::Float(x) => Json::from(*x),
            Self::Bool(on) => Json::from(*on),
            Self::Null => Json::Null,
        }
    }

    /// Formats it as Python's `str` does.
    pub fn python(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Int(n) => n.to_string(),
            Self::Float(x) => python_float(*x),
            Self::Bool(true) => "True".to_owned(),
            Self::Bool(false) => "False".to_owned(),
            Self::Null => "None".to_owned(),
        }
    }

    /// Returns a number, also one written as text.
    pub fn number(&self) -> Option<f64> {
        self.python().trim().parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Returns a switch's position, as scripts read it.
    pub fn truth(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Int(0) => Some(false),
            Self::Int(1) => Some(true),
            Self::Text(text) => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" => Some(true),
                "false" | "0" | "no" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// Formats it as in a manifest, a string without its quotes.
    pub fn written(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Int(n) => n.to_string(),
            Self::Float(x) => python_float(*x),
            Self::Bool(on) => format!("#{on}"),
            Self::Null => "#null".to_owned(),
        }
    }

    /// Formats it as the value of an environment variable.
    pub fn as_variable(&self) -> String {
        match self {
            Self::Bool(on) => on.to_string(),
            Self::Null => String::new(),
            Self::Text(_) | Self::Int(_) | Self::Float(_) => self.written(),
        }
    }

    /// Returns the name of its type for messages.
    pub fn type_word(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Int(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Bool(_) => "a boolean",
            Self::Null => "#null",
        }
    }
}

/// The value of a member of `request { … }`.
#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    /// A single value with its span.
    Scalar(Spanned<Scalar>),
    /// `-` children, in order.
    List(Vec<Raw>),
    /// Named children, in order.
    Object(Vec<RequestMember>),
}

impl Raw {
    /// Reads one argument as a scalar, several as a list; `-` children as a list, other children and
    /// properties as an object.
    fn read(node: &Node) -> Self {
        let scalar = |value: &Spanned<Value>| {
            Self::Scalar(Spanned::new(Scalar::from_value(&value.value).unwrap_or(Scalar::Null), value.span))
        };
        let scalars = || node.args.iter().map(scalar);
        if node.children.is_empty() && node.props.is_empty() {
            return match node.args.as_slice() {
                [] => Self::Object(Vec::new()),
                [one] => scalar(one),
                _ => Self::List(scalars().collect()),
            };
        }
        if !node.children.is_empty() && node.children.iter().all(|child| child.name.value == "-") {
            return Self::List(scalars().chain(node.children.iter().map(Self::read)).collect());
        }
        let props = node.props.iter().map(|(key, value)| RequestMember {
            name: key.value.clone(),
            span: key.span,
            value: scalar(value),
        });
        Self::Object(props.chain(node.children.iter().map(RequestMember::read)).collect())
    }

    /// Converts it to JSON.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Scalar(one) => one.value.to_json(),
            Self::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Self::Object(members) => Json::Object(
                members.iter().map(|member| (member.name.clone(), member.value.to_json())).collect(),
            ),
        }
    }

    /// Returns the text of a string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar(Spanned { value: Scalar::Text(text), .. }) => Some(text),
            Self::Scalar(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// Returns the member of an object.
    pub fn member(&self, name: &str) -> Option<&RequestMember> {
        match self {
            Self::Object(members) => members.iter().find(|member| member.name == name),
            Self::Scalar(_) | Self::List(_) => None,
        }
    }
}

/// A member of `request { … }` or a nested one.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestMember {
    /// The AWS name.
    pub name: String,
    /// The span of the name.
    pub span: Span,
    /// Its value.
    pub value: Raw,
}

impl RequestMember {
    /// Reads a member with all that is in it.
    pub(crate) fn read(node: &Node) -> Self {
        Self { name: node.name.value.clone(), span: node.name.span, value: Raw::read(node) }
    }
}
