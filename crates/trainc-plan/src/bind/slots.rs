//! Visits the texts of a plan in which placeholders are replaced: those of type `text` or `any` in the
//! schema.

use super::find_closing_braces;
use trainc_diag::Diagnostic;
use trainc_diag::declare_code;
use trainc_diag::source::{SourceMap, Span};
use trainc_ir::Plan;
use trainc_language::{NodeType, Slot};

declare_code!(T0214, "template-statement", Warning, "`{% %}` or `{# #}`, which trainc does not evaluate");

/// Returns whether a text contains a placeholder.
pub(super) fn has_placeholder(slot: &Slot) -> bool {
    slot.text().is_some_and(|text| text.contains("{{"))
}

/// Warns about a template statement or comment, which is not evaluated. A script may need it, such as a chat
/// template.
pub(super) fn check_statement(slot: &Slot, sources: &SourceMap) -> Option<Diagnostic> {
    let (open, close) = find_statement(slot.text()?)?;
    let at = span_of_piece(sources, slot.span()?, open);
    Some(
        Diagnostic::new(
            &T0214,
            at,
            format!("`{open} … {close}` is not evaluated: only `{{{{ … }}}}` is supported"),
        )
        .help(format!("if the script needs it, write `{{{{ '{open}' }}}}` in place of `{open}`"))
        .note("a placeholder can contain a condition: `{{ 1 if cluster.nodes > 1 else 0 }}`"),
    )
}

/// Passes every text that may contain placeholders to a function.
pub(super) fn visit_slots(plan: &mut Plan, with: &mut dyn FnMut(Slot)) {
    plan.job.visit_texts(&mut |declared, slot| {
        if declared.has_placeholders() {
            with(slot);
        }
    });
}

/// Returns the span of a piece of text inside a string, or of the whole string if it does not contain the
/// piece.
pub(super) fn span_of_piece(sources: &SourceMap, span: Span, piece: &str) -> Span {
    let slice = sources.slice(span);
    match slice.find(piece) {
        Some(at) if !piece.is_empty() => {
            let start = span.start as usize + at;
            Span::new(span.source, start, start + piece.len())
        }
        _ => span,
    }
}

/// Returns the delimiters of a template statement or comment outside of placeholders. `${#list[@]}` contains
/// none.
fn find_statement(text: &str) -> Option<(&'static str, &'static str)> {
    if !text.contains('{') {
        return None;
    }
    let mut outside = String::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once("{{") {
        outside.push_str(before);
        rest = find_closing_braces(inside).and_then(|close| inside.get(close + 2..)).unwrap_or("");
    }
    outside.push_str(rest);
    [("{%", "%}"), ("{#", "#}")]
        .into_iter()
        .find(|(open, close)| outside.split_once(open).is_some_and(|(_, rest)| rest.contains(close)))
}
