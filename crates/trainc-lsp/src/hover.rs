//! Hover: the documentation of a node, property or value, and its resolved value in the plan.

use super::open_document::OpenDocument;
use super::positions::Encoding;
use super::prediction;
use kdl::{KdlDocument, KdlEntry};
use lsp_types::{Hover, HoverContents, MarkupContent, MarkupKind};
use trainc_diag::Code;
use trainc_diag::source::Span;
use trainc_plan::reference;
use trainc_report::origins::{OriginRow, rows};
use trainc_syntax::cursor::{self, Cursor, Part};
use trainc_syntax::nodes::ALLOW;
use trainc_syntax::spec::NodeSpec;

/// Returns the hover text at a byte of the text.
pub(super) fn hover(
    opened: &OpenDocument,
    document: &KdlDocument,
    offset: usize,
    encoding: Encoding,
    codes: &[&Code],
) -> Option<Hover> {
    let text = &opened.text;
    let values = opened.compiled.plan.as_ref().map(|plan| rows(plan, &opened.sources)).unwrap_or_default();
    let at = Cursor::at(document, text, offset);
    let (words, start, end) = match cursor::placeholder(text, offset) {
        Some((path, start, end)) => (placeholder_hover(&values, path, codes)?, start, end),
        None => hover_at(opened, &at, &values, codes)?,
    };
    // The name of a node stands for all of its line.
    let line_end =
        at.node().filter(|_| matches!(at.part, Part::Name)).and_then(|step| step.node.entries().last());
    let line_end = line_end.map_or(end, |entry| cursor::value_range(entry).1);
    let words = match predicted(opened, (start, line_end)) {
        Some(figures) => format!("{words}\n\n{figures}"),
        None => words,
    };
    Some(Hover {
        contents: HoverContents::Markup(MarkupContent {
            kind: MarkupKind::Markdown,
            value: opened.sources.mask(&words),
        }),
        range: Some(encoding.range(text, start, end)),
    })
}

/// Describes what the plan predicts from a value in a range of the text.
fn predicted(opened: &OpenDocument, (start, end): (usize, usize)) -> Option<String> {
    let plan = opened.compiled.plan.as_ref()?;
    let is_inside =
        |span: Span| span.source == opened.source && start <= span.start as usize && span.end as usize <= end;
    let (anchor, _) = prediction::anchors(plan).into_iter().find(|(_, span)| is_inside(*span))?;
    prediction::describe(opened, anchor)
}

fn hover_at(
    opened: &OpenDocument,
    cursor: &Cursor,
    values: &[OriginRow],
    codes: &[&Code],
) -> Option<(String, usize, usize)> {
    let step = cursor.node()?;
    let spec = step.spec?;
    let resolved_values = |entry: &KdlEntry| {
        let (start, end) = cursor::value_range(entry);
        let span = Span::new(opened.source, start, end);
        values.iter().filter(|row| row.span == Some(span)).map(resolved).collect::<String>()
    };
    let path = path_of(&cursor.names());
    let (mut words, start, end) = match cursor.part {
        Part::Name => {
            let name = step.node.name().span();
            (reference::describe(&path, codes)?, name.offset(), name.offset() + name.len())
        }
        Part::Argument(at, entry) => {
            let (start, end) = cursor::value_range(entry);
            let page = page_of(spec, entry, codes);
            let described = || reference::describe(&format!("{path}.{}", spec.arg(at)?.name), codes);
            (page.or_else(described)?, start, end)
        }
        Part::Key(entry) | Part::Value(entry) => {
            let (start, end) = (entry.span().offset(), cursor::value_range(entry).1);
            let key = entry.name()?.value();
            let known = spec.prop(key).and_then(|_| reference::describe(&format!("{path}.{key}"), codes));
            (known.or_else(|| reference::free_property(spec, key))?, start, end)
        }
        Part::Gap | Part::Block => return None,
    };
    match cursor.part {
        Part::Argument(_, entry) | Part::Key(entry) | Part::Value(entry) => {
            words.push_str(&resolved_values(entry));
        }
        _ => words.extend(step.node.entries().iter().map(resolved_values)),
    }
    Some((words, start, end))
}

/// Returns the path of a node for `trainc explain`: the names from the children of the job on.
pub(super) fn path_of(names: &[&str]) -> String {
    let inside = match names {
        ["job" | "env", inside @ ..] if !inside.is_empty() => inside,
        all => all,
    };
    // Valid in every node.
    let inside = if inside.last() == Some(&"allow") { &["allow"] } else { inside };
    inside.join(".")
}

/// Returns the page of a code that is accepted: `allow "T0301"`.
fn page_of(spec: &NodeSpec, entry: &KdlEntry, codes: &[&Code]) -> Option<String> {
    let code = entry.value().as_string().filter(|_| spec.name == ALLOW.name)?;
    trainc_diag::find(codes, code).map(|code| code.page.to_owned())
}

/// Renders the resolved value of the plan.
fn resolved(row: &OriginRow) -> String {
    format!("\n\n`{}` = {}, from {}", row.path, row.value, row.why)
}

fn placeholder_hover(values: &[OriginRow], path: &str, codes: &[&Code]) -> Option<String> {
    let meaning = reference::describe(path, codes)?;
    Some(find_row(values, path).map_or_else(|| meaning.clone(), |row| format!("{meaning}{}", resolved(row))))
}

/// Returns the row of the plan for a placeholder's path: `train.lr` is `train.optimizer.lr` there.
pub(super) fn find_row<'a>(values: &'a [OriginRow], path: &str) -> Option<&'a OriginRow> {
    let dashed = path.replace('_', "-");
    let (group, name) = dashed.split_once('.').unwrap_or((&dashed, "name"));
    let candidates = [
        dashed.clone(),
        format!("{group}.optimizer.{name}"),
        if group == "job" { name.to_owned() } else { dashed.clone() },
        if dashed == "mesh.data-parallel-replicas" { "mesh.replicas".to_owned() } else { dashed.clone() },
    ];
    candidates.iter().find_map(|wanted| values.iter().find(|row| row.path == *wanted))
}
