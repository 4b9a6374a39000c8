//! How much a placeholder may ask for. A manifest is read before anybody trusts it, and the template engine takes what
//! it is given: it nests as deep as an expression is long, and repeats a text as often as a number says.

use super::table::{Entry, Table};
use minijinja::value::ValueKind;

/// Characters of one expression. The engine walks an expression by recursion, a call or more for each term, on the
/// 2 MiB of a thread's stack; what people write stays below a hundred.
pub(super) const LONGEST: usize = 500;

/// Whether the expression is one name, which nests nothing however long it is.
pub(super) fn is_one_word(expression: &str) -> bool {
    expression.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Bytes that all placeholders of one job together become; a request of SageMaker holds some 100 KiB of text.
pub(super) const MOST: usize = 8 << 20;

/// Whether an expression multiplies where it also has what is no number: a text, a list, a path to a text. The engine
/// computes constants as it reads, so `'a' * 100000000` is a hundred million letters before anything can look at them.
pub(super) fn repeats(expression: &str, table: &Table) -> bool {
    let mut bare = String::with_capacity(expression.len());
    let mut has_text = false;
    let mut chars = expression.chars();
    while let Some(c) = chars.next() {
        if !matches!(c, '"' | '\'') {
            bare.push(c);
            continue;
        }
        has_text = true;
        while let Some(inside) = chars.next() {
            if inside == '\\' {
                chars.next();
            } else if inside == c {
                break;
            }
        }
        bare.push(' ');
    }
    // The engine reads `job .name` as `job.name`.
    let bare = bare.split_whitespace().collect::<Vec<_>>().join(" ").replace(" .", ".").replace(". ", ".");
    let is_text = |word: &str| match table.entries.get(word) {
        Some(Entry::Value(value)) => !matches!(value.kind(), ValueKind::Number | ValueKind::Bool),
        _ => false,
    };
    bare.contains('*')
        && (has_text
            || bare.contains(['[', '{', ',', '~'])
            || bare.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.'))).any(is_text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::value::Value;

    #[test]
    fn only_numbers_are_multiplied() {
        let entries = [("batch.micro", Value::from(8)), ("job.name", Value::from("llama"))];
        let table = Table {
            entries: entries
                .map(|(path, value)| (path.to_owned(), Entry::Value(value)))
                .into_iter()
                .collect(),
        };
        for fine in
            ["batch.micro * 2", "2 ** 3 * (batch.micro + 1)", "'a*b'", "job.name ~ '*'", "-batch.micro*-1"]
        {
            assert!(!repeats(fine, &table), "{fine}");
        }
        for not in [
            "'a' * 9",
            "9*\"a\\\"\"",
            "job.name * 2",
            "(job.name) * 2",
            "job  . name * 2",
            "[1] * 9",
            "('a' ~ 'b') * 9",
            "(1,) * 9",
        ] {
            assert!(repeats(not, &table), "{not}");
        }
    }
}
