//! The texts of files: YAML as PyYAML reads it, JSON.

use std::fmt::Write;
use trainc_document::{Limits, Value, read_yaml};
use trainc_ir::Scalar;
use trainc_ir::digest::python_float;

/// Keys with their values, in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Map {
    entries: Vec<(String, Entry)>,
}

#[derive(Debug)]
enum Entry {
    Map(Map),
    Value(Scalar),
}

impl Map {
    /// Adds the value of a key with those of the maps around it: `fsdp_config.fsdp_version`.
    pub(super) fn insert(&mut self, key: &str, value: Scalar) {
        let Some((outer, inner)) = key.split_once('.') else {
            self.entries.push((key.to_owned(), Entry::Value(value)));
            return;
        };
        let known = self.entries.iter_mut().find_map(|(name, entry)| match entry {
            Entry::Map(map) if name == outer => Some(map),
            _ => None,
        });
        if let Some(map) = known {
            map.insert(inner, value);
            return;
        }
        let mut map = Self::default();
        map.insert(inner, value);
        self.entries.push((outer.to_owned(), Entry::Map(map)));
    }

    /// Returns it as YAML, in blocks.
    pub(super) fn to_yaml(&self) -> String {
        let mut out = String::new();
        self.write_yaml(&mut out, 0);
        out
    }

    fn write_yaml(&self, out: &mut String, depth: usize) {
        for (key, entry) in &self.entries {
            let _ = write!(out, "{:indent$}{}:", "", yaml_text(key), indent = 2 * depth);
            match entry {
                Entry::Map(map) => {
                    out.push('\n');
                    map.write_yaml(out, depth + 1);
                }
                Entry::Value(value) => {
                    let _ = writeln!(out, " {}", yaml(value));
                }
            }
        }
    }

    /// Returns it as JSON, one key a line.
    pub(super) fn to_json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out, 0);
        out.push('\n');
        out
    }

    fn write_json(&self, out: &mut String, depth: usize) {
        out.push('{');
        for (at, (key, entry)) in self.entries.iter().enumerate() {
            out.push_str(if at == 0 { "\n" } else { ",\n" });
            let _ = write!(out, "{:indent$}{}: ", "", json_text(key), indent = 2 * (depth + 1));
            match entry {
                Entry::Map(map) => map.write_json(out, depth + 1),
                Entry::Value(value) => out.push_str(&json(value)),
            }
        }
        let _ = write!(out, "\n{:indent$}}}", "", indent = 2 * depth);
    }
}

fn yaml(value: &Scalar) -> String {
    match value {
        Scalar::Text(text) => yaml_text(text),
        Scalar::Float(x) => yaml_float(*x),
        other => json(other),
    }
}

/// Returns a number that PyYAML reads as one: its exponents need a point before them.
fn yaml_float(x: f64) -> String {
    let text = python_float(x);
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => text,
    }
}

/// Returns a text without quotes where it is read as that text, else in quotes: `'no'` is a text, and `no` is
/// false.
fn yaml_text(text: &str) -> String {
    let is_plain = read_yaml(text, &Limits::default())
        .is_ok_and(|node| matches!(&node.value, Value::Text(read) if **read == *text));
    if is_plain { text.to_owned() } else { json_text(text) }
}

fn json(value: &Scalar) -> String {
    match value {
        Scalar::Text(text) => json_text(text),
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => python_float(*x),
        Scalar::Bool(on) => on.to_string(),
        Scalar::Null => "null".to_owned(),
    }
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_document::read_json;

    fn text(text: &str) -> Scalar {
        Scalar::Text(text.to_owned())
    }

    #[test]
    fn texts_are_read_as_texts() {
        for word in [
            "no",
            "NO",
            "on",
            "1e5",
            "1_000",
            "0x1f",
            "2026-01-01",
            "null",
            "~",
            "",
            "a: b",
            "# x",
            "'",
            "1:30",
        ] {
            let mut map = Map::default();
            map.insert("key", text(word));
            for node in [
                read_yaml(&map.to_yaml(), &Limits::default()).unwrap(),
                read_json(&map.to_json(), &Limits::default()).unwrap(),
            ] {
                assert_eq!(node.get("key").unwrap().value.as_text(), Some(word), "{}", map.to_yaml());
            }
        }
        let mut map = Map::default();
        map.insert("key", text("no"));
        map.insert("other", text("Qwen3DecoderLayer"));
        assert_eq!(map.to_yaml(), "key: \"no\"\nother: Qwen3DecoderLayer\n");
    }

    #[test]
    fn numbers_are_read_as_numbers() {
        for x in [1e-5, 0.1, 1.0, 2.5e-7, 1e22, 1e16] {
            let mut map = Map::default();
            map.insert("key", Scalar::Float(x));
            let node = read_yaml(&map.to_yaml(), &Limits::default()).unwrap();
            assert_eq!(node.get("key").unwrap().value.value, Value::Float(x), "{}", map.to_yaml());
        }
    }

    #[test]
    fn keys_of_a_map_are_together() {
        let mut map = Map::default();
        map.insert("zero.stage", Scalar::Int(3));
        map.insert("bf16.enabled", Scalar::Bool(true));
        map.insert("zero.offload.device", text("cpu"));
        assert_eq!(
            map.to_json(),
            "{\n  \"zero\": {\n    \"stage\": 3,\n    \"offload\": {\n      \"device\": \
                \"cpu\"\n    }\n  },\n  \"bf16\": {\n    \"enabled\": true\n  }\n}\n"
        );
        assert_eq!(map.to_yaml(), "zero:\n  stage: 3\n  offload:\n    device: cpu\nbf16:\n  enabled: true\n");
    }
}
