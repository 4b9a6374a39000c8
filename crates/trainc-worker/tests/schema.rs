//! Agreement of `schemas/worker.v1.json` with the types.

use serde_json::{Value, json};
use trainc_worker::config::Config;

use crate::cases::{Place, llama, parse};

/// Checks that the schema has exactly the fields of the value, each with a description.
fn same(schema: &Value, at: &Value, value: &Value, path: &str) {
    let reference = at["$ref"].as_str().or_else(|| at["anyOf"][0]["$ref"].as_str());
    let at = reference.map_or(at, |r| schema.pointer(r.trim_start_matches('#')).unwrap());
    if let Some(choices) = at["oneOf"].as_array() {
        assert!(choices.iter().any(|c| c["const"] == *value), "{path}: {value} is not a choice");
        return;
    }
    let (Some(value), Some(properties)) = (value.as_object(), at["properties"].as_object()) else { return };
    let names = |map: &serde_json::Map<String, Value>| -> Vec<String> {
        let mut names: Vec<String> = map.keys().cloned().collect();
        names.sort();
        names
    };
    assert_eq!(names(value), names(properties), "{path}");
    assert_eq!(at["additionalProperties"], false, "{path}");
    // What older configs lack has a default.
    let defaults = properties.values().filter(|property| !property["default"].is_null()).count();
    assert_eq!(at["required"].as_array().unwrap().len() + defaults, properties.len(), "{path}");
    for (name, value) in value {
        let property = &properties[name];
        let path = format!("{path}.{name}");
        assert!(name == "schema" || property["description"].as_str().is_some_and(|d| d.len() > 3), "{path}");
        same(schema, property, value, &path);
    }
}

#[test]
fn the_schema_matches_the_types() {
    let text = include_str!("../../../schemas/worker.v1.json");
    let schema: Value = serde_json::from_str(text).unwrap();
    let mut config = llama(&Place::new("schema"));
    let value = serde_json::to_value(parse(&config)).unwrap();
    same(&schema, &schema, &value, "worker");
    config["model"]["adapter"] =
        json!({"kind": "lora", "rank": 8, "alpha": 16.0, "dropout": 0.0, "targets": ["qkv"]});
    let parsed: Config = serde_json::from_value(config).unwrap();
    same(&schema, &schema, &serde_json::to_value(parsed).unwrap(), "worker");
}
