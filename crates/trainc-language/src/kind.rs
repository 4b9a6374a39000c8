//! The types of values: how each is read from what was written, and shown.

use super::address::Address;
use super::ast::Value;
use super::declared::{Declared, Unit};
use super::node::Slot;
use super::nodes::{CheckpointInterval, EngineName, EvaluationInterval, Recompute, Warmup};
use super::number::python_float;
use super::origin::Field;
use super::scalar::{Raw, Scalar};
use super::spec::Ty;
use super::units::GIB;
use serde_json::Value as Json;
use trainc_diag::text;

/// A value that can be shown.
pub trait Shown {
    /// Shows it, with its unit.
    fn show(&self, declared: &Declared) -> String;

    /// Returns it in the units of requests: sizes in GiB, durations in seconds or as declared.
    fn json(&self, declared: &Declared) -> Json;

    /// Whether it is an address, in which `${account}` stands for the account.
    fn is_address(&self) -> bool {
        false
    }
}

/// A type of values.
pub trait Kind: Shown + Sized {
    /// What a child means that stands without an argument.
    const WITHOUT_ARGUMENT: Option<Self> = None;

    /// Reads a value.
    fn read(value: &Value, declared: &Declared) -> Option<Self>;

    /// Returns the text, if it is one.
    fn text(&self) -> Option<&str> {
        None
    }

    /// Returns the field as a text that may have placeholders.
    fn slot(_: &mut Field<Self>) -> Option<Slot<'_>> {
        None
    }
}

impl Shown for &str {
    fn show(&self, _: &Declared) -> String {
        (*self).to_owned()
    }

    fn json(&self, _: &Declared) -> Json {
        Json::from(*self)
    }
}

impl Shown for String {
    fn show(&self, _: &Declared) -> String {
        self.clone()
    }

    fn json(&self, _: &Declared) -> Json {
        Json::from(self.as_str())
    }
}

impl Kind for String {
    fn read(value: &Value, _: &Declared) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn text(&self) -> Option<&str> {
        Some(self)
    }

    fn slot(field: &mut Field<Self>) -> Option<Slot<'_>> {
        Some(Slot::Text(field))
    }
}

impl Shown for Address {
    fn show(&self, _: &Declared) -> String {
        self.to_string()
    }

    fn json(&self, _: &Declared) -> Json {
        Json::from(self.as_str())
    }

    fn is_address(&self) -> bool {
        true
    }
}

impl Kind for Address {
    fn read(value: &Value, declared: &Declared) -> Option<Self> {
        String::read(value, declared).map(Self::new)
    }

    fn text(&self) -> Option<&str> {
        Some(self)
    }

    fn slot(field: &mut Field<Self>) -> Option<Slot<'_>> {
        Some(Slot::Address(field))
    }
}

impl Shown for u64 {
    fn show(&self, declared: &Declared) -> String {
        match (declared.unit, declared.ty) {
            (Unit::Milliseconds, _) => format!("{self} ms"),
            (Unit::Plain, _) => self.to_string(),
            (Unit::OfType, Ty::Bytes) => text::bytes(*self),
            (Unit::OfType, Ty::Duration) => text::duration(*self),
            (Unit::OfType, Ty::Rate) => format!("{} GB/s", text::short_number(*self as f64 / 1e9)),
            (Unit::OfType | Unit::Count, _) => text::group_digits(*self),
        }
    }

    fn json(&self, declared: &Declared) -> Json {
        Json::from(if declared.ty == Ty::Bytes { self.div_ceil(GIB) } else { *self })
    }
}

impl Kind for u64 {
    fn read(value: &Value, declared: &Declared) -> Option<Self> {
        match value {
            Value::Int(n) => Self::try_from(*n).ok(),
            Value::Bytes(n) | Value::BytesPerSecond(n) => Some(*n),
            Value::Milliseconds(n) if declared.unit == Unit::Milliseconds => Some(*n),
            Value::Milliseconds(n) => Some(n.div_ceil(1_000)),
            _ => None,
        }
    }
}

impl Shown for f64 {
    fn show(&self, _: &Declared) -> String {
        python_float(*self)
    }

    fn json(&self, _: &Declared) -> Json {
        Json::from(*self)
    }
}

impl Kind for f64 {
    fn read(value: &Value, _: &Declared) -> Option<Self> {
        match value {
            Value::Int(n) => Some(*n as Self),
            Value::Float(x) => Some(*x),
            _ => None,
        }
    }
}

impl Shown for bool {
    fn show(&self, _: &Declared) -> String {
        format!("#{self}")
    }

    fn json(&self, _: &Declared) -> Json {
        Json::from(*self)
    }
}

impl Kind for bool {
    const WITHOUT_ARGUMENT: Option<Self> = Some(true);

    fn read(value: &Value, _: &Declared) -> Option<Self> {
        match value {
            Value::Bool(on) => Some(*on),
            _ => None,
        }
    }
}

impl Shown for Scalar {
    fn show(&self, _: &Declared) -> String {
        self.written()
    }

    fn json(&self, _: &Declared) -> Json {
        self.to_json()
    }
}

impl Kind for Scalar {
    const WITHOUT_ARGUMENT: Option<Self> = Some(Self::Bool(true));

    fn read(value: &Value, _: &Declared) -> Option<Self> {
        Self::from_value(value)
    }

    fn slot(field: &mut Field<Self>) -> Option<Slot<'_>> {
        Some(Slot::Scalar(field))
    }
}

impl Shown for Raw {
    fn show(&self, declared: &Declared) -> String {
        match self {
            Self::Scalar(one) => one.value.show(declared),
            Self::List(items) => {
                format!("[{}]", items.iter().map(|item| item.show(declared)).collect::<Vec<_>>().join(", "))
            }
            Self::Object(members) => {
                let shown =
                    members.iter().map(|member| format!("{}: {}", member.name, member.value.show(declared)));
                format!("{{{}}}", shown.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn json(&self, _: &Declared) -> Json {
        self.to_json()
    }
}

/// Names separated by commas.
impl Shown for Vec<String> {
    fn show(&self, _: &Declared) -> String {
        self.join(", ")
    }

    fn json(&self, _: &Declared) -> Json {
        Json::from(self.as_slice())
    }
}

impl Kind for Vec<String> {
    fn read(value: &Value, declared: &Declared) -> Option<Self> {
        let text = String::read(value, declared)?;
        Some(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect())
    }
}

/// Two numbers from 0 to below 1, separated by a comma.
impl Shown for (f64, f64) {
    fn show(&self, _: &Declared) -> String {
        format!("{}, {}", python_float(self.0), python_float(self.1))
    }

    fn json(&self, _: &Declared) -> Json {
        Json::from([self.0, self.1].as_slice())
    }
}

impl Kind for (f64, f64) {
    fn read(value: &Value, declared: &Declared) -> Option<Self> {
        pair_of_fractions(&String::read(value, declared)?)
    }
}

/// Reads two numbers from 0 to below 1, separated by a comma.
pub fn pair_of_fractions(text: &str) -> Option<(f64, f64)> {
    let (a, b) = text.split_once(',')?;
    let (a, b): (f64, f64) = (a.trim().parse().ok()?, b.trim().parse().ok()?);
    ((0.0..1.0).contains(&a) && (0.0..1.0).contains(&b)).then_some((a, b))
}

impl Shown for EngineName {
    fn show(&self, _: &Declared) -> String {
        self.as_str().to_owned()
    }

    fn json(&self, declared: &Declared) -> Json {
        Json::from(self.show(declared))
    }
}

impl Kind for EngineName {
    fn read(value: &Value, declared: &Declared) -> Option<Self> {
        Self::parse(&String::read(value, declared)?)
    }
}

impl Shown for Recompute {
    fn show(&self, _: &Declared) -> String {
        self.word().to_owned()
    }

    fn json(&self, declared: &Declared) -> Json {
        Json::from(self.show(declared))
    }
}

impl Kind for Recompute {
    const WITHOUT_ARGUMENT: Option<Self> = Some(Self::Full);

    fn read(value: &Value, _: &Declared) -> Option<Self> {
        match value {
            Value::Bool(true) => Some(Self::Full),
            Value::Bool(false) => Some(Self::None),
            Value::Text(_) => Some(Self::Selective),
            _ => None,
        }
    }
}

impl Shown for Warmup {
    fn show(&self, _: &Declared) -> String {
        match self {
            Self::Fraction(fraction) => format!("{} of the steps", python_float(*fraction)),
            Self::Steps(steps) => text::count(*steps, "step"),
        }
    }

    fn json(&self, declared: &Declared) -> Json {
        Json::from(self.show(declared))
    }
}

impl Kind for Warmup {
    fn read(value: &Value, _: &Declared) -> Option<Self> {
        match value {
            Value::Steps(n) => Some(Self::Steps(*n)),
            Value::Float(x) => Some(Self::Fraction(*x)),
            _ => None,
        }
    }
}

impl Shown for EvaluationInterval {
    fn show(&self, _: &Declared) -> String {
        match self {
            Self::Steps(steps) => text::count(*steps, "step"),
            Self::Epoch => "epoch".to_owned(),
        }
    }

    fn json(&self, declared: &Declared) -> Json {
        Json::from(self.show(declared))
    }
}

impl Kind for EvaluationInterval {
    fn read(value: &Value, _: &Declared) -> Option<Self> {
        match value {
            Value::Steps(n) => Some(Self::Steps(*n)),
            Value::Text(_) => Some(Self::Epoch),
            _ => None,
        }
    }
}

impl Shown for CheckpointInterval {
    fn show(&self, _: &Declared) -> String {
        match self {
            Self::Steps(steps) => text::count(*steps, "step"),
            Self::Seconds(seconds) => text::duration(*seconds),
            Self::Optimal => "optimal".to_owned(),
        }
    }

    fn json(&self, declared: &Declared) -> Json {
        Json::from(self.show(declared))
    }
}

impl Kind for CheckpointInterval {
    fn read(value: &Value, declared: &Declared) -> Option<Self> {
        match value {
            Value::Steps(n) => Some(Self::Steps(*n)),
            Value::Milliseconds(_) => u64::read(value, declared).map(Self::Seconds),
            Value::Text(_) => Some(Self::Optimal),
            _ => None,
        }
    }
}
