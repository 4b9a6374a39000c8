//! Python expressions, formatted on one line if they fit, else with one item per line.

use crate::python::text_literal;
use serde_json::Value;
use trainc_ir::digest::python_float;

/// The maximum line length of the script.
const WIDTH: usize = 110;

/// A Python expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    /// Python source.
    Plain(String),
    /// `[…]`.
    List(Vec<Expression>),
    /// `{"key": …}`, in the given order.
    Dict(Vec<(String, Expression)>),
    /// `name(…)`: positional arguments have an empty name.
    Call(String, Vec<(String, Expression)>),
}

impl Expression {
    /// Returns a string literal.
    pub(crate) fn text(value: &str) -> Self {
        Self::Plain(text_literal(value))
    }

    /// Converts a JSON value.
    pub(crate) fn json(value: &Value) -> Self {
        match value {
            Value::Null => Self::Plain("None".to_owned()),
            Value::Bool(true) => Self::Plain("True".to_owned()),
            Value::Bool(false) => Self::Plain("False".to_owned()),
            Value::Number(number) => Self::Plain(match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (None, None, Some(float)) => python_float(float),
                _ => number.to_string(),
            }),
            Value::String(text) => Self::text(text),
            Value::Array(items) => Self::List(items.iter().map(Self::json).collect()),
            Value::Object(members) => {
                Self::Dict(members.iter().map(|(key, value)| (key.clone(), Self::json(value))).collect())
            }
        }
    }

    /// Formats the expression from a column on, in a line with an indentation.
    pub(crate) fn format_wrapped(&self, indent: usize, column: usize) -> String {
        let flat = self.format_one_line();
        // Calls and many members are easier to read line by line, even if they would fit.
        if column + flat.chars().count() < WIDTH && !self.needs_line_breaks() {
            return flat;
        }
        let (open, items, close): (String, Vec<(String, &Self)>, &str) = match self {
            Self::Plain(text) => return text.clone(),
            Self::List(items) => {
                ("[".to_owned(), items.iter().map(|item| (String::new(), item)).collect(), "]")
            }
            Self::Dict(items) => (
                "{".to_owned(),
                items.iter().map(|(key, item)| (format!("{}: ", text_literal(key)), item)).collect(),
                "}",
            ),
            Self::Call(name, items) => (
                format!("{name}("),
                items
                    .iter()
                    .map(|(key, item)| (if key.is_empty() { String::new() } else { format!("{key}=") }, item))
                    .collect(),
                ")",
            ),
        };
        let inner = indent + 4;
        let mut out = open;
        for (lead, item) in items {
            let start = format!("{}{lead}", " ".repeat(inner));
            let column = start.chars().count();
            out.push('\n');
            out.push_str(&start);
            out.push_str(&item.format_wrapped(inner, column));
            out.push(',');
        }
        out.push('\n');
        out.push_str(&" ".repeat(indent));
        out.push_str(close);
        out
    }

    fn needs_line_breaks(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::List(items) => {
                items.iter().any(|item| matches!(item, Self::Dict(_) | Self::Call(..))) && items.len() > 1
            }
            Self::Dict(items) => items.len() > 4,
            Self::Call(_, items) => items.len() > 5,
        }
    }

    fn format_one_line(&self) -> String {
        match self {
            Self::Plain(text) => text.clone(),
            Self::List(items) => {
                format!("[{}]", items.iter().map(Self::format_one_line).collect::<Vec<_>>().join(", "))
            }
            Self::Dict(items) => {
                let items: Vec<String> = items
                    .iter()
                    .map(|(key, item)| format!("{}: {}", text_literal(key), item.format_one_line()))
                    .collect();
                format!("{{{}}}", items.join(", "))
            }
            Self::Call(name, items) => {
                let items: Vec<String> = items
                    .iter()
                    .map(|(key, item)| {
                        if key.is_empty() {
                            item.format_one_line()
                        } else {
                            format!("{key}={}", item.format_one_line())
                        }
                    })
                    .collect();
                format!("{name}({})", items.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_expressions_stay_on_one_line() {
        let code = Expression::json(&serde_json::json!({"a": [1, 2.5, true, null], "b": "x\"y"}));
        assert_eq!(code.format_wrapped(0, 0), r#"{"a": [1, 2.5, True, None], "b": "x\"y"}"#);
    }

    #[test]
    fn long_expressions_take_a_line_per_item() {
        let code = Expression::Call(
            "f".to_owned(),
            (0..6).map(|n| (format!("a{n}"), Expression::Plain(n.to_string()))).collect(),
        );
        assert_eq!(
            code.format_wrapped(0, 4),
            "f(\n    a0=0,\n    a1=1,\n    a2=2,\n    a3=3,\n    a4=4,\n    a5=5,\n)"
        );
    }
}
