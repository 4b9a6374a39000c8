//! Reading of documents: UTF-8 or UTF-16; JSON, several JSON documents, JSON with comment lines, YAML with the short functions of
//! CloudFormation.

use super::document;
use serde_json::{Map, Value};

/// Decodes the text of a file. The error says what the file is, if that is known, and what to do instead.
pub fn decode(bytes: &[u8]) -> Result<String, Option<(&'static str, &'static str)>> {
    let units = |rest: &[u8], unit: fn([u8; 2]) -> u16| -> Vec<u16> {
        rest.chunks_exact(2).filter_map(|pair| Some(unit(pair.try_into().ok()?))).collect()
    };
    // PowerShell writes UTF-16.
    let wide = match bytes {
        [0xff, 0xfe, rest @ ..] => Some(units(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => Some(units(rest, u16::from_be_bytes)),
        _ => None,
    };
    let text = match wide {
        Some(units) => String::from_utf16(&units).ok(),
        None => String::from_utf8(bytes.to_vec()).ok(),
    };
    text.ok_or_else(|| document::describe_bytes(bytes))
}

/// Reads JSON, otherwise YAML; the error is that of the JSON parser.
pub(super) fn read(text: &str) -> Result<Value, serde_json::Error> {
    let text = text.trim_start_matches('\u{feff}');
    serde_json::from_str(text).or_else(|error| {
        let plain: String =
            text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        let several = || {
            let documents = serde_json::Deserializer::from_str(&plain)
                .into_iter::<Value>()
                .collect::<Result<Vec<_>, _>>();
            documents.ok().filter(|documents| !documents.is_empty() && documents.iter().all(Value::is_object))
        };
        let found = several().or_else(|| read_yaml(text)).map(|mut documents| match documents.len() {
            1 => documents.remove(0),
            _ => Value::Array(documents),
        });
        found.ok_or(error)
    })
}

/// Reads the documents of a YAML text. A text without a mapping is valid YAML, too.
fn read_yaml(text: &str) -> Option<Vec<Value>> {
    let mut out = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        let mut value: serde_yaml_ng::Value = serde::Deserialize::deserialize(document).ok()?;
        value.apply_merge().ok()?;
        let value = from_yaml(value);
        if !value.is_null() {
            out.push(value);
        }
    }
    (!out.is_empty() && out.iter().all(Value::is_object)).then_some(out)
}

/// Converts YAML to JSON. `!Sub x` becomes `{"Fn::Sub": x}`, as CloudFormation defines its short functions.
fn from_yaml(value: serde_yaml_ng::Value) -> Value {
    use serde_yaml_ng::Value as Yaml;
    match value {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => Value::Bool(value),
        Yaml::Number(value) => serde_json::to_value(&value).unwrap_or(Value::Null),
        Yaml::String(text) => Value::String(text),
        Yaml::Sequence(items) => Value::Array(items.into_iter().map(from_yaml).collect()),
        Yaml::Mapping(members) => {
            let key = |key: Yaml| match from_yaml(key) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            Value::Object(members.into_iter().map(|(name, value)| (key(name), from_yaml(value))).collect())
        }
        Yaml::Tagged(tagged) => {
            let name = tagged.tag.to_string();
            let name = match name.trim_start_matches('!') {
                "Ref" => "Ref".to_owned(),
                other => format!("Fn::{other}"),
            };
            Value::Object(Map::from_iter([(name, from_yaml(tagged.value))]))
        }
    }
}
