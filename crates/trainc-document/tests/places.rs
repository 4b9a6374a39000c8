//! Each key and value is where its span says, in every format.

use trainc_document::{Limits, Node, Value, read_json, read_toml, read_yaml, read_yaml_stream};

/// Lists the text at each key and scalar of a document, in its order.
fn written<'a>(node: &Node, text: &'a str, out: &mut Vec<&'a str>) {
    match &node.value {
        Value::Sequence(items) => items.iter().for_each(|item| written(item, text, out)),
        Value::Mapping(entries) => {
            for entry in entries {
                written(&entry.key, text, out);
                written(&entry.value, text, out);
            }
        }
        _ => out.push(&text[node.span.clone()]),
    }
}

fn places<'a>(node: &Node, text: &'a str) -> Vec<&'a str> {
    let mut out = Vec::new();
    written(node, text, &mut out);
    out
}

#[test]
fn spans_are_bytes_of_the_text() {
    let limits = Limits::default();
    let json = "\u{feff}{\"ä\": [1, \"x\\n\", -2.5],\n  \"b\": {\"c\": null}}";
    let node = read_json(json, &limits).unwrap();
    assert_eq!(places(&node, json), ["\"ä\"", "1", "\"x\\n\"", "-2.5", "\"b\"", "\"c\"", "null"]);
    assert_eq!(&json[node.entries()[1].value.span.clone()], "{\"c\": null}");

    // Of a block scalar the span is its body.
    let yaml = "# ö\nä: [1, 'x', *a]\nb:\n  - &c d\n  - e: |\n      f\n    g: *c\n".replace("*a", "z");
    let node = read_yaml(&yaml, &limits).unwrap();
    let expected = ["ä", "1", "'x'", "z", "b", "d", "e", "f\n    ", "g", "d"];
    assert_eq!(places(&node, &yaml), expected);

    let toml = "\u{feff}\"ä\" = [1, 'x']\n[b.c]\nd = 2026-01-01\n\"e f\" = { g = true }\n";
    let node = read_toml(toml, &limits).unwrap();
    assert_eq!(
        places(&node, toml),
        ["\"ä\"", "1", "'x'", "b", "c", "d", "2026-01-01", "\"e f\"", "g", "true"]
    );
}

#[test]
fn keys_that_are_written_twice_are_known() {
    let limits = Limits::default();
    let json = r#"{"a": 1, "b": {"c": 1, "c": 2}, "a": 3, "a": 4}"#;
    let yaml = "a: 1\nb: {c: 1, c: 2, <<: {c: 3, d: 4}}\na: 3\na: 4\nd: {<<: {a: 1}, a: 2}";
    for (node, text) in [(read_json(json, &limits), json), (read_yaml(yaml, &limits), yaml)] {
        let node = node.unwrap();
        let mut found = Vec::new();
        node.visit_replaced(&mut |entry| {
            let places = entry.replaced.iter().chain([&entry.key.span]);
            found.push((entry.key.key_text(), places.map(|span| span.start).collect::<Vec<_>>()));
        });
        let at = |part: &str| text.match_indices(part).map(|(at, _)| at).collect::<Vec<_>>();
        let (a, c) =
            if text == json { (at("\"a\""), at("\"c\"")) } else { (at("a: ")[..3].to_vec(), at("c: ")) };
        found.sort();
        assert_eq!(found, [("a".to_owned(), a), ("c".to_owned(), c[..2].to_vec())], "{text}");
        assert_eq!(node.get("a").unwrap().value.value, Value::Integer(4));
    }
}

#[test]
fn errors_have_their_place() {
    let limits = Limits::default();
    let at = |text: &str, message: &str, start: usize, found: Result<Node, trainc_document::Error>| {
        let error = found.unwrap_err();
        assert_eq!((error.message.as_str(), error.span.start), (message, start), "{text}");
    };
    for (text, message, start) in [
        ("{\"a\" 1}", "expected `:`, found `1`", 5),
        ("{\"a\": 1,}", "expected a key between double quotes, found `}`", 8),
        ("[1 2]", "expected `,` or `]`, found `2`", 3),
        ("[1", "expected `,` or `]`, found the end of the text", 2),
        ("\"a", "a string without its closing quote", 0),
        ("1 x", "expected the end of the document, found `x`", 2),
    ] {
        at(text, message, start, read_json(text, &limits));
    }
    for (text, message, start) in [
        ("a: 1\nb: =", "`=` as a value, which PyYAML does not read; quote it", 8),
        ("a: 2026-02-30", "a date or time that does not exist", 3),
        ("a: &x [*x]", "an alias of the collection that it is in", 7),
        ("? [1]\n: 2", "a list or a map cannot be a key", 2),
        ("a: &x 1\nb: &x 2", "an anchor with the name of another one", 11),
        ("a: 1\n--- 2", "a second document, where one is expected", 5),
        ("a\u{7}", "the character U+0007, which YAML does not allow", 1),
    ] {
        at(text, message, start, read_yaml(text, &limits));
    }
    assert_eq!(read_yaml_stream("a: 1\n--- 2", &limits).unwrap().len(), 2);
    let error = read_toml("a = 1\na = 2", &limits).unwrap_err();
    assert_eq!((error.message.as_str(), error.span), ("duplicate key", 6..7));
}
