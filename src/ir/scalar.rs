//! Values of the user's own: hyperparameters and raw request members.

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

/// A member of `request { … }`: an AWS member name and what stands there.
#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    /// A single value.
    Scalar(Scalar),
    /// `-` children, in order.
    List(Vec<Raw>),
    /// Named children, in order.
    Object(Vec<(String, Raw)>),
}
