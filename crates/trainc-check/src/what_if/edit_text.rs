//! Edits that the cost model proposes, as text of the manifest: what to type, and what `check --fix` writes.

use crate::Context;
use trainc_diag::source::{Span, is_file};
use trainc_diag::{Edit, NodeStep};
use trainc_ir::Origin;
use trainc_language::NodeType as _;
use trainc_plan::edit_manifest;
use trainc_syntax::edit;

/// A replacement of one place of a source.
pub(crate) struct Replacement {
    /// The place.
    pub(crate) span: Span,
    /// The new text.
    pub(crate) text: String,
}

/// Returns the edits as one replacement in the job's file; `None` if values from outside it would override
/// them.
pub(crate) fn build_fix(context: &Context, edits: &[Edit]) -> Option<Replacement> {
    if overriding_span(context, edits).is_some() {
        return None;
    }
    let id = context.plan.job.span.source;
    let source = context.sources.get(id)?;
    let text = edit_manifest(context.plan, &source.text, edits).ok()?;
    let (start, end, new) = edit::changed_range(&source.text, &text);
    Some(Replacement { span: Span::new(id, start, end), text: new.to_owned() })
}

/// Describes the place outside the job that overrides an edited value, as a fragment.
pub(crate) fn describe_override(context: &Context, edits: &[Edit]) -> Option<String> {
    let span = overriding_span(context, edits)?;
    let source = context.sources.get(span.source)?;
    if source.name.starts_with("<--set") {
        return Some("overridden by `--set`".to_owned());
    }
    // A manifest that is not a file cannot be edited at all.
    let (line, _) = source.line_column(span.start);
    is_file(&source.name).then(|| format!("overridden at {}:{line}", source.name))
}

/// Returns the place of a value that the edits of the job would not change: in an environment or on the
/// command line.
fn overriding_span(context: &Context, edits: &[Edit]) -> Option<Span> {
    let job = &context.plan.job;
    let id = job.span.source;
    let top = NodeStep::by_argument("job", job.name.value()?);
    let text = &context.sources.get(id)?.text;
    let range = edit::locate(text, &[top]).ok()?;
    let is_outside = |span: &Span| {
        let file = context.sources.get(span.source).is_some_and(|source| is_file(&source.name));
        let outside = (span.start as usize) < range.start || (span.end as usize) > range.end;
        !file || span.source == id && outside
    };
    let paths: Vec<String> = edits.iter().map(Edit::path).collect();
    let mut found = None;
    job.visit("", &mut |leaf| {
        let span = leaf.origin.and_then(Origin::span).filter(is_outside);
        let is_edited = || leaf.set_path().is_some_and(|path| paths.contains(&path));
        found = found.or(span.filter(|_| is_edited()));
    });
    found
}
