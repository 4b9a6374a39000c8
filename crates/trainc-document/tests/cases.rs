//! The reader against PyYAML, and Python's json and tomllib: `cases.json` holds what they read
//! (`tests/python/document_cases.py`).

use std::collections::BTreeSet;
use trainc_document::{Error, Limits, Node, Value, read_json, read_toml, read_yaml_stream};

/// Texts in which the readers differ, by what they contain, with the reason.
const DIFFERENCES: &[(&str, &str)] = &[
    ("\t", "PyYAML rejects a tab as the space between tokens, YAML 1.2 does not"),
    ("\u{85}", "a line end in YAML 1.1, and a character in YAML 1.2"),
    ("\u{2028}", "a line end in YAML 1.1, and a character in YAML 1.2"),
    ("[-]", "YAML 1.2 rejects a lone `-` in a flow collection"),
    ("[-, 1]", "as before"),
    ("{a: -}", "as before"),
    ("[?]", "a lone `?` in a flow collection is a text in YAML 1.2"),
    ("[?, 1]", "as before"),
    ("{a: ?}", "as before"),
    ("[:", "PyYAML rejects a text that begins with `:` in a flow collection, and a key that is missing"),
    ("{:", "as before"),
    ("{a: :a}", "as before"),
    ("\n: 1}", "PyYAML rejects a line end between a key and its colon"),
    (": a", "PyYAML rejects a value without a key"),
    ("&a: 1", "YAML 1.2 reads the colon as part of the anchor"),
    ("#c", "YAML 1.2 requires a space before a comment"),
    ("...", "PyYAML requires `---` after the end of a document, and before an end"),
    ("\u{feff}1", "`json.loads` skips a byte order mark in bytes, but not in a `str`"),
];

/// Writes a value as `document_cases.py` does; `None` for a tag that `safe_load` rejects.
fn canonical(node: &Node, kind: &str) -> Option<String> {
    if let Some(tag) = &node.tag {
        let name = tag.strip_prefix("tag:yaml.org,2002:")?;
        return ["binary", "set", "omap", "pairs"].contains(&name).then(|| "tagged".to_owned());
    }
    Some(match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => format!("int {value}"),
        Value::BigInteger(text) => format!("int {text}"),
        Value::Float(value) if value.is_nan() => "float nan".to_owned(),
        Value::Float(value) => format!("float {:016x}", value.to_bits()),
        Value::Text(text) => text_in_json(text),
        Value::Timestamp(text) if kind == "yaml" => format!("time {text}"),
        Value::Timestamp(_) => "time".to_owned(),
        Value::Sequence(items) => {
            let items: Option<Vec<String>> = items.iter().map(|item| canonical(item, kind)).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Mapping(entries) => {
            let member = |entry: &trainc_document::Entry| {
                Some(format!("{}: {}", canonical(&entry.key, kind)?, canonical(&entry.value, kind)?))
            };
            format!("{{{}}}", entries.iter().map(member).collect::<Option<Vec<_>>>()?.join(", "))
        }
    })
}

/// `json.dumps(text, ensure_ascii=False)`.
fn text_in_json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn read(kind: &str, text: &str) -> Result<Option<String>, Error> {
    let limits = Limits::default();
    match kind {
        "json" => read_json(text, &limits).map(|node| canonical(&node, kind)),
        "toml" => read_toml(text, &limits).map(|node| canonical(&node, kind)),
        _ => read_yaml_stream(text, &limits).map(|documents| {
            let all: Option<Vec<String>> = documents.iter().map(|node| canonical(node, kind)).collect();
            all.map(|all| format!("[{}]", all.join(", ")))
        }),
    }
}

#[test]
fn documents_have_the_values_that_python_reads() {
    let recorded: Vec<(String, String, Option<String>)> =
        serde_json::from_str(include_str!("cases.json")).unwrap();
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for (kind, text, expected) in &recorded {
        let found = read(kind, text);
        if found.as_ref().ok().and_then(Option::as_ref) == expected.as_ref() {
            continue;
        }
        match DIFFERENCES.iter().position(|(part, _)| text.contains(part)) {
            Some(at) => {
                used.insert(at);
            }
            None => wrong.push(format!("{kind} {text:?}: {found:?}, not {expected:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), recorded.len(), wrong.join("\n"));
    assert_eq!(used.len(), DIFFERENCES.len(), "a difference that is none: {used:?}");
}
