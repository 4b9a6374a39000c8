//! Limits the length of quoted text in messages.

/// The maximum characters of one quoted piece in a message or a label.
pub(super) const MESSAGE_LIMIT: usize = 240;

/// The maximum characters of one quoted piece in a help or a note, which may be a URI.
pub(super) const HELP_LIMIT: usize = 600;

/// The limit of the whole text as a multiple of the limit of a piece, for unbalanced quotes.
const TOTAL_FACTOR: usize = 20;

/// Replaces an empty piece in backticks with an empty string in quotes, as in a manifest.
pub(super) fn quote_empty(text: String) -> String {
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

/// Truncates each piece in backticks or quotation marks to at most `limit` characters.
pub(super) fn truncate_quotes(text: String, limit: usize) -> String {
    // A text has at least as many bytes as characters.
    if text.len() <= limit {
        return text;
    }
    let mut out = String::with_capacity(text.len().min(limit * TOTAL_FACTOR));
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
        out.push_str(&truncate(inside.get(..end).unwrap_or(""), limit));
        out.push(mark);
        rest = inside.get(end + 1..).unwrap_or("");
    }
    out.push_str(&truncate(rest, limit * TOTAL_FACTOR));
    if out.len() > limit * TOTAL_FACTOR { truncate(&out, limit * TOTAL_FACTOR) } else { out }
}

fn truncate(piece: &str, limit: usize) -> String {
    match piece.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", piece.get(..at).unwrap_or("")),
        None => piece.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_pieces_are_truncate_quotes() {
        assert_eq!(truncate_quotes("`abc` and \"abcdef\"".to_owned(), 4), "`abc` and \"abcd…\"");
        let long = "ä".repeat(10_000);
        let message = truncate_quotes(format!("`{long}` is not `{long}`, but \"x\""), MESSAGE_LIMIT);
        assert_eq!(
            message.chars().count(),
            2 * (MESSAGE_LIMIT + 1) + "`` is not ``, but \"x\"".chars().count()
        );
        assert!(message.ends_with("…`, but \"x\""));
    }

    #[test]
    fn empty_text_is_quoted() {
        for (before, after) in [
            ("`` is not a name", "`\"\"` is not a name"),
            ("`a` is `b`, not ``", "`a` is `b`, not `\"\"`"),
            ("`a``b`", "`a``b`"),
            ("plain", "plain"),
        ] {
            assert_eq!(quote_empty(before.to_owned()), after);
        }
    }

    #[test]
    fn unbalanced_quotes_are_truncated() {
        let open = truncate_quotes(format!("\"{}", "x".repeat(100_000)), MESSAGE_LIMIT);
        assert_eq!(open.chars().count(), MESSAGE_LIMIT * TOTAL_FACTOR + 1);
        let own = truncate_quotes("`a` ".repeat(100_000), MESSAGE_LIMIT);
        assert_eq!(own.chars().count(), MESSAGE_LIMIT * TOTAL_FACTOR + 1);
    }
}
