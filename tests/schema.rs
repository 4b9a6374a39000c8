//! `schemas/manifest.v1.kdl` is what the compiler's tables say.

use crate::support::{files, read, root};

#[test]
fn the_manifest_schema_is_fresh() {
    let path = "schemas/manifest.v1.kdl";
    let rendered = trainc::syntax::schema::render();
    if std::env::var_os("TRAINC_BLESS").is_some() {
        std::fs::write(root().join(path), &rendered).unwrap();
    }
    assert!(read(path) == rendered, "{path} is not what the tables say; TRAINC_BLESS=1 writes it");
}

#[test]
fn the_manifest_schema_is_kdl() {
    let document = kdl::KdlDocument::parse_v2(&trainc::syntax::schema::render()).unwrap();
    let job =
        document.nodes().iter().find(|node| node.get(0).and_then(|v| v.as_string()) == Some("job")).unwrap();
    let children = job.children().unwrap().nodes();
    for wanted in ["region", "cluster", "parallel", "train", "request"] {
        assert!(
            children.iter().any(|node| node.name().value() == "node"
                && node.get(0).and_then(|v| v.as_string()) == Some(wanted)),
            "job has no {wanted}"
        );
    }
}

#[test]
fn every_node_and_property_says_what_it_is() {
    fn walk(spec: &trainc::syntax::spec::NodeSpec, path: &str, out: &mut Vec<String>) {
        let path = format!("{path} {}", spec.name);
        if spec.doc.trim().is_empty() {
            out.push(path.clone());
        }
        out.extend(
            spec.props
                .iter()
                .filter(|prop| prop.doc.trim().is_empty())
                .map(|prop| format!("{path} {}=", prop.name)),
        );
        for child in spec.children {
            walk(child, &path, out);
        }
    }
    let mut silent = Vec::new();
    walk(&trainc::syntax::nodes::JOB, "", &mut silent);
    assert!(silent.is_empty(), "without a doc: {silent:?}");
}

#[test]
fn the_json_schemas_are_json() {
    for path in files("schemas", &[".json"]) {
        let schema: serde_json::Value =
            serde_json::from_str(&read(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(schema.get("$schema").is_some(), "{path} does not say which JSON Schema it is");
    }
}
