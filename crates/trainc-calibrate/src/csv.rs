//! CSV as in RFC 4180: quoted fields may contain commas, quotes and line breaks.

/// One field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    /// Content without the quotes.
    pub(super) text: String,
    /// Byte range in the table, without surrounding blanks and quotes.
    pub(super) place: (usize, usize),
}

/// Splits a text into rows of fields; empty lines are skipped.
pub(super) fn rows(text: &str) -> Vec<Vec<Field>> {
    let mut out = Vec::new();
    let (mut row, mut field, mut quoted, mut start) = (Vec::new(), String::new(), false, 0);
    let end_of = |field: &mut String, start: usize, end: usize| {
        let raw = text.get(start..end).unwrap_or_default();
        let inner = raw.trim().trim_matches('"').trim();
        let begin = start + raw.find(inner).unwrap_or(0);
        Field { text: std::mem::take(field), place: (begin, begin + inner.len()) }
    };
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match (c, quoted) {
            ('"', true) if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                chars.next();
                field.push('"');
            }
            ('"', true) => quoted = false,
            ('"', false) if field.is_empty() => quoted = true,
            (',', false) => {
                row.push(end_of(&mut field, start, at));
                start = at + 1;
            }
            ('\r', false) if chars.peek().is_some_and(|(_, next)| *next == '\n') => {}
            ('\n', false) => {
                row.push(end_of(&mut field, start, at));
                out.push(std::mem::take(&mut row));
                start = at + 1;
            }
            (c, _) => field.push(c),
        }
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(end_of(&mut field, start, text.len()));
        out.push(row);
    }
    out.retain(|row| row.iter().any(|field| !field.text.is_empty()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_commas_quotes_and_lines() {
        let table = "a,b\r\n\"x, \"\"y\"\"\nz\",\n\n1, \" 2\"";
        let read = rows(table);
        let texts: Vec<Vec<&str>> =
            read.iter().map(|row| row.iter().map(|field| field.text.as_str()).collect()).collect();
        assert_eq!(texts[..2], [vec!["a", "b"], vec!["x, \"y\"\nz", ""]]);
        let places: Vec<&str> =
            read.iter().flatten().map(|field| &table[field.place.0..field.place.1]).collect();
        assert_eq!(places, ["a", "b", "x, \"\"y\"\"\nz", "", "1", "2"]);
    }
}
