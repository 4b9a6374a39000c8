//! Values as Python writes them: chat templates were written for Jinja in Python, and what they print of a
//! number, a truth value or a list is Python's spelling.

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
        _ => number(value, ["nan", "inf"]),
    }
}

/// A number; `nan` and `infinite` are how the format writes such floats. Python writes floats from 1e16 and
/// below 1e-4 with an exponent of at least two digits (`float.__repr__`).
fn number(value: &Value, [nan, infinite]: [&str; 2]) -> String {
    let Some(float) = f64::try_from(value.clone())
        .ok()
        .filter(|_| value.kind() == ValueKind::Number && !value.is_integer())
    else {
        return value.to_string();
    };
    if float.is_nan() {
        return nan.to_owned();
    }
    if float.is_infinite() {
        return format!("{}{infinite}", if float < 0.0 { "-" } else { "" });
    }
    let text = format!("{float:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    match exponent.parse::<i32>() {
        Ok(exponent) if float != 0.0 && !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{float:?}"),
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

/// Arguments of `json.dumps`.
pub(super) struct JsonStyle {
    pub indent: Option<usize>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

/// `json.dumps(value, ensure_ascii=False, …)`, as `transformers` has the filter `tojson`.
pub(super) fn json(value: &Value, style: &JsonStyle) -> String {
    let mut out = String::new();
    style.dump(value, 0, &mut out);
    out
}

impl JsonStyle {
    fn dump(&self, value: &Value, depth: usize, out: &mut String) {
        match value.kind() {
            ValueKind::None | ValueKind::Undefined => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::String => string(value.as_str().unwrap_or_default(), out),
            ValueKind::Map => {
                let mut items: Vec<(Value, Value)> = dict_items(value).collect();
                if self.sort_keys {
                    items.sort_by(|one, other| one.0.cmp(&other.0));
                }
                self.nest(out, depth, ('{', '}'), &items, |out, (key, item)| {
                    string(&python_str(key), out);
                    out.push_str(&self.key_separator);
                    self.dump(item, depth + 1, out);
                });
            }
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter().into_iter().flatten().collect();
                self.nest(out, depth, ('[', ']'), &items, |out, item| self.dump(item, depth + 1, out));
            }
            _ => out.push_str(&number(value, ["NaN", "Infinity"])),
        }
    }

    fn nest<T>(
        &self,
        out: &mut String,
        depth: usize,
        (open, close): (char, char),
        items: &[T],
        write: impl Fn(&mut String, &T),
    ) {
        let line = |out: &mut String, depth: usize| {
            if let Some(indent) = self.indent {
                out.push('\n');
                out.push_str(&" ".repeat(indent * depth));
            }
        };
        out.push(open);
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                out.push_str(&self.item_separator);
            }
            line(out, depth + 1);
            write(out, item);
        }
        if !items.is_empty() {
            line(out, depth);
        }
        out.push(close);
    }
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
