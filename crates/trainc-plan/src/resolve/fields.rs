//! Converts the values of a node to fields of the job.

use trainc_diag::source::Spanned;
use trainc_ir::{Field, Origin, Pair, Scalar, Val};
use trainc_syntax::ast::{Node, Value};

pub(super) type WrittenValue<'a> = Option<&'a Spanned<Value>>;

fn convert_field<T>(written: WrittenValue, convert: impl FnOnce(&Value) -> Option<T>) -> Field<T> {
    match written {
        None => Field::Absent,
        Some(spanned) => match convert(&spanned.value) {
            Some(value) => Field::Is(Val { value, origin: Origin::Written(spanned.span) }),
            None => Field::Bad,
        },
    }
}

pub(super) fn text(written: WrittenValue) -> Field<String> {
    convert_field(written, |value| match value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    })
}

/// Reads a comma-separated list.
pub(super) fn comma_list(written: WrittenValue) -> Field<Vec<String>> {
    text(written).map(|text| {
        text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
    })
}

pub(super) fn integer(written: WrittenValue) -> Field<u64> {
    convert_field(written, |value| match value {
        Value::Int(n) => u64::try_from(*n).ok(),
        _ => None,
    })
}

pub(super) fn number(written: WrittenValue) -> Field<f64> {
    convert_field(written, |value| match value {
        Value::Int(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    })
}

pub(super) fn bytes(written: WrittenValue) -> Field<u64> {
    convert_field(written, |value| match value {
        Value::Bytes(n) => Some(*n),
        _ => None,
    })
}

pub(super) fn bytes_per_second(written: WrittenValue) -> Field<u64> {
    convert_field(written, |value| match value {
        Value::BytesPerSecond(n) => Some(*n),
        _ => None,
    })
}

pub(super) fn milliseconds(written: WrittenValue) -> Field<u64> {
    convert_field(written, |value| match value {
        Value::Milliseconds(n) => Some(*n),
        _ => None,
    })
}

/// Reads a duration as seconds, rounded up.
pub(super) fn seconds(written: WrittenValue) -> Field<u64> {
    milliseconds(written).map(|ms| ms.div_ceil(1_000))
}

pub(super) fn scalar(written: WrittenValue) -> Field<Scalar> {
    convert_field(written, scalar_of)
}

pub(super) fn scalar_of(value: &Value) -> Option<Scalar> {
    match value {
        Value::Text(text) => Some(Scalar::Text(text.clone())),
        Value::Int(n) => Some(Scalar::Int(*n)),
        Value::Float(x) => Some(Scalar::Float(*x)),
        Value::Bool(on) => Some(Scalar::Bool(*on)),
        Value::Null => Some(Scalar::Null),
        Value::Bytes(_)
        | Value::Milliseconds(_)
        | Value::BytesPerSecond(_)
        | Value::Steps(_)
        | Value::Bad => None,
    }
}

pub(super) fn boolean(written: WrittenValue) -> Field<bool> {
    convert_field(written, |value| match value {
        Value::Bool(on) => Some(*on),
        _ => None,
    })
}

/// Reads a child that is a switch: its argument, or true without an argument.
pub(super) fn switch_or_true(node: Option<&Node>) -> Field<bool> {
    match node {
        None => Field::Absent,
        Some(node) => match node.arg(0) {
            None => Field::Is(Val::written(true, node.name.span)),
            some => boolean(some),
        },
    }
}

/// Returns the first argument of a child.
pub(super) fn first_arg(node: Option<&Node>) -> WrittenValue<'_> {
    node.and_then(|node| node.arg(0))
}

/// Reads all arguments of a child that are strings.
pub(super) fn text_args(node: Option<&Node>) -> Vec<Val<String>> {
    node.map_or_else(Vec::new, |node| {
        node.args
            .iter()
            .filter_map(|arg| match &arg.value {
                Value::Text(text) => Some(Val::written(text.clone(), arg.span)),
                _ => None,
            })
            .collect()
    })
}

/// Reads free properties as text; numbers and booleans keep their written form.
pub(super) fn free_properties<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Vec<Pair> {
    nodes
        .into_iter()
        .flat_map(|node| &node.props)
        .map(|(key, value)| Pair {
            key: key.value.clone(),
            key_span: key.span,
            value: scalar(Some(value)).map(|scalar| scalar_text(&scalar)),
        })
        .collect()
}

/// Formats a scalar as the value of an environment variable.
fn scalar_text(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Text(text) => text.clone(),
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => trainc_ir::digest::python_float(*x),
        Scalar::Bool(on) => on.to_string(),
        Scalar::Null => String::new(),
    }
}
