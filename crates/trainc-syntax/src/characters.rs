//! The character classes of KDL 2.0, and the words that they make.

pub(super) fn is_newline(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{0B}' | '\u{0C}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_space(c: char) -> bool {
    matches!(
        c,
        '\t' | ' ' | '\u{A0}' | '\u{1680}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}'
    )
}

/// Returns whether KDL forbids the character everywhere in a document.
pub(super) fn is_disallowed(c: char) -> bool {
    matches!(c,
        '\0'..='\u{08}' | '\u{0E}'..='\u{1F}' | '\u{7F}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

pub(super) fn is_word(c: char) -> bool {
    // The most frequent case.
    if c.is_ascii_alphanumeric() {
        return true;
    }
    !matches!(c, '\\' | '/' | '(' | ')' | '{' | '}' | '[' | ']' | ';' | '"' | '#' | '=')
        && !is_newline(c)
        && !is_space(c)
        && !is_disallowed(c)
}

/// Returns whether KDL 2 reserves the word for a keyword.
pub(super) fn is_keyword(word: &str) -> bool {
    matches!(word, "true" | "false" | "null" | "inf" | "-inf" | "nan")
}

/// Returns whether a text is a valid name without quotes.
pub(super) fn is_bare_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(is_word)
        && !is_keyword(text)
        && !looks_numeric(text)
        && !text.starts_with('\'')
}

/// Returns whether a word starts like a number: with a digit, or a digit after a sign or a point.
pub(super) fn looks_numeric(word: &str) -> bool {
    let rest = word.strip_prefix(['+', '-']).unwrap_or(word);
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    rest.starts_with(|c: char| c.is_ascii_digit())
}
