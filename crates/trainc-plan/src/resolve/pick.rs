//! From a node's values to fields: the conversions that every noun needs.

use trainc_diag::source::Spanned;
use trainc_ir::{Field, Origin, Pair, Scalar, Val};
use trainc_syntax::ast::{Node, Value};

pub(super) type Written<'a> = Option<&'a Spanned<Value>>;

fn field<T>(written: Written, convert: impl FnOnce(&Value) -> Option<T>) -> Field<T> {
    match written {
        None => Field::Absent,
        Some(spanned) => match convert(&spanned.value) {
            Some(value) => Field::Is(Val { value, origin: Origin::Written(spanned.span) }),
            None => Field::Bad,
        },
    }
}

pub(super) fn text(written: Written) -> Field<String> {
    field(written, |value| match value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    })
}

/// A comma-separated list.
pub(super) fn words(written: Written) -> Field<Vec<String>> {
    text(written).map(|text| {
        text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
    })
}

pub(super) fn whole(written: Written) -> Field<u64> {
    field(written, |value| match value {
        Value::Int(n) => u64::try_from(*n).ok(),
        _ => None,
    })
}

pub(super) fn number(written: Written) -> Field<f64> {
    field(written, |value| match value {
        Value::Int(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    })
}

pub(super) fn bytes(written: Written) -> Field<u64> {
    field(written, |value| match value {
        Value::Bytes(n) => Some(*n),
        _ => None,
    })
}

pub(super) fn rate(written: Written) -> Field<u64> {
    field(written, |value| match value {
        Value::BytesPerSecond(n) => Some(*n),
        _ => None,
    })
}

pub(super) fn milliseconds(written: Written) -> Field<u64> {
    field(written, |value| match value {
        Value::Milliseconds(n) => Some(*n),
        _ => None,
    })
}

/// Whole seconds, rounded up.
pub(super) fn seconds(written: Written) -> Field<u64> {
    milliseconds(written).map(|ms| ms.div_ceil(1_000))
}

pub(super) fn scalar(written: Written) -> Field<Scalar> {
    field(written, scalar_of)
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

pub(super) fn boolean(written: Written) -> Field<bool> {
    field(written, |value| match value {
        Value::Bool(on) => Some(*on),
        _ => None,
    })
}

/// A child that is a switch: absent, or its argument, or on when it stands alone.
pub(super) fn switch(node: Option<&Node>) -> Field<bool> {
    match node {
        None => Field::Absent,
        Some(node) => match node.arg(0) {
            None => Field::Is(Val::written(true, node.name.span)),
            some => boolean(some),
        },
    }
}

/// The first argument of a child.
pub(super) fn first(node: Option<&Node>) -> Written<'_> {
    node.and_then(|node| node.arg(0))
}

/// All arguments of a child, as texts.
pub(super) fn texts(node: Option<&Node>) -> Vec<Val<String>> {
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

/// Properties of any name, as texts; numbers and booleans in their written form.
pub(super) fn pairs<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Vec<Pair> {
    nodes
        .into_iter()
        .flat_map(|node| &node.props)
        .map(|(key, value)| Pair {
            key: key.value.clone(),
            key_span: key.span,
            value: scalar(Some(value)).map(|scalar| plain(&scalar)),
        })
        .collect()
}

/// The text of a scalar where only text fits: an environment variable.
fn plain(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Text(text) => text.clone(),
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => trainc_ir::digest::python_float(*x),
        Scalar::Bool(on) => on.to_string(),
        Scalar::Null => String::new(),
    }
}
