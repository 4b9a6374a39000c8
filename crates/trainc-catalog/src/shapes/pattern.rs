//! Patterns of the service models as Rust regular expressions: whole text, ASCII classes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use regex::Regex;
use serde::Deserialize;

/// Number of matches with `regex-lite` before a pattern is compiled. Compiling takes about 250 µs, and a
/// match then 0.1 µs; `regex-lite` is ready in 15 µs, and a match takes 1 to 6 µs. Checking one manifest
/// matches each pattern only a few times.
const QUICK_MATCHES: u32 = 64;

/// A pattern of a member. The whole text must match, and `\d`, `\w`, `\s` are ASCII.
#[derive(Debug, Deserialize)]
#[serde(from = "String")]
pub struct Pattern {
    text: String,
    asked: AtomicU32,
    /// For the first matches; `None` for unsupported syntax.
    quick: OnceLock<Option<regex_lite::Regex>>,
    /// Compiled for many matches; `None` for syntax that Rust's `regex` does not support.
    compiled: OnceLock<Option<Regex>>,
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        Self { text, asked: AtomicU32::new(0), quick: OnceLock::new(), compiled: OnceLock::new() }
    }
}

impl Clone for Pattern {
    fn clone(&self) -> Self {
        Self::from(self.text.clone())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Pattern {
    /// Returns the pattern as in the service model.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if the whole text matches. An unsupported pattern accepts any text.
    pub fn is_match(&self, text: &str) -> bool {
        if self.asked.fetch_add(1, Ordering::Relaxed) < QUICK_MATCHES
            && let Some(quick) = self.lite_regex(text)
        {
            return quick.is_match(text);
        }
        self.compiled().is_none_or(|regex| regex.is_match(text))
    }

    /// Returns the `regex-lite` expression for this text. Its classes are ASCII; Unicode classes, used by
    /// tags, are narrowed to their ASCII characters, so texts with other characters return `None`.
    pub(super) fn lite_regex(&self, text: &str) -> Option<&regex_lite::Regex> {
        if self.text.contains(r"\p{") && !text.is_ascii() {
            return None;
        }
        let narrowed =
            || self.text.replace(r"\p{L}", "a-zA-Z").replace(r"\p{N}", "0-9").replace(r"\p{Z}", " ");
        self.quick.get_or_init(|| regex_lite::Regex::new(&format!("^(?:{})$", narrowed())).ok()).as_ref()
    }

    pub(super) fn compiled(&self) -> Option<&Regex> {
        self.compiled
            .get_or_init(|| Regex::new(&format!("^(?:{})$", with_ascii_classes(&self.text))).ok())
            .as_ref()
    }
}

fn with_ascii_classes(pattern: &str) -> String {
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
            Some('D') => out.push_str("[^0-9]"),
            Some('W') => out.push_str("[^0-9A-Za-z_]"),
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
    fn the_answer_stays_when_questions_become_many() {
        let name = Pattern::from(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}".to_owned());
        for asked in 0..=QUICK_MATCHES {
            assert!(name.is_match("my-job") && !name.is_match("my_job"), "{asked}");
        }
        assert!(name.compiled.get().is_some_and(Option::is_some), "compiled by now");
    }

    #[test]
    fn classes_are_ascii_and_the_whole_text_counts() {
        let takes = |pattern: &str, text: &str| Pattern::from(pattern.to_owned()).is_match(text);
        assert!(takes(r"\d{2}", "12") && !takes(r"\d{2}", "123") && !takes(r"\d{2}", "١٢"));
        let word = r"[\w+=,.@-]+";
        assert!(takes(word, "a_B+9=,.@-") && !takes(word, "é") && !takes(word, "a b"));
        assert!(takes("a|b", "b") && !takes("a|b", "ab"));
        assert!(takes(r"[\S\s]*", "x\n y"));
        assert!(takes(r"[\u0009\u0020-\u00FF]+", "a\té"));
        let unread = Pattern::from(r"x(?<!-)".to_owned());
        assert!(unread.compiled().is_none() && unread.is_match("anything"));
    }
}
