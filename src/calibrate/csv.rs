//! Comma-separated values as RFC 4180 has them: quoted fields may hold commas, quotes and line breaks.

/// The rows of a text, each a list of fields; empty lines are left out.
pub(super) fn rows(text: &str) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let (mut row, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quoted) {
            ('"', true) if chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            ('"', true) => quoted = false,
            ('"', false) if field.is_empty() => quoted = true,
            (',', false) => row.push(std::mem::take(&mut field)),
            ('\r', false) if chars.peek() == Some(&'\n') => {}
            ('\n', false) => {
                row.push(std::mem::take(&mut field));
                out.push(std::mem::take(&mut row));
            }
            (c, _) => field.push(c),
        }
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        out.push(row);
    }
    out.retain(|row| row.iter().any(|field| !field.is_empty()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_commas_quotes_and_lines() {
        let read = rows("a,b\r\n\"x, \"\"y\"\"\nz\",\n\n1,2");
        assert_eq!(read, [vec!["a", "b"], vec!["x, \"y\"\nz", ""], vec!["1", "2"]]);
    }
}
