//! Why a value is what it is. Every value of the plan carries one of these; `plan -v` and diagnostics say it.

use trainc_diag::source::Span;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user wrote it, here.
    Written(Span),
    /// Nobody wrote it: the rule that filled it in.
    Default(&'static str),
    /// Computed from other values; the text shows the arithmetic.
    Derived(String),
    /// A row of the catalogue: table and row, source and date.
    Catalogue {
        /// Table and row, as `instances ml.p4d.24xlarge`.
        row: String,
        /// Who says so.
        source: String,
        /// When it was said (ISO date).
        date: String,
    },
}

impl Origin {
    /// The place in a manifest, if the value was written there.
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
    /// Why it is what it is.
    pub origin: Origin,
}

impl<T> Val<T> {
    /// A value that was written at a place.
    pub fn written(value: T, span: Span) -> Self {
        Self { value, origin: Origin::Written(span) }
    }

    /// A value that a rule filled in.
    pub fn default(value: T, rule: &'static str) -> Self {
        Self { value, origin: Origin::Default(rule) }
    }

    /// A value computed from others.
    pub fn derived(value: T, from: impl Into<String>) -> Self {
        Self { value, origin: Origin::Derived(from.into()) }
    }

    /// The place where it was written, else the given one.
    pub fn span_or(&self, fallback: Span) -> Span {
        self.origin.span().unwrap_or(fallback)
    }
}

/// A field of a node: not written, written but unusable (already reported), or a value.
///
/// Later stages stay silent about `Bad` and go on with the rest.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Field<T> {
    /// Nobody wrote it and no rule fills it in.
    #[default]
    Absent,
    /// Written, but its problem was already reported.
    Bad,
    /// Known.
    Is(Val<T>),
}

impl<T> Field<T> {
    /// The value, if it is known.
    pub fn value(&self) -> Option<&T> {
        self.val().map(|val| &val.value)
    }

    /// The value with its origin, if it is known.
    pub fn val(&self) -> Option<&Val<T>> {
        match self {
            Self::Is(val) => Some(val),
            Self::Absent | Self::Bad => None,
        }
    }

    /// The value, to change it in place.
    pub fn value_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Is(val) => Some(&mut val.value),
            Self::Absent | Self::Bad => None,
        }
    }

    /// Whether nobody wrote it.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Whether it was written but is unusable.
    pub fn is_bad(&self) -> bool {
        matches!(self, Self::Bad)
    }

    /// The place where it was written.
    pub fn span(&self) -> Option<Span> {
        self.val().and_then(|val| val.origin.span())
    }

    /// The same with the value changed.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Field<U> {
        match self {
            Self::Absent => Field::Absent,
            Self::Bad => Field::Bad,
            Self::Is(val) => Field::Is(Val { value: change(val.value), origin: val.origin }),
        }
    }

    /// Fills in a default where nothing was written.
    #[must_use]
    pub fn or_default(self, value: T, rule: &'static str) -> Self {
        match self {
            Self::Absent => Self::Is(Val::default(value, rule)),
            other => other,
        }
    }
}

impl<T: Copy> Field<T> {
    /// The value by copy, if it is known.
    pub fn get(&self) -> Option<T> {
        self.value().copied()
    }
}
