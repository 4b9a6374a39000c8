//! The values of a document, and where they are written.

use std::ops::Range;

/// A key or a value of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The bytes of the text at which it is written; of an alias, those of the value that it stands for.
    pub span: Range<usize>,
    /// Its value.
    pub value: Value,
    /// Its tag, if it is not one of a [`Value`]: `!Ref`, or `tag:yaml.org,2002:set`.
    pub tag: Option<Box<str>>,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Integer(i128),
    /// An integer with more than 128 bits, as it is written.
    BigInteger(Box<str>),
    /// A number with a point or an exponent, infinity, or not a number.
    Float(f64),
    /// A text.
    Text(Box<str>),
    /// A date, a time or both, as it is written.
    Timestamp(Box<str>),
    /// A list.
    Sequence(Vec<Node>),
    /// A map: keys are scalars and unique.
    Mapping(Vec<Entry>),
}

/// A key of a map and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: Node,
    /// Its value.
    pub value: Node,
    /// Where the key is written before, with a value that this one replaces.
    pub replaced: Vec<Range<usize>>,
}

impl Node {
    /// Makes a node without a tag.
    pub(crate) fn new(span: Range<usize>, value: Value) -> Self {
        Self { span, value, tag: None }
    }

    /// Returns the entry of a map with this text as its key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key.as_text() == Some(key))
    }

    /// Returns the text of a text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the entries of a map; other values have none.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Mapping(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the items of a list; other values have none.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::Sequence(items) => items,
            _ => &[],
        }
    }

    /// Calls `visit` with each entry of the value and of what is in it that replaces one with the same key.
    pub fn visit_replaced(&self, visit: &mut impl FnMut(&Entry)) {
        self.items().iter().for_each(|item| item.visit_replaced(visit));
        for entry in self.entries() {
            if !entry.replaced.is_empty() {
                visit(entry);
            }
            entry.value.visit_replaced(visit);
        }
    }

    /// Converts the value to JSON. `tagged` converts a value with a tag, which JSON does not have. Keys
    /// become texts; dates, and numbers that JSON lacks, are texts as Python prints them.
    pub fn to_json(
        &self,
        tagged: &dyn Fn(&str, serde_json::Value) -> serde_json::Value,
    ) -> serde_json::Value {
        use serde_json::Value as Json;
        let value = match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Integer(value) => integer(*value),
            Value::BigInteger(text) | Value::Text(text) | Value::Timestamp(text) => {
                Json::String(text.to_string())
            }
            Value::Float(value) => serde_json::Number::from_f64(*value)
                .map_or_else(|| Json::String(spell_non_finite(*value).to_owned()), Json::Number),
            Value::Sequence(items) => Json::Array(items.iter().map(|item| item.to_json(tagged)).collect()),
            Value::Mapping(entries) => {
                let member = |entry: &Entry| (entry.key.key_text(), entry.value.to_json(tagged));
                Json::Object(entries.iter().map(member).collect())
            }
        };
        match &self.tag {
            Some(tag) => tagged(tag, value),
            None => value,
        }
    }

    /// Returns a key as text.
    pub fn key_text(&self) -> String {
        match &self.value {
            Value::Text(text) | Value::BigInteger(text) | Value::Timestamp(text) => text.to_string(),
            _ => self.to_json(&|_, value| value).to_string(),
        }
    }
}

/// Converts an integer; one beyond 64 bits becomes a float, as JSON readers take it.
fn integer(value: i128) -> serde_json::Value {
    match (i64::try_from(value), u64::try_from(value)) {
        (Ok(value), _) => value.into(),
        (_, Ok(value)) => value.into(),
        _ => serde_json::Number::from_f64(value as f64)
            .map_or_else(|| value.to_string().into(), serde_json::Value::Number),
    }
}

/// Returns how JSON in Python writes a float that JSON lacks.
fn spell_non_finite(value: f64) -> &'static str {
    match value {
        value if value.is_nan() => "NaN",
        value if value > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}
