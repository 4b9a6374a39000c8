//! Limits of placeholders. Manifests are untrusted input, and the template engine has no limits: its
//! recursion depth grows with the length of an expression, and a number can repeat a text arbitrarily often.

use super::values::{PlanValues, ValueEntry};
use minijinja::value::ValueKind;

/// Maximum length of an expression, in characters. The engine recurses at least once for each term, on a
/// thread stack of 2 MiB; typical expressions have fewer than 100 characters.
pub(super) const MAX_EXPRESSION_CHARS: usize = 500;

/// Returns true if the expression is a single name, which cannot nest.
pub(super) fn is_identifier(expression: &str) -> bool {
    expression.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Maximum size of the expanded placeholders of one job, in bytes; a SageMaker request holds about 100 KiB of
/// text.
pub(super) const MAX_TOTAL_BYTES: usize = 8 << 20;

/// Returns true if an expression multiplies and also contains a string, a list or a path to a text. The
/// engine folds constants while parsing, so `'a' * 100000000` allocates 100 million characters before its
/// size can be checked.
pub(super) fn repeats_text(expression: &str, values: &PlanValues) -> bool {
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
    // The engine accepts `job .name` for `job.name`.
    let bare = bare.split_whitespace().collect::<Vec<_>>().join(" ").replace(" .", ".").replace(". ", ".");
    let is_text = |word: &str| match values.entries.get(word) {
        Some(ValueEntry::Value(value)) => !matches!(value.kind(), ValueKind::Number | ValueKind::Bool),
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
    fn only_numbers_can_be_multiplied() {
        let entries = [("batch.micro", Value::from(8)), ("job.name", Value::from("llama"))];
        let values = PlanValues {
            entries: entries
                .map(|(path, value)| (path.to_owned(), ValueEntry::Value(value)))
                .into_iter()
                .collect(),
        };
        for fine in
            ["batch.micro * 2", "2 ** 3 * (batch.micro + 1)", "'a*b'", "job.name ~ '*'", "-batch.micro*-1"]
        {
            assert!(!repeats_text(fine, &values), "{fine}");
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
            assert!(repeats_text(not, &values), "{not}");
        }
    }
}
