//! A writer of KDL nodes, in the style of the examples.

use serde_json::Value;
use trainc_ir::{ACCOUNT_MARK, address};

/// A node of the generated manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    /// Comment lines above the node, without `//`.
    comments: Vec<String>,
    /// A blank line precedes the node.
    blank_line: bool,
    name: String,
    /// Arguments and properties, as literals.
    entries: Vec<String>,
    children: Vec<Node>,
    /// An empty block is written.
    block: bool,
}

impl Node {
    /// Creates a node with only a name.
    pub(super) fn new(name: &str) -> Self {
        Self { name: name_literal(name), ..Self::default() }
    }

    /// Creates a node with one string argument.
    pub(super) fn text(name: &str, value: &str) -> Self {
        Self::new(name).arg(&string(value))
    }

    /// Creates comment lines without a node.
    pub(super) fn comment(lines: &[&str]) -> Self {
        Self { comments: lines.iter().map(|line| (*line).to_owned()).collect(), ..Self::default() }
    }

    /// Adds an argument, given as a literal.
    pub(super) fn arg(mut self, literal: &str) -> Self {
        self.entries.push(literal.to_owned());
        self
    }

    /// Adds a property with its value as a literal.
    pub(super) fn prop(mut self, name: &str, literal: &str) -> Self {
        self.entries.push(format!("{}={literal}", name_literal(name)));
        self
    }

    /// Adds a string property if there is a value; its braces are escaped.
    pub(super) fn prop_if_some(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.prop(name, &string(&escape_placeholders(value))),
            None => self,
        }
    }

    /// Adds a comment line above the node.
    pub(super) fn with_comment(mut self, line: &str) -> Self {
        self.comments.push(line.to_owned());
        self
    }

    /// Adds a comment line above the node if there is one.
    pub(super) fn with_comment_if_some(self, line: Option<&str>) -> Self {
        match line {
            Some(line) => self.with_comment(line),
            None => self,
        }
    }

    /// Adds a blank line before the node.
    pub(super) fn with_blank_line(mut self) -> Self {
        self.blank_line = true;
        self
    }

    /// Adds children.
    pub(super) fn children(mut self, children: Vec<Self>) -> Self {
        self.children.extend(children);
        self
    }

    /// Adds a child.
    pub(super) fn child(mut self, child: Self) -> Self {
        self.children.push(child);
        self
    }

    /// Replaces the second argument of a child, given by its name and its first one.
    pub(super) fn set_value_of(&mut self, child: &str, first: &str, literal: &str) {
        let (name, first) = (name_literal(child), string(&escape_placeholders(first)));
        let is_it = |node: &&mut Self| node.name == name && node.entries.first() == Some(&first);
        let value = self.children.iter_mut().find(is_it).and_then(|node| node.entries.get_mut(1));
        if let Some(value) = value {
            literal.clone_into(value);
        }
    }

    /// Returns whether the node has this name.
    pub(super) fn is(&self, name: &str) -> bool {
        self.name == name_literal(name)
    }

    /// Returns whether the node has only a name.
    pub(super) fn is_bare(&self) -> bool {
        self.entries.is_empty() && self.children.is_empty()
    }

    /// Writes the node and its children.
    pub(super) fn write(&self, indent: usize, out: &mut String) {
        let margin = " ".repeat(indent);
        if self.blank_line && !out.ends_with("{\n") && !out.is_empty() {
            out.push('\n');
        }
        for line in &self.comments {
            // A line end would end the comment.
            out.push_str(format!("{margin}// {}", escape_line(line)).trim_end());
            out.push('\n');
        }
        if self.name.is_empty() {
            return;
        }
        out.push_str(&margin);
        out.push_str(&self.name);
        for entry in &self.entries {
            out.push(' ');
            out.push_str(entry);
        }
        if !self.children.is_empty() || self.block {
            out.push_str(" {\n");
            for child in &self.children {
                child.write(indent + 4, out);
            }
            out.push_str(&margin);
            out.push('}');
        }
        out.push('\n');
    }
}

/// Returns a name, unquoted if possible.
fn name_literal(name: &str) -> String {
    let bare = name == "-"
        || (name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
            && !matches!(name, "true" | "false" | "null" | "inf" | "nan"));
    if bare || name.is_empty() { name.to_owned() } else { string(name) }
}

/// Escapes invisible characters of a line outside a literal.
pub(super) fn escape_line(line: &str) -> String {
    line.chars().map(|c| escape_invisible(c).unwrap_or_else(|| c.to_string())).collect()
}

/// Returns the escape sequence of an invisible character: line breaks, control and bidirectional formatting
/// characters.
fn escape_invisible(c: char) -> Option<String> {
    Some(match c {
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        c if c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}') =>
        {
            format!("\\u{{{:x}}}", u32::from(c))
        }
        _ => return None,
    })
}

/// Returns a string literal.
pub(super) fn string(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c => match escape_invisible(c) {
                Some(written) => out.push_str(&written),
                None => out.push(c),
            },
        }
    }
    out.push('"');
    out
}

/// Marks the digest in strings of a job created by trainc until they are written.
pub(super) const DIGEST: &str = "{\u{e000}digest\u{e000}}";

/// Escapes the braces of a string in which `{{` starts a placeholder, and inserts the digest's placeholder.
/// In an S3 URI also escapes `${`, except where it is the account's placeholder.
pub(super) fn escape_placeholders(value: &str) -> String {
    let text = value.replace("{{", "{{ \"{{\" }}");
    let text = match address::substitution_end(&text).and_then(|end| text.split_at_checked(end)) {
        Some((head, tail)) => {
            let parts: Vec<String> = head.split(ACCOUNT_MARK).map(escape_dollars).collect();
            parts.join(ACCOUNT_MARK) + &escape_dollars(tail)
        }
        None => text,
    };
    text.replace(DIGEST, "{{ job.digest }}")
}

fn escape_dollars(text: &str) -> String {
    text.replace("${", "{{ '${' }}")
}

/// Returns an integer literal if trainc would write the same text, otherwise a string literal.
pub(super) fn integer_or_string(value: &str) -> String {
    match value.parse::<i64>() {
        Ok(number) if number.to_string() == value => value.to_owned(),
        _ => string(&escape_placeholders(value)),
    }
}

/// Returns a JSON scalar as a literal; `None` for lists and objects.
pub(super) fn literal(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => "#null".to_owned(),
        Value::Bool(true) => "#true".to_owned(),
        Value::Bool(false) => "#false".to_owned(),
        Value::Number(number) => float(number),
        Value::String(text) => string(text),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

/// Formats a number without needless zeros in the exponent, keeping the decimal point of a float.
fn float(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => {
            trainc_ir::digest::python_float(value).replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
        }
        _ => number.to_string(),
    }
}

/// Returns a member of `request { … }`; `None` for an empty list, which cannot be written. Null leaves a
/// member out.
pub(super) fn member(name: &str, value: &Value) -> Option<Node> {
    match value {
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => {
            Some(Node::new(name).children(items.iter().filter_map(|item| member("-", item)).collect()))
        }
        Value::Object(members) => {
            let children: Vec<Node> = members.iter().filter_map(|(key, value)| member(key, value)).collect();
            Some(Node::new(name).children(children))
        }
        Value::String(text) => Some(Node::text(name, &escape_placeholders(text))),
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_)) => {
            Some(Node::new(name).arg(&literal(scalar)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_strings() {
        assert_eq!(string("a\"b\\c\n"), r#""a\"b\\c\n""#);
        assert_eq!(name_literal("train.save_interval"), "train.save_interval");
        assert_eq!(name_literal("two words"), "\"two words\"");
        assert_eq!(escape_placeholders("{{ x }}"), "{{ \"{{\" }} x }}");
        assert_eq!(
            escape_placeholders("s3://a-${account}/${account}/x"),
            "s3://a-${account}/{{ '${' }}account}/x"
        );
        assert_eq!(escape_placeholders("echo ${HOME}"), "echo ${HOME}");
        assert_eq!(literal(&serde_json::json!(2e-4)).as_deref(), Some("0.0002"));
        assert_eq!(literal(&serde_json::json!(1e-5)).as_deref(), Some("1e-5"));
        assert_eq!(literal(&serde_json::json!(1.0)).as_deref(), Some("1.0"));
    }

    #[test]
    fn writes_members() {
        let node = member("A", &serde_json::json!({"B": ["x"], "C": {"D": 1}, "E": []})).unwrap();
        let mut out = String::new();
        node.write(0, &mut out);
        assert_eq!(out, "A {\n    B {\n        - \"x\"\n    }\n    C {\n        D 1\n    }\n}\n");
    }
}
