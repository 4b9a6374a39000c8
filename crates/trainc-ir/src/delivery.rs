//! How the settings of a job reach its program.

use super::Scalar;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::fmt;
use trainc_diag::source::Span;

/// How the settings that decide memory, time, cost or what is trained reach the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Delivery {
    /// The settings that the program gets.
    pub passed: Vec<Passed>,
    /// The settings that the program must have by itself: an edit of one changes the plan and not the job.
    pub assumed: Vec<Assumed>,
}

/// A setting that the program gets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Passed {
    /// The path of the setting, as `train.micro-batch`.
    pub setting: String,
    /// What carries it.
    pub by: Carrier,
    /// Its name there: an option, a variable, a key, or a place in the program.
    #[serde(rename = "as")]
    pub name: String,
    /// The value as the program gets it.
    #[serde(serialize_with = "serialize_scalar")]
    #[schemars(with = "JsonScalar")]
    pub value: Scalar,
}

/// A scalar in JSON.
#[derive(JsonSchema)]
#[schemars(inline, extend("type" = ["string", "number", "boolean", "null"]))]
struct JsonScalar;

fn serialize_scalar<S: Serializer>(value: &Scalar, serializer: S) -> Result<S::Ok, S::Error> {
    value.to_json().serialize(serializer)
}

/// What carries a setting to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
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

/// A setting that nothing carries to the program.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Assumed {
    /// The path of the setting, as `train.micro-batch`.
    pub setting: String,
    /// The planned value.
    #[serde(serialize_with = "serialize_scalar")]
    #[schemars(with = "JsonScalar")]
    pub value: Scalar,
    /// Where it is written.
    #[serde(skip)]
    pub span: Span,
    /// The placeholder that would carry it, if there is one.
    #[serde(skip)]
    pub placeholder: Option<&'static str>,
    /// Why it is assumed.
    #[serde(serialize_with = "serialize_text")]
    #[schemars(with = "String")]
    pub why: WhyAssumed,
}

fn serialize_text<S: Serializer>(text: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(text)
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

impl WhyAssumed {
    /// Returns whether the program has a default that differs from the plan.
    pub fn is_other_default(&self) -> bool {
        matches!(self, Self::Default { is_same: false, .. })
    }
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
