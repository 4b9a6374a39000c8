//! Text that somebody wrote, as long as a message bears.

/// The most characters of one quoted piece of a message or a label.
pub(super) const OF_MESSAGE: usize = 240;

/// The most characters of one quoted piece of a help or a note: something to type may be an address.
pub(super) const OF_HELP: usize = 600;

/// How many times a piece's length the whole may have: where a quote's end is not where it seems.
const WHOLE: usize = 20;

/// The text with an empty piece in backticks as a manifest has it, in quotes: two backticks alone read as a slip of ours.
pub(super) fn seen(text: String) -> String {
    if !text.contains("``") {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 2);
    let mut pieces = text.split('`').enumerate().peekable();
    while let Some((at, piece)) = pieces.next() {
        out.push_str(piece);
        if pieces.peek().is_some() {
            out.push_str(if at % 2 == 1 && piece.is_empty() { "\"\"`" } else { "`" });
        }
    }
    out
}

/// The text with each piece in backticks or quotation marks cut to so many characters.
pub(super) fn cut(text: String, most: usize) -> String {
    // Bytes are no fewer than characters.
    if text.len() <= most {
        return text;
    }
    let mut out = String::with_capacity(text.len().min(most * WHOLE));
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['`', '"']) {
        let mark = if rest.get(at..).is_some_and(|from| from.starts_with('`')) { '`' } else { '"' };
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let inside = from.get(1..).unwrap_or("");
        let Some(end) = inside.find(mark) else {
            rest = from;
            break;
        };
        out.push(mark);
        out.push_str(&shortened(inside.get(..end).unwrap_or(""), most));
        out.push(mark);
        rest = inside.get(end + 1..).unwrap_or("");
    }
    out.push_str(&shortened(rest, most * WHOLE));
    if out.len() > most * WHOLE { shortened(&out, most * WHOLE) } else { out }
}

fn shortened(piece: &str, most: usize) -> String {
    match piece.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", piece.get(..at).unwrap_or("")),
        None => piece.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_pieces_are_cut() {
        assert_eq!(cut("`abc` and \"abcdef\"".to_owned(), 4), "`abc` and \"abcd…\"");
        let long = "ä".repeat(10_000);
        let message = cut(format!("`{long}` is no `{long}`, but \"x\""), OF_MESSAGE);
        assert_eq!(message.chars().count(), 2 * (OF_MESSAGE + 1) + "`` is no ``, but \"x\"".chars().count());
        assert!(message.ends_with("…`, but \"x\""));
    }

    #[test]
    fn an_empty_text_is_seen() {
        for (before, after) in [
            ("`` is no name", "`\"\"` is no name"),
            ("`a` is `b`, not ``", "`a` is `b`, not `\"\"`"),
            ("`a``b`", "`a``b`"),
            ("plain", "plain"),
        ] {
            assert_eq!(seen(before.to_owned()), after);
        }
    }

    #[test]
    fn a_quote_that_does_not_end_is_held_too() {
        let open = cut(format!("\"{}", "x".repeat(100_000)), OF_MESSAGE);
        assert_eq!(open.chars().count(), OF_MESSAGE * WHOLE + 1);
        let own = cut("`a` ".repeat(100_000), OF_MESSAGE);
        assert_eq!(own.chars().count(), OF_MESSAGE * WHOLE + 1);
    }
}
