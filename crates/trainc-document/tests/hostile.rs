//! No text makes the reader panic, hang or take more memory than its limits.

#![allow(clippy::format_collect, clippy::type_complexity, reason = "texts are built of parts")]

mod shapes;

use proptest::prelude::*;
use shapes::{READERS, shapes};
use trainc_document::{Error, Limits, Node, read_json, read_json_stream, read_yaml, read_yaml_stream};

fn limit(found: Result<Node, Error>) -> Option<String> {
    found.err().filter(|error| error.is_limit).map(|error| error.message)
}

/// Growing texts are read, or refused at a place in them; `benches/growth.rs` compares the times.
#[test]
fn growing_texts_are_read_or_refused_at_a_place() {
    for (kind, shape) in shapes() {
        let read = READERS.iter().find(|(name, _)| *name == kind).unwrap().1;
        let text = shape(40_000);
        if let Err(Error { span, message, .. }) = read(&text, &Limits::default()) {
            assert!(!message.is_empty() && text.get(span.clone()).is_some(), "{kind} {span:?}: {message}");
        }
    }
}

#[test]
fn depth_is_bounded_in_every_format() {
    let limits = Limits { depth: 20, ..Limits::default() };
    let nested = |n: usize| {
        [
            ("json", "[".repeat(n) + &"]".repeat(n)),
            ("json", "{\"a\":".repeat(n) + "1" + &"}".repeat(n)),
            ("yaml", "[".repeat(n) + &"]".repeat(n)),
            ("yaml", "- ".repeat(n) + "1"),
            ("yaml", (0..n).map(|at| format!("{}a:\n", " ".repeat(at))).collect()),
            ("toml", format!("a = {}{}", "[".repeat(n - 1), "]".repeat(n - 1))),
            ("toml", format!("{}b = 1", "a.".repeat(n - 1))),
        ]
    };
    for (kind, text) in nested(20) {
        let read = READERS.iter().find(|(name, _)| *name == kind).unwrap().1;
        assert!(read(&text, &limits).is_ok(), "{text}: {:?}", read(&text, &limits));
    }
    for (kind, text) in nested(21) {
        let read = READERS.iter().find(|(name, _)| *name == kind).unwrap().1;
        let found = limit(read(&text, &limits));
        assert_eq!(found.as_deref(), Some("the document is nested more than 20 levels deep"), "{text}");
    }
}

#[test]
fn aliases_expand_within_the_limits() {
    let limits = Limits { nodes: 10_000, expanded_bytes: 100_000, ..Limits::default() };
    let laughs = |first: &str, next: fn(usize) -> String| {
        (1..40)
            .fold(format!("a0: &a0 {first}\n"), |text, at| format!("{text}a{at}: &a{at} {}\n", next(at - 1)))
    };
    let long = format!("'{}'", "x".repeat(1_000));
    for text in [
        laughs("[1]", |at| format!("[*a{at}, *a{at}]")),
        laughs("{x: 1}", |at| format!("{{x: *a{at}, y: *a{at}}}")),
        laughs("{x: 1}", |at| format!("{{<<: [*a{at}, *a{at}]}}")),
        laughs("{}", |at| format!("{{<<: [*a{at}, *a{at}]}}")),
        laughs("[]", |at| format!("[*a{at}, *a{at}]")),
        format!("a: &a {long}\nb: [{}*a]", "*a, ".repeat(200)),
    ] {
        let found = limit(read_yaml(&text, &limits)).unwrap_or_default();
        assert!(found.contains("more than"), "{text}: {found}");
    }
    // The depth of what an alias stands for counts.
    let text = laughs("[1]", |at| format!("[*a{at}]"));
    let limits = Limits { depth: 30, ..limits };
    assert!(limit(read_yaml(&text, &limits)).is_some_and(|found| found.contains("30 levels deep")));
    let large = Limits { bytes: 10, ..limits };
    for (kind, read) in READERS {
        assert_eq!(
            limit(read("a = '23456789'", &large)).as_deref(),
            Some("the document is larger than 10 bytes"),
            "{kind}"
        );
    }
}

fn pieces() -> impl Strategy<Value = String> {
    const PARTS: &[&str] = &[
        "a",
        "b:",
        " ",
        "  ",
        "\n",
        "\t",
        "- ",
        "? ",
        ": ",
        ",",
        "[",
        "]",
        "{",
        "}",
        "'",
        "\"",
        "|",
        ">",
        "&a",
        "*a",
        "<<",
        "!",
        "!!int",
        "!x",
        "#",
        "%",
        "---",
        "...",
        "\n---\n",
        "=",
        "~",
        "1",
        "0x",
        "1:30",
        "2001-01-01",
        ".inf",
        "1e5",
        "\\",
        "\\u00",
        "\\ud83d",
        "\\x",
        "\r",
        "\u{feff}",
        "é",
        "😀",
        "\u{85}",
        "//",
        "null",
        "true",
        "NaN",
        "-",
        ".",
        "+",
        "_",
        "[[",
        "]]",
        "a.b",
        "\"\"\"",
        "'''",
        "\u{0}",
    ];
    prop::collection::vec(prop::sample::select(PARTS), 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the text, a reader ends with nodes or an error, whose spans are characters of the text.
    #[test]
    fn any_text_is_read_or_rejected(text in prop_oneof![pieces(), any::<String>()]) {
        let limits = Limits { depth: 8, nodes: 200, expanded_bytes: 1_000, ..Limits::default() };
        let read = READERS.iter().map(|(_, read)| read(&text, &limits).map(|node| vec![node]));
        let streams = [read_json_stream(&text, &limits), read_yaml_stream(&text, &limits)];
        for found in read.chain(streams) {
            match found {
                Ok(nodes) => for node in nodes {
                    check_spans(&node, &text);
                    let _ = node.to_json(&|_, value| value);
                },
                Err(error) => prop_assert!(text.get(error.span.clone()).is_some(), "{:?} {:?}", text, error),
            }
        }
    }

    /// JSON that is written by another program is read as that program reads it.
    #[test]
    fn json_is_read_as_by_serde_json(value in json(), indented in any::<bool>()) {
        let text = if indented { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = text.unwrap();
        let read = read_json(&text, &Limits::default()).unwrap();
        prop_assert_eq!(read.to_json(&|_, value| value), value.clone());
        // JSON without line ends is YAML, for a parser of YAML 1.1 but for floats without a point.
        let has_float = text.contains(['e', 'E']);
        if !indented && !has_float {
            let read = read_yaml(&text, &Limits::default());
            prop_assert_eq!(read.map(|read| read.to_json(&|_, value| value)), Ok(value));
        }
    }
}

fn check_spans(node: &Node, text: &str) {
    assert!(text.get(node.span.clone()).is_some(), "{text:?} {:?}", node.span);
    node.items().iter().for_each(|item| check_spans(item, text));
    for entry in node.entries() {
        check_spans(&entry.key, text);
        check_spans(&entry.value, text);
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "[a-z \\\\\"\n\tä😀{}\\[\\]:,#&*!|>'%@-]{0,12}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map("[a-z\"\\\\ ]{0,5}", inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}
