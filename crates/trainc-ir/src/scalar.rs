//! Values of the user's own: hyperparameters and raw request members.

use trainc_diag::source::{Span, Spanned};

/// A scalar as the user wrote it, or as a placeholder gave it.
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
    /// The word for its type, for messages.
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

/// What stands at a member of `request { … }`.
#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    /// A single value, and where it was written.
    Scalar(Spanned<Scalar>),
    /// `-` children, in order.
    List(Vec<Raw>),
    /// Named children, in order.
    Object(Vec<RequestMember>),
}

impl Raw {
    /// The text, where it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar(Spanned { value: Scalar::Text(text), .. }) => Some(text),
            Self::Scalar(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// The member of an object.
    pub fn member(&self, name: &str) -> Option<&RequestMember> {
        match self {
            Self::Object(members) => members.iter().find(|member| member.name == name),
            Self::Scalar(_) | Self::List(_) => None,
        }
    }
}

/// A member of `request { … }`, or one inside it.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestMember {
    /// The AWS name.
    pub name: String,
    /// Its place.
    pub span: Span,
    /// What stands there.
    pub value: Raw,
}
