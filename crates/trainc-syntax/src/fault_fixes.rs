//! The replacement texts and spans of the fixes of syntax errors.

use super::characters::is_space;
use super::fault::Fault;
use super::literal::{self, quoted};
use trainc_diag::source::Span;

/// Returns whether the fault touches text on both sides.
pub(super) fn touches(text: &str, fault: &Fault) -> bool {
    let (before, behind) = (text.get(..fault.start).unwrap_or(""), text.get(fault.end..).unwrap_or(""));
    !before.ends_with(is_space) && !behind.starts_with(is_space)
}

/// Returns the span to remove, with one of the two spaces if there is one on each side.
pub(super) fn span_with_space(text: &str, span: Span) -> Span {
    let (before, behind) = (text.get(..span.start as usize), text.get(span.end as usize..));
    let blank = |text: Option<&str>, is: fn(&str) -> bool| text.is_some_and(is);
    let both = blank(before, |text| text.ends_with([' ', '\t']))
        && blank(behind, |text| text.starts_with([' ', '\t']));
    Span { end: span.end + u32::from(both), ..span }
}

/// Returns the items of a list in brackets or parentheses as a comma-separated string: `"0.9,0.95"`.
pub(super) fn comma_separated(raw: &str) -> String {
    let items: Vec<&str> = raw
        .trim_matches(['[', ']', '(', ')'])
        .split([',', ' '])
        .map(|item| item.trim_matches(['"', '\'', ' ']))
        .filter(|item| !item.is_empty())
        .collect();
    quoted(&items.join(","))
}

/// Returns the value in parentheses that are not a type annotation: `8` of `(8)`, `"0.9,0.95"` of
/// `(0.9,0.95)`.
pub(super) fn value_in_parentheses(raw: &str) -> Option<String> {
    let text = raw.strip_prefix('(')?.strip_suffix(')')?.trim();
    let plain = !text.is_empty() && !text.contains(['(', ')', '{', '}', ';', '=', '#']);
    let is_number = matches!(literal::number(text), literal::Number::Value(_));
    plain.then(|| if is_number { text.to_owned() } else { comma_separated(text) })
}
