//! Values as the SageMaker Python SDK encodes them: `json.dumps` with its default separators.

use trainc_ir::Scalar;
use trainc_ir::digest::python_float;

/// Encodes a scalar like `json.dumps`.
pub fn json(value: &Scalar) -> String {
    match value {
        Scalar::Text(text) => json_text(text),
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => python_float(*x),
        Scalar::Bool(true) => "true".to_owned(),
        Scalar::Bool(false) => "false".to_owned(),
        Scalar::Null => "null".to_owned(),
    }
}

/// Encodes a string like `json.dumps`: other characters than ASCII as `\u` escapes.
pub fn json_text(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                let mut units = [0_u16; 2];
                for unit in c.encode_utf16(&mut units) {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
    out
}

/// Encodes an object of scalars like `json.dumps`, in the given order.
pub fn json_object(members: &[(&str, Scalar)]) -> String {
    let inner: Vec<String> =
        members.iter().map(|(key, value)| format!("{}: {}", json_text(key), json(value))).collect();
    format!("{{{}}}", inner.join(", "))
}

/// Returns a Python literal: `True`, `None`, a number, or a string in double quotes.
pub fn literal(value: &Scalar) -> String {
    match value {
        Scalar::Bool(true) => "True".to_owned(),
        Scalar::Bool(false) => "False".to_owned(),
        Scalar::Null => "None".to_owned(),
        // A JSON string is a Python string literal, escapes included, but for surrogate pairs.
        Scalar::Text(text) => text_literal(text),
        Scalar::Int(_) | Scalar::Float(_) => json(value),
    }
}

/// Returns a Python string literal in double quotes.
pub fn text_literal(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_json_dumps() {
        // Each right side was printed by CPython 3.11 `json.dumps`.
        assert_eq!(json(&Scalar::Text("linear".to_owned())), r#""linear""#);
        assert_eq!(json(&Scalar::Text("é\u{1F600}\"\\".to_owned())), r#""\u00e9\ud83d\ude00\"\\""#);
        assert_eq!(json(&Scalar::Float(1e-5)), "1e-05");
        assert_eq!(
            json_object(&[("ddp", Scalar::Bool(true)), ("partitions", Scalar::Int(1))]),
            r#"{"ddp": true, "partitions": 1}"#
        );
    }
}
