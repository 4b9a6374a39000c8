//! The JSON form against its picture and against its schema.

use super::super::samples::{self, Sample, WORLD};
use super::*;
use serde_json::Value;

#[test]
fn a_run_as_json() {
    insta::assert_snapshot!(samples::usual().run(super::run));
}

#[test]
fn odd_places_stay_inside_the_text() {
    let mut sources = SourceMap::default();
    let id = sources.add("a.kdl", "ä\n");
    let at = |start, end| {
        let Place {
            start,
            end,
            line,
            column,
            ..
        } = place(
            &sources,
            Span {
                source: id,
                start,
                end,
            },
        );
        (start, end, line, column)
    };
    assert_eq!(at(1, 1), (0, 2, 1, 1));
    assert_eq!(at(3, 3), (3, 3, 2, 1));
    assert_eq!(at(70, 60), (3, 3, 2, 1));
    let elsewhere = Span::whole(crate::source::SourceId(7));
    assert_eq!(place(&sources, elsewhere).file, "");
}

/// What the schema says against a document: both what it forbids and what it does not know.
///
/// Takes the keywords that the schema uses and stops at any other, so that none is passed over.
fn judge(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root
            .pointer(reference.strip_prefix('#').unwrap())
            .expect(reference);
        judge(root, target, value, at, found);
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
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
            "minimum" => value.as_i64() >= rule.as_i64(),
            "pattern" => value.as_str().is_none_or(|text| {
                regex::Regex::new(rule.as_str().unwrap())
                    .unwrap()
                    .is_match(text)
            }),
            "required" => rule
                .as_array()
                .unwrap()
                .iter()
                .all(|key| value.get(key.as_str().unwrap()).is_some()),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    judge(root, rule, item, &format!("{at}/{index}"), found);
                }
                true
            }
            "properties" => {
                for (key, member) in value.as_object().unwrap() {
                    match rule.get(key) {
                        Some(rule) => judge(root, rule, member, &format!("{at}/{key}"), found),
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

fn against_schema(document: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let mut found = Vec::new();
    judge(&schema, &schema, document, "", &mut found);
    found
}

#[test]
fn the_schema_describes_every_document() {
    let mut bare = Sample::default();
    bare.sources.add("x.kdl", "");
    bare.manifest(
        "x.kdl",
        vec![Diagnostic::new(
            &WORLD,
            Span::whole(crate::source::SourceId(0)),
            "empty",
        )],
    );
    for sample in [samples::usual(), Sample::default(), bare] {
        let document = sample.run(|run| serde_json::to_value(document(run)).unwrap());
        assert_eq!(against_schema(&document), Vec::<String>::new());
    }
}

#[test]
fn the_schema_sees_what_is_wrong() {
    let good = samples::usual().run(|run| serde_json::to_value(document(run)).unwrap());
    let without_help = |document: &mut Value| {
        document["manifests"][0]["problems"][0]
            .as_object_mut()
            .unwrap()
            .remove("help");
    };
    let edits: [&dyn Fn(&mut Value); 5] = [
        &without_help,
        &|document| document["manifests"][0]["problems"][0]["line"] = 0.into(),
        &|document| document["manifests"][0]["problems"][0]["code"] = "E301".into(),
        &|document| document["manifests"][0]["problems"][0]["severity"] = "fatal".into(),
        &|document| document["summary"]["hints"] = 1.into(),
    ];
    for edit in edits {
        let mut bad = good.clone();
        edit(&mut bad);
        assert_eq!(against_schema(&bad).len(), 1, "{bad}");
    }
}

/// Every member that the schema describes is written by some document, and the other way round.
#[test]
fn the_schema_describes_no_more_than_is_written() {
    fn keys(value: &Value, into: &mut std::collections::BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    into.insert(key.clone());
                    if key != "facts" {
                        keys(member, into);
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| keys(item, into)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    fn described(schema: &Value, into: &mut std::collections::BTreeSet<String>) {
        for (keyword, rule) in schema.as_object().into_iter().flatten() {
            if keyword == "properties" {
                into.extend(rule.as_object().unwrap().keys().cloned());
            }
            described(rule, into);
        }
    }
    let (mut written, mut known) = Default::default();
    samples::usual().run(|run| keys(&serde_json::to_value(document(run)).unwrap(), &mut written));
    described(&serde_json::from_str(SCHEMA).unwrap(), &mut known);
    assert_eq!(written, known);
}
