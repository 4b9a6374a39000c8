//! Validates documents against the keywords of JSON Schema that trainc's schemas use.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "only tests call it")]

use serde_json::Value;
use std::collections::BTreeSet;

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
            "$schema" | "$defs" | "$ref" | "title" | "description" => true,
            "type" => match rule.as_array() {
                Some(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
                None => is(rule.as_str().unwrap()),
            },
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.is_null() || value.as_f64() >= rule.as_f64(),
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
