//! Patterns of the service models as Rust regular expressions: whole text, ASCII classes.

use std::sync::OnceLock;

use regex::Regex;
use serde::Deserialize;

/// A pattern of a member. The text has to match as a whole, and `\d`, `\w`, `\s` are ASCII.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "String")]
pub struct Pattern {
    text: String,
    /// Compiled at the first question; none where Rust's `regex` has no such syntax.
    compiled: OnceLock<Option<Regex>>,
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        Self { text, compiled: OnceLock::new() }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Pattern {
    /// As the service's model has it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the whole text matches. A pattern that Rust cannot read refuses nothing.
    pub fn takes(&self, text: &str) -> bool {
        self.compiled().is_none_or(|regex| regex.is_match(text))
    }

    pub(super) fn compiled(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(&format!("^(?:{})$", ascii(&self.text))).ok()).as_ref()
    }
}

fn ascii(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('d') => out.push_str("[0-9]"),
            Some('w') => out.push_str("[0-9A-Za-z_]"),
            Some('s') => out.push_str(r"[ \t\n\x0B\f\r]"),
            Some('S') => out.push_str(r"[^ \t\n\x0B\f\r]"),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_ascii_and_the_whole_text_counts() {
        let takes = |pattern: &str, text: &str| Pattern::from(pattern.to_owned()).takes(text);
        assert!(takes(r"\d{2}", "12") && !takes(r"\d{2}", "123") && !takes(r"\d{2}", "١٢"));
        let word = r"[\w+=,.@-]+";
        assert!(takes(word, "a_B+9=,.@-") && !takes(word, "é") && !takes(word, "a b"));
        assert!(takes("a|b", "b") && !takes("a|b", "ab"));
        assert!(takes(r"[\S\s]*", "x\n y"));
        assert!(takes(r"[\u0009\u0020-\u00FF]+", "a\té"));
        let unread = Pattern::from(r"x(?<!-)".to_owned());
        assert!(unread.compiled().is_none() && unread.takes("anything"));
    }
}
