//! How the settings of a job reach its program.

use super::Scalar;
use std::fmt;
use trainc_diag::source::Span;

/// The settings of a job that decide memory, time, cost or what is trained: those that reach the program, and
/// those that are assumed of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delivery {
    /// The settings that the program gets.
    pub passed: Vec<Passed>,
    /// The settings that the program must have by itself.
    pub assumed: Vec<Assumed>,
}

/// A setting that the program gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    /// Its path, as `train.micro-batch`.
    pub setting: String,
    /// By what.
    pub by: Carrier,
    /// The name that it has there: an option, a variable, a key or a file.
    pub name: String,
    /// The value as the program gets it.
    pub value: Scalar,
}

/// What carries a setting to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A placeholder in an argument.
    Placeholder,
    /// A literal argument, or a literal in the program, under a name that means the setting.
    Literal,
    /// A file that a launcher, a library or the program reads.
    File,
    /// An argument that trainc passes because of `takes`.
    Vocabulary,
    /// A variable that the program reads.
    Variable,
}

impl Carrier {
    /// Returns its word in plan.json.
    pub fn word(self) -> &'static str {
        match self {
            Self::Placeholder => "placeholder",
            Self::Literal => "literal",
            Self::File => "file",
            Self::Vocabulary => "vocabulary",
            Self::Variable => "variable",
        }
    }
}

/// A setting that nothing carries to the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Assumed {
    /// Its path, as `train.micro-batch`.
    pub setting: String,
    /// The planned value.
    pub value: Scalar,
    /// Where it is written.
    pub span: Span,
    /// The placeholder that would carry it, if there is one.
    pub placeholder: Option<&'static str>,
    /// Why it is assumed.
    pub why: WhyAssumed,
}

/// Why a setting is assumed.
#[derive(Clone, Debug, PartialEq)]
pub enum WhyAssumed {
    /// Nothing passes it.
    NotPassed,
    /// The program has a default that is used in its place.
    Default {
        /// The option or field.
        name: String,
        /// The class of a library that declares it, or else the program itself.
        class: Option<String>,
        /// The default.
        value: Scalar,
        /// Whether it is the planned value.
        is_same: bool,
        /// Whether it is an option of the program; else an argument of a call in it.
        is_option: bool,
        /// The placeholder that it takes.
        placeholder: Option<&'static str>,
        /// Where the program declares it.
        span: Option<Span>,
    },
    /// The program gets another value.
    OtherValue {
        /// The option, variable or place.
        name: String,
        /// The value.
        value: Scalar,
    },
    /// The variable that carries it is not read by the program.
    UnreadVariable {
        /// The variable.
        name: String,
    },
}

impl fmt::Display for WhyAssumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPassed => write!(f, "nothing passes it"),
            Self::Default { name, class, value, is_same, .. } => {
                let of = class.as_deref().unwrap_or("the program");
                let value = value.python();
                let same = if *is_same { ", the same value" } else { "" };
                write!(f, "not passed; the default of `{name}` in {of} is {value}{same}")
            }
            Self::OtherValue { name, value } => write!(f, "`{name}` has {}", value.python()),
            Self::UnreadVariable { name } => write!(f, "the program does not read the variable `{name}`"),
        }
    }
}

impl Delivery {
    /// Returns the name of a setting in lists: without `train`.
    pub fn short(setting: &str) -> &str {
        match setting.rsplit_once('.') {
            Some(("train" | "train.optimizer" | "train.precision", name)) => name,
            Some(("train.evaluate", _)) => setting.strip_prefix("train.").unwrap_or(setting),
            _ => setting,
        }
    }
}
