//! Patterns of the service models as Rust regular expressions: whole text, ASCII classes.

use std::sync::Arc;

use regex::Regex;

use crate::catalog::memo::Memo;

/// The pattern as the service reads it: it has to match the whole text, and `\d`, `\w`, `\s` are ASCII.
pub(super) fn compile(pattern: &str) -> Option<Arc<Regex>> {
    static MEMO: Memo<String, Option<Arc<Regex>>> = Memo::new();
    MEMO.get(pattern.to_owned(), |pattern| {
        Regex::new(&format!("^(?:{})$", ascii(pattern))).ok().map(Arc::new)
    })
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
        let digits = compile(r"\d{2}").unwrap();
        assert!(digits.is_match("12") && !digits.is_match("123") && !digits.is_match("١٢"));
        let word = compile(r"[\w+=,.@-]+").unwrap();
        assert!(word.is_match("a_B+9=,.@-") && !word.is_match("é") && !word.is_match("a b"));
        let either = compile("a|b").unwrap();
        assert!(either.is_match("b") && !either.is_match("ab"));
        assert!(compile(r"[\S\s]*").unwrap().is_match("x\n y"));
        assert!(compile(r"[\u0009\u0020-\u00FF]+").unwrap().is_match("a\té"));
        assert!(compile(r"x(?<!-)").is_none());
    }
}
