//! Inlay hints: the predicted figures beside the values that decide them.

use super::open_document::OpenDocument;
use super::positions::Encoding;
use super::prediction::{self, Anchor};
use lsp_types::{
    InlayHint, InlayHintKind, InlayHintLabel, InlayHintTooltip, MarkupContent, MarkupKind, Range,
};
use trainc_diag::escape_control_characters;

/// Returns the hints of a document in a range: those of its own job, or of the first open job that has it as
/// a layer.
pub(super) fn inlay_hints<'a>(
    shown: &OpenDocument,
    all: impl Iterator<Item = &'a OpenDocument>,
    range: Range,
    encoding: Encoding,
) -> Vec<InlayHint> {
    let own = hints_of(shown, shown, range, encoding);
    if !own.is_empty() || shown.compiled.plan.is_some() && !shown.compiled.is_layer {
        return own;
    }
    all.map(|job| hints_of(job, shown, range, encoding)).find(|hints| !hints.is_empty()).unwrap_or_default()
}

/// Returns the figures of a job as hints in the text of a document, which is the job's own or one of its
/// layers.
fn hints_of(job: &OpenDocument, shown: &OpenDocument, range: Range, encoding: Encoding) -> Vec<InlayHint> {
    let Some(plan) = &job.compiled.plan else { return Vec::new() };
    let is_own = job.name == shown.name;
    let hint = |anchor: Anchor, end: usize| {
        let position = encoding.position(&shown.text, end);
        if position < range.start || position > range.end {
            return None;
        }
        let figures = prediction::short(job, anchor, false)?;
        let name = job.compiled.job.as_deref().filter(|_| !is_own);
        let label = name.map_or_else(|| figures.clone(), |name| format!("{name}: {figures}"));
        Some(InlayHint {
            position,
            label: InlayHintLabel::String(escape_control_characters(&label)),
            kind: Some(InlayHintKind::TYPE),
            text_edits: None,
            tooltip: prediction::describe(job, anchor).map(|lines| {
                let value = escape_control_characters(&lines);
                InlayHintTooltip::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value })
            }),
            padding_left: Some(true),
            padding_right: None,
            data: None,
        })
    };
    let mut hints: Vec<InlayHint> = prediction::anchors(plan)
        .into_iter()
        .filter_map(|(anchor, span)| {
            let source = job.sources.get(span.source)?;
            // A layer that is not open may differ from the text that is shown.
            let is_shown = *source.name == *shown.name && *source.text == *shown.text;
            hint(anchor, span.end as usize).filter(|_| is_shown)
        })
        .collect();
    hints.sort_by_key(|hint| hint.position);
    hints
}
