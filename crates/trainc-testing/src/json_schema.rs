//! Generates the JSON Schemas of types, and validates documents against the keywords that they use.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::disallowed_methods,
    reason = "only tests call it"
)]

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Checks that a file is the schema of what a type serialises to; `TRAINC_BLESS=1` writes it.
///
/// A member with a default may be absent.
pub fn assert_generated<T: JsonSchema>(path: &Path) {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(tidy));
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    if std::env::var_os("TRAINC_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    assert!(written == text, "{} is not the schema of the types; TRAINC_BLESS=1 writes it", path.display());
}

/// Removes the line breaks of comments and the names of Rust's types, which no validator knows, and requires
/// no member with a default.
fn tidy(schema: &mut Schema) {
    schema.remove("format");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.split("\n\n").map(|one| one.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
    }
    let properties = schema.get("properties").cloned().unwrap_or_default();
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| properties[name.as_str().unwrap()].get("default").is_none());
    }
}

/// Returns the violations of `schema` in `document`, and the members that the schema does not describe.
///
/// Panics on an unknown keyword, so that none is ignored.
pub fn violations(schema: &str, document: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let mut found = Vec::new();
    validate(&schema, &schema, document, "", &mut found);
    found
}

fn validate(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.strip_prefix('#').unwrap()).expect(reference);
        validate(root, target, value, at, found);
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "null" => value.is_null(),
        other => panic!("type {other}"),
    };
    for (keyword, rule) in schema.as_object().unwrap() {
        let holds = match keyword.as_str() {
            "$schema" | "$defs" | "$ref" | "title" | "description" | "default" => true,
            // Members that are not described are violations of every schema.
            "additionalProperties" => true,
            "const" => value == rule,
            "anyOf" | "oneOf" => {
                let rules = rule.as_array().unwrap().iter();
                let mut all: Vec<Vec<String>> = rules
                    .map(|rule| {
                        let mut found = Vec::new();
                        validate(root, rule, value, at, &mut found);
                        found
                    })
                    .collect();
                let valid = all.iter().filter(|found| found.is_empty()).count();
                all.sort_by_key(Vec::len);
                if valid == 0 {
                    // Of the alternative that the value is closest to.
                    found.extend(all.swap_remove(0));
                }
                valid <= 1 || keyword == "anyOf"
            }
            "type" => match rule.as_array() {
                Some(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
                None => is(rule.as_str().unwrap()),
            },
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.is_null() || value.as_f64() >= rule.as_f64(),
            "maximum" => value.is_null() || value.as_f64() <= rule.as_f64(),
            "exclusiveMinimum" => value.is_null() || value.as_f64() > rule.as_f64(),
            "propertyNames" => {
                for name in value.as_object().into_iter().flat_map(serde_json::Map::keys) {
                    validate(root, rule, &Value::from(name.as_str()), &format!("{at}/{name}"), found);
                }
                true
            }
            "pattern" => value
                .as_str()
                .is_none_or(|text| regex::Regex::new(rule.as_str().unwrap()).unwrap().is_match(text)),
            "required" => rule
                .as_array()
                .unwrap()
                .iter()
                .all(|key| value.is_null() || value.get(key.as_str().unwrap()).is_some()),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    validate(root, rule, item, &format!("{at}/{index}"), found);
                }
                true
            }
            "properties" => {
                for (key, member) in value.as_object().into_iter().flatten() {
                    match rule.get(key) {
                        Some(rule) => validate(root, rule, member, &format!("{at}/{key}"), found),
                        None => found.push(format!("{at}/{key} is not described")),
                    }
                }
                true
            }
            other => panic!("keyword {other}"),
        };
        if !holds {
            found.push(format!("{at}: {keyword} {rule}"));
        }
    }
}

/// Collects the names of all members of a document, except those below `facts`, which are free.
pub fn collect_keys(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                into.insert(key.clone());
                if key != "facts" {
                    collect_keys(member, into);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_keys(item, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the names of all members that a schema describes.
pub fn described_keys(schema: &str) -> BTreeSet<String> {
    fn walk(schema: &Value, into: &mut BTreeSet<String>) {
        for (keyword, rule) in schema.as_object().into_iter().flatten() {
            if keyword == "properties" {
                into.extend(rule.as_object().unwrap().keys().cloned());
            }
            walk(rule, into);
        }
    }
    let mut known = BTreeSet::new();
    walk(&serde_json::from_str(schema).unwrap(), &mut known);
    known
}
