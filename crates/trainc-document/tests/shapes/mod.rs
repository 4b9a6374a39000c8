//! Texts that grow, and the readers.

use trainc_document::{Error, Limits, Node, read_json, read_toml, read_yaml};

/// Reads a text of a format.
pub(crate) type Read = fn(&str, &Limits) -> Result<Node, Error>;

/// The formats and their readers.
pub(crate) const READERS: [(&str, Read); 3] = [("json", read_json), ("yaml", read_yaml), ("toml", read_toml)];

/// Texts that grow with a number, in shapes that make some readers take quadratic time or recurse.
pub(crate) fn shapes() -> Vec<(&'static str, fn(usize) -> String)> {
    vec![
        ("json", |n| "{\"a\":".repeat(n) + "1" + &"}".repeat(n)),
        ("json", |n| "[".repeat(n)),
        ("json", |n| "[{\"\":".repeat(n)),
        ("json", |n| format!("[{}1]", "1,".repeat(n))),
        ("json", |n| format!("\"{}\"", "\\n".repeat(n))),
        ("json", |n| "-".to_owned() + &"1".repeat(n)),
        ("json", |n| (0..n).fold("{".to_owned(), |text, at| format!("{text}\"{at}\":1,")) + "\"a\":1}"),
        ("yaml", |n| "{\"a\":".repeat(n) + "1" + &"}".repeat(n)),
        ("yaml", |n| "[".repeat(n)),
        ("yaml", |n| "- ".repeat(n)),
        ("yaml", |n| "? ".repeat(n)),
        ("yaml", |n| "{\"\":[".repeat(n) + &"]}".repeat(n)),
        ("yaml", |n| "a: 1\n".repeat(n)),
        ("yaml", |n| "- a\n".repeat(n)),
        ("yaml", |n| "&a ".repeat(n)),
        ("yaml", |n| "a".repeat(n)),
        ("yaml", |n| "a\n ".repeat(n)),
        ("yaml", |n| "#".repeat(n)),
        ("yaml", |n| "\n".repeat(n)),
        ("yaml", |n| " ".repeat(n)),
        ("yaml", |n| "'".repeat(n)),
        ("yaml", |n| format!("\"{}\"", "\\n".repeat(n))),
        ("yaml", |n| "[a, ".repeat(n)),
        ("yaml", |n| format!("[{}]", "a: b, ".repeat(n))),
        ("yaml", |n| format!("a: |\n{}", " b\n".repeat(n))),
        ("yaml", |n| "!".repeat(n)),
        ("yaml", |n| "%a\n".repeat(n)),
        ("yaml", |n| (0..n).map(|at| format!("a{at}: &x{at} 1\n")).collect()),
        ("yaml", |n| format!("a: &a 1\nb: [{}*a]", "*a, ".repeat(n))),
        ("toml", |n| format!("a = {}", "[".repeat(n))),
        ("toml", |n| format!("a = {}", "{a=".repeat(n))),
        ("toml", |n| format!("{}a = 1", "a.".repeat(n))),
        ("toml", |n| format!("[{}a]", "a.".repeat(n))),
        ("toml", |n| (0..n).map(|at| format!("a{at} = 1\n")).collect()),
        ("toml", |n| "[[a]]\nb = 1\n".repeat(n)),
        ("toml", |n| (0..n).map(|at| format!("[a.b{at}]\n")).collect()),
        ("toml", |n| (0..n).map(|at| format!("a.b{at}.c = 1\n")).collect()),
        ("toml", |n| "a = 1\n".repeat(n)),
        ("toml", |n| format!("a = [{}]", "1,".repeat(n))),
        ("toml", |n| "\"".repeat(n)),
    ]
}
