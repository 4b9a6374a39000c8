//! Untyped values: hyperparameters and raw request members.

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
