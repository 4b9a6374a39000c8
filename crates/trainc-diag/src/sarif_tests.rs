//! Tests of the SARIF log: a snapshot, required members, and stable fingerprints.

use super::super::samples::{self, QUOTA, Sample, WORLD};
use super::*;
use serde_json::Value;

fn log(sample: &Sample) -> Value {
    serde_json::from_str(&sample.run(|run| super::render(run, Paths::default()))).unwrap()
}

#[test]
fn a_run_as_sarif() {
    insta::assert_snapshot!(
        samples::two_manifests_with_problems().run(|run| super::render(run, Paths::default()))
    );
}

/// The members that the official schema requires of the objects in the log.
#[test]
fn required_members_are_there() {
    for sample in [samples::two_manifests_with_problems(), Sample::default()] {
        let log = log(&sample);
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        assert!(run["tool"]["driver"]["name"].is_string());
        assert_eq!(run["columnKind"], "utf16CodeUnits");
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        for rule in rules {
            assert!(
                rule["id"].is_string()
                    && rule["shortDescription"]["text"].is_string()
                    && rule["help"]["text"].is_string()
            );
        }
        for result in run["results"].as_array().unwrap() {
            assert!(result["message"]["text"].is_string());
            assert!(["error", "warning", "note"].map(Value::from).contains(&result["level"]));
            let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(rules[index]["id"], result["ruleId"]);
            for fix in result["fixes"].as_array().into_iter().flatten() {
                let change = &fix["artifactChanges"][0];
                assert!(change["artifactLocation"]["uri"].is_string());
                assert!(change["replacements"][0]["deletedRegion"]["startLine"].is_u64());
            }
        }
    }
}

#[test]
fn columns_count_utf16_units_and_names_are_escaped() {
    let mut sample = Sample::default();
    let id = sample.sources.add("my jobs/ä.kdl", "a\n😀 x y\n");
    let set = sample.sources.add("<--set x=1>", "x=1");
    sample.manifest(
        "my jobs/ä.kdl",
        vec![
            Diagnostic::new(&WORLD, sample.span_of_text(id, "x"), "m"),
            Diagnostic::new(&QUOTA, sample.span_of_text(set, "1"), "m"),
        ],
    );
    let log = log(&sample);
    let first = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(first["artifactLocation"]["uri"], "my%20jobs/%C3%A4.kdl");
    assert_eq!(
        first["region"],
        serde_json::json!({"startLine": 2, "startColumn": 4, "endLine": 2, "endColumn": 5})
    );
    let second = &log["runs"][0]["results"][1];
    assert_eq!(
        second["locations"][0]["physicalLocation"],
        serde_json::json!({"artifactLocation": {"uri": "my%20jobs/%C3%A4.kdl"}})
    );
    assert_eq!(second["message"]["text"], "m\nin <--set x=1>");
}

fn fingerprints_of(text: &str) -> Vec<String> {
    let mut sample = Sample::default();
    let id = sample.sources.add("a.kdl", text);
    let problems = text
        .match_indices("bad")
        .map(|(at, _)| Diagnostic::new(&WORLD, Span::new(id, at, at + 3), format!("at {at}")));
    let problems = problems.collect();
    sample.manifest("a.kdl", problems);
    let results = log(&sample)["runs"][0]["results"].clone();
    results
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["partialFingerprints"]["trainc/v1"].to_string())
        .collect()
}

#[test]
fn fingerprints_survive_lines_inserted_above() {
    let before = fingerprints_of("x\n  bad 1\n  bad 1\n  bad 2\n");
    assert_eq!(before, fingerprints_of("new\nlines\nx\n\tbad 1\n  bad 1\n  bad 2\n"));
    let distinct: std::collections::BTreeSet<_> = before.iter().collect();
    assert_eq!(distinct.len(), 3);
    assert_ne!(fingerprints_of("bad 1\n"), fingerprints_of("bad 2\n"));
}
