//! Origins of values. Every value of the plan has one; `plan -v` and diagnostics show it.

use trainc_diag::source::Span;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Written by the user at this span.
    Written(Span),
    /// Not written; the rule that set the default.
    Default(&'static str),
    /// Computed from other values; the text shows the computation.
    Derived(String),
    /// A row of the catalogue.
    Catalogue {
        /// Table and row, such as `instances ml.p4d.24xlarge`.
        row: String,
        /// The source of the row.
        source: String,
        /// The date of the source (ISO date).
        date: String,
    },
}

impl Origin {
    /// Returns the span in a manifest, if the value was written there.
    pub fn span(&self) -> Option<Span> {
        match self {
            Self::Written(span) => Some(*span),
            Self::Default(_) | Self::Derived(_) | Self::Catalogue { .. } => None,
        }
    }
}

/// A value with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Val<T> {
    /// The value.
    pub value: T,
    /// The origin.
    pub origin: Origin,
}

impl<T> Val<T> {
    /// Creates a value that was written at a span.
    pub fn written(value: T, span: Span) -> Self {
        Self { value, origin: Origin::Written(span) }
    }

    /// Creates a value that a rule set by default.
    pub fn default(value: T, rule: &'static str) -> Self {
        Self { value, origin: Origin::Default(rule) }
    }

    /// Creates a value computed from others.
    pub fn derived(value: T, from: impl Into<String>) -> Self {
        Self { value, origin: Origin::Derived(from.into()) }
    }

    /// Returns the span where it was written, otherwise the fallback.
    pub fn span_or(&self, fallback: Span) -> Span {
        self.origin.span().unwrap_or(fallback)
    }
}

/// A field of a node: not written, written but invalid (already reported), or a value.
///
/// Later stages report nothing about `Bad` and process the other fields.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Field<T> {
    /// Not written, and without a default.
    #[default]
    Absent,
    /// Written but invalid; the problem was already reported.
    Bad,
    /// A value.
    Is(Val<T>),
}

impl<T> Field<T> {
    /// Returns the value, if there is one.
    pub fn value(&self) -> Option<&T> {
        self.val().map(|val| &val.value)
    }

    /// Returns the value with its origin, if there is one.
    pub fn val(&self) -> Option<&Val<T>> {
        match self {
            Self::Is(val) => Some(val),
            Self::Absent | Self::Bad => None,
        }
    }

    /// Returns the value for changes in place.
    pub fn value_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Is(val) => Some(&mut val.value),
            Self::Absent | Self::Bad => None,
        }
    }

    /// Returns whether it was not written and has no default.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Returns whether it was written but is invalid.
    pub fn is_bad(&self) -> bool {
        matches!(self, Self::Bad)
    }

    /// Returns the span where it was written.
    pub fn span(&self) -> Option<Span> {
        self.val().and_then(|val| val.origin.span())
    }

    /// Converts the value and keeps its origin.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Field<U> {
        match self {
            Self::Absent => Field::Absent,
            Self::Bad => Field::Bad,
            Self::Is(val) => Field::Is(Val { value: change(val.value), origin: val.origin }),
        }
    }

    /// Sets a default where nothing was written.
    #[must_use]
    pub fn or_default(self, value: T, rule: &'static str) -> Self {
        match self {
            Self::Absent => Self::Is(Val::default(value, rule)),
            other => other,
        }
    }
}

impl<T: Copy> Field<T> {
    /// Returns a copy of the value, if there is one.
    pub fn get(&self) -> Option<T> {
        self.value().copied()
    }
}
