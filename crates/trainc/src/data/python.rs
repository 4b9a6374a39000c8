//! Values as Python writes them: chat templates were written for Jinja in Python, and what they print of a number, a
//! truth value or a list is Python's spelling.

use minijinja::value::{Value, ValueKind};
use std::fmt::Write as _;

/// `str(value)`.
pub(super) fn python_str(value: &Value) -> String {
    match value.kind() {
        ValueKind::String => value.as_str().unwrap_or_default().to_owned(),
        ValueKind::Undefined => String::new(),
        _ => repr(value),
    }
}

/// `repr(value)`.
fn repr(value: &Value) -> String {
    match value.kind() {
        ValueKind::None => "None".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::String => quoted(value.as_str().unwrap_or_default()),
        ValueKind::Map => {
            let items: Vec<String> =
                dict_items(value).map(|(key, item)| format!("{}: {}", repr(&key), repr(&item))).collect();
            format!("{{{}}}", items.join(", "))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<String> = value.try_iter().into_iter().flatten().map(|item| repr(&item)).collect();
            match items.as_slice() {
                [item] if value.is_tuple() => format!("({item},)"),
                _ if value.is_tuple() => format!("({})", items.join(", ")),
                _ => format!("[{}]", items.join(", ")),
            }
        }
        _ => value.to_string(),
    }
}

fn dict_items(value: &Value) -> impl Iterator<Item = (Value, Value)> + '_ {
    value.try_iter().into_iter().flatten().map(|key| {
        let item = value.get_item(&key).unwrap_or_default();
        (key, item)
    })
}

/// A string between single quotes, or double ones where it holds a single one, as Python chooses them.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// `json.dumps(value, ensure_ascii=False, indent=indent)`, as `transformers` has the filter `tojson`.
pub(super) fn json(value: &Value, indent: Option<usize>) -> String {
    let mut out = String::new();
    dump(value, indent, 0, &mut out);
    out
}

fn dump(value: &Value, indent: Option<usize>, depth: usize, out: &mut String) {
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::String => string(value.as_str().unwrap_or_default(), out),
        ValueKind::Map => {
            let items: Vec<(Value, Value)> = dict_items(value).collect();
            nest(out, indent, depth, ('{', '}'), items.len(), |out, at| {
                if let Some((key, item)) = items.get(at) {
                    string(&python_str(key), out);
                    out.push_str(": ");
                    dump(item, indent, depth + 1, out);
                }
            });
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter().into_iter().flatten().collect();
            nest(out, indent, depth, ('[', ']'), items.len(), |out, at| {
                if let Some(item) = items.get(at) {
                    dump(item, indent, depth + 1, out);
                }
            });
        }
        _ => out.push_str(&value.to_string()),
    }
}

fn nest(
    out: &mut String,
    indent: Option<usize>,
    depth: usize,
    (open, close): (char, char),
    count: usize,
    mut item: impl FnMut(&mut String, usize),
) {
    let line = |out: &mut String, depth: usize| {
        if let Some(indent) = indent {
            out.push('\n');
            out.push_str(&" ".repeat(indent * depth));
        }
    };
    out.push(open);
    for at in 0..count {
        if at > 0 {
            out.push_str(if indent.is_some() { "," } else { ", " });
        }
        line(out, depth + 1);
        item(out, at);
    }
    if count > 0 {
        line(out, depth);
    }
    out.push(close);
}

fn string(text: &str, out: &mut String) {
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
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
