//! Tests of the JSON document: a snapshot, and its schema.

use super::super::samples::{self, Sample, WORLD};
use super::*;
use serde_json::Value;
use trainc_testing::json_schema;

#[test]
fn a_run_as_json() {
    insta::assert_snapshot!(samples::two_manifests_with_problems().run(super::render));
}

#[test]
fn invalid_spans_are_clamped_to_the_text() {
    let mut sources = SourceMap::default();
    let id = sources.add("a.kdl", "ä\n");
    let at = |start, end| {
        let Place { start, end, line, column, .. } = place(&sources, Span { source: id, start, end });
        (start, end, line, column)
    };
    assert_eq!(at(1, 1), (0, 2, 1, 1));
    assert_eq!(at(3, 3), (3, 3, 2, 1));
    assert_eq!(at(70, 60), (3, 3, 2, 1));
    let other_map = Span::whole(crate::source::SourceId(7));
    assert_eq!(place(&sources, other_map).file, "");
}

fn schema_violations(document: &Value) -> Vec<String> {
    json_schema::violations(SCHEMA, document)
}

#[test]
fn the_schema_is_that_of_the_types() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/diagnostic.v1.json");
    json_schema::assert_generated::<Document>(&path);
}

#[test]
fn the_schema_describes_every_document() {
    let mut bare = Sample::default();
    bare.sources.add("x.kdl", "");
    bare.manifest("x.kdl", vec![Diagnostic::new(&WORLD, Span::whole(crate::source::SourceId(0)), "empty")]);
    for sample in [samples::two_manifests_with_problems(), Sample::default(), bare] {
        let document = sample.run(|run| serde_json::to_value(document(run)).unwrap());
        assert_eq!(schema_violations(&document), Vec::<String>::new());
    }
}

#[test]
fn the_schema_rejects_invalid_documents() {
    let good = samples::two_manifests_with_problems().run(|run| serde_json::to_value(document(run)).unwrap());
    let without_help = |document: &mut Value| {
        document["manifests"][0]["problems"][0].as_object_mut().unwrap().remove("help");
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
        assert_eq!(schema_violations(&bad).len(), 1, "{bad}");
    }
}

/// The schema describes exactly the members that some document has.
#[test]
fn the_schema_describes_exactly_the_written_members() {
    let mut written = std::collections::BTreeSet::default();
    samples::two_manifests_with_problems()
        .run(|run| json_schema::collect_keys(&serde_json::to_value(document(run)).unwrap(), &mut written));
    assert_eq!(written, json_schema::described_keys(SCHEMA));
}
