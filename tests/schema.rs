//! `schemas/manifest.v1.kdl` is what the compiler's tables say.

use crate::support::{compile, files, over_base, read, root};
use std::collections::BTreeSet;
use trainc_syntax::spec::{NodeSpec, Ty};

#[test]
fn the_manifest_schema_is_fresh() {
    let path = "schemas/manifest.v1.kdl";
    let rendered = trainc_syntax::schema::render();
    if std::env::var_os("TRAINC_BLESS").is_some() {
        std::fs::write(root().join(path), &rendered).unwrap();
    }
    assert!(read(path) == rendered, "{path} is not what the tables say; TRAINC_BLESS=1 writes it");
}

#[test]
fn the_manifest_schema_is_kdl() {
    let document = kdl::KdlDocument::parse_v2(&trainc_syntax::schema::render()).unwrap();
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

/// The names that the editor's grammar colours are those of the language.
#[test]
fn the_grammar_of_editors_is_fresh() {
    fn walk(spec: &NodeSpec, nodes: &mut BTreeSet<&str>, properties: &mut BTreeSet<&str>) {
        nodes.insert(spec.name);
        properties.extend(spec.props.iter().map(|prop| prop.name));
        spec.children.iter().for_each(|child| walk(child, nodes, properties));
    }
    let (mut nodes, mut properties) = (BTreeSet::new(), BTreeSet::new());
    let roots = trainc_syntax::cursor::top_level().into_iter().chain([&trainc_syntax::nodes::ALLOW]);
    roots.for_each(|spec| walk(spec, &mut nodes, &mut properties));
    let either = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join("|");
    let path = "editors/vscode/syntaxes/kdl.tmLanguage.json";
    let mut grammar: serde_json::Value = serde_json::from_str(&read(path)).unwrap();
    // A node is at the start of a line, or after a brace, a semicolon or a comment mark.
    let start = r"(?:^\s*|(?<=[{;])\s*|(?<=/-)\s*)";
    grammar["repository"]["nodes"]["match"] = format!(r"{start}({})(?=[\s{{}};]|$)", either(nodes)).into();
    grammar["repository"]["properties"]["match"] = format!(r"(?<=\s)({})(?==)", either(properties)).into();
    let rendered = format!("{grammar:#}\n");
    if std::env::var_os("TRAINC_BLESS").is_some() {
        std::fs::write(root().join(path), &rendered).unwrap();
    }
    assert!(read(path) == rendered, "{path} is not what the tables say; TRAINC_BLESS=1 writes it");
}

/// botocore's model of the request, as the catalogue has it.
#[test]
fn every_member_of_the_api_has_a_translation() {
    fn walk(shape: &trainc_catalog::shapes::Shape, out: &mut Vec<String>) {
        for (name, inner) in &shape.members {
            out.push(name.clone());
            walk(inner, out);
        }
        shape.item.iter().for_each(|item| walk(item, out));
    }
    let mut names = Vec::new();
    walk(&trainc_catalog::shapes::operation("CreateTrainingJob").unwrap().input, &mut names);
    assert!(names.len() > 100, "{}", names.len());
    names.retain(|name| {
        let plain = trainc_syntax::suggestions::plain_name(name);
        let is_node = trainc_syntax::is_node(&plain);
        !is_node && trainc_syntax::suggestions::other_name(name).is_none()
    });
    assert!(names.is_empty(), "without a translation: {names:?}");
}

/// What a translation names is in the language.
#[test]
fn translations_name_nodes_of_the_language() {
    for name in [
        "instance_type",
        "max_run",
        "entry-point",
        "DebugRuleConfigurations",
        "use_spot_instances",
        "subnets",
    ] {
        let found = trainc_syntax::suggestions::other_name(name).unwrap();
        assert!(found.node.is_some_and(trainc_syntax::is_node), "{name}: {found:?}");
    }
    for line in include_str!("../crates/trainc-syntax/src/other_names.tsv")
        .lines()
        .filter_map(|line| line.strip_prefix("member\t"))
    {
        let columns: Vec<&str> = line.split('\t').collect();
        assert_eq!(columns.len(), 3, "{line}");
        let found = trainc_syntax::suggestions::other_name(columns[0]).unwrap();
        assert_eq!(found.name, columns[0], "two rows have one name");
        assert!(found.node.is_none_or(trainc_syntax::is_node), "{line}");
        // The nodes in backticks exist; `request { … }` has names of the API.
        for text in columns[2].split('`').skip(1).step_by(2).filter(|text| !text.starts_with("request")) {
            let first = text.split([' ', '=', '{']).next().unwrap();
            let is_property = |spec: &trainc_syntax::spec::NodeSpec| spec.prop(first).is_some();
            let known = trainc_syntax::is_node(first)
                || first == "job"
                || trainc_syntax::nodes::JOB_CHILDREN.iter().any(|spec| is_property(spec))
                || trainc_syntax::nodes::ENGINE_NAMES.contains(&first)
                || ["requirements.txt", "trainc", "max-wait"].contains(&first);
            assert!(known, "{line}: `{first}`");
        }
    }
}

#[test]
fn image_families_are_those_of_the_catalogue() {
    let known = [&["pytorch", "huggingface"][..], &trainc_catalog::images::other_families()].concat();
    assert_eq!(trainc_syntax::nodes::IMAGE_FAMILIES, known);
}

#[test]
fn every_node_and_property_says_what_it_is() {
    fn walk(spec: &trainc_syntax::spec::NodeSpec, path: &str, out: &mut Vec<String>) {
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
    walk(&trainc_syntax::nodes::JOB, "", &mut silent);
    assert!(silent.is_empty(), "without a doc: {silent:?}");
}

/// What a text is written as, so that nothing but its placeholder can be wrong with it.
fn with_placeholder(spec: &NodeSpec, place: &str) -> String {
    let quoted = |name: &str| format!("{name:?}");
    let value = |name: &str, ty: Ty| match ty {
        _ if name == place => quoted("{{ job.nmae }}"),
        Ty::Word(words) => quoted(words[0]),
        Ty::Int(low, _) => low.max(1).to_string(),
        Ty::Count | Ty::Number(..) => "1".to_owned(),
        Ty::Bool | Ty::BoolOr(_) => "#true".to_owned(),
        Ty::Bytes => quoted("500GiB"),
        Ty::Duration => quoted("2d"),
        Ty::Rate => quoted("50GB/s"),
        Ty::Every | Ty::Warmup | Ty::StepsOrEpoch => quoted("200 steps"),
        Ty::Text | Ty::Plain | Ty::Scalar => quoted("x"),
    };
    let mut out = quoted(spec.name);
    for arg in spec.args.iter().filter(|arg| arg.required || arg.name == place) {
        out.push_str(&format!(" {}", value(arg.name, arg.ty)));
    }
    for prop in spec.props.iter().filter(|prop| prop.required || prop.name == place) {
        out.push_str(&format!(" {}={}", prop.name, value(prop.name, prop.ty)));
    }
    if let Some(ty) = spec.free_props.filter(|_| place == "any") {
        out.push_str(&format!(" any={}", value("any", ty)));
    }
    out
}

/// Every place of a type, as the nodes around it and the values of the node itself.
fn places(spec: &'static NodeSpec, around: &[String], out: &mut Vec<(Ty, String)>) {
    let args = spec.args.iter().map(|arg| (arg.name, arg.ty));
    let props = spec.props.iter().map(|prop| (prop.name, prop.ty));
    for (name, ty) in args.chain(props).chain(spec.free_props.map(|ty| ("any", ty))) {
        let mut text = with_placeholder(spec, name);
        for outer in around.iter().rev() {
            text = format!("{outer} {{ {text}; }}");
        }
        out.push((ty, text));
    }
    let around = [around, &[with_placeholder(spec, "")]].concat();
    for child in spec.children {
        places(child, &around, out);
    }
}

#[test]
fn placeholders_are_taken_where_the_schema_says_so() {
    let mut all = Vec::new();
    for spec in trainc_syntax::nodes::JOB_CHILDREN {
        places(spec, &[], &mut all);
    }
    let mut faults = Vec::new();
    for (ty, text) in all {
        let wanted = match ty {
            // What a sweep varies is judged where it is put.
            _ if text.starts_with("\"sweep\" { \"vary\" \"x\"") => continue,
            Ty::Text | Ty::Scalar => "T0230",
            Ty::Plain => "T0145",
            _ => continue,
        };
        let outcome = compile("job.kdl", &over_base(&text));
        if !outcome.codes().contains(&wanted) {
            faults.push(format!("{text}: expected {wanted}, found {}", outcome.lines()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_json_schemas_are_json() {
    for path in files("schemas", &[".json"]) {
        let schema: serde_json::Value =
            serde_json::from_str(&read(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(schema.get("$schema").is_some(), "{path} does not say which JSON Schema it is");
    }
}
