//! Hover: the documentation of a node, property or value, and its resolved value in the plan.

use super::open_document::OpenDocument;
use super::positions::Encoding;
use super::prediction;
use kdl::{KdlDocument, KdlEntry};
use lsp_types::{Hover, HoverContents, MarkupContent, MarkupKind};
use trainc_diag::source::Span;
use trainc_report::origins::{OriginRow, rows};
use trainc_syntax::cursor::{self, Cursor, Part};
use trainc_syntax::nodes::engines_of;
use trainc_syntax::spec::{NodeSpec, Prop, Ty};

/// Returns the hover text at a byte of the text.
pub(super) fn hover(
    opened: &OpenDocument,
    document: &KdlDocument,
    offset: usize,
    encoding: Encoding,
) -> Option<Hover> {
    let text = &opened.text;
    let values = opened.compiled.plan.as_ref().map(|plan| rows(plan, &opened.sources)).unwrap_or_default();
    let at = Cursor::at(document, text, offset);
    let (words, start, end) = match cursor::placeholder(text, offset) {
        Some((path, start, end)) => (placeholder_hover(&values, path)?, start, end),
        None => hover_at(opened, &at, &values)?,
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

fn hover_at(opened: &OpenDocument, cursor: &Cursor, values: &[OriginRow]) -> Option<(String, usize, usize)> {
    let step = cursor.node()?;
    let spec = step.spec?;
    let resolved_values = |entry: &KdlEntry| {
        let (start, end) = cursor::value_range(entry);
        let span = Span::new(opened.source, start, end);
        values.iter().filter(|row| row.span == Some(span)).map(resolved).collect::<String>()
    };
    Some(match cursor.part {
        Part::Name => {
            let name = step.node.name().span();
            let mut words = node_documentation(spec);
            words.extend(step.node.entries().iter().map(resolved_values));
            (words, name.offset(), name.offset() + name.len())
        }
        Part::Argument(at, entry) => {
            let (start, end) = cursor::value_range(entry);
            let arg = spec.arg(at)?;
            let mut words =
                format!("`{}` {}: {}\n\n{}", spec.name, arg.name, arg.ty.describe_expected(), spec.doc);
            words.push_str(&resolved_values(entry));
            (words, start, end)
        }
        Part::Key(entry) | Part::Value(entry) => {
            let (start, end) = (entry.span().offset(), cursor::value_range(entry).1);
            let key = entry.name()?.value();
            let mut words = match spec.prop(key) {
                Some(prop) => property(prop),
                None => format!("`{key}=`: {}\n\n{}", spec.free_props.map(Ty::describe_expected)?, spec.doc),
            };
            words.push_str(&resolved_values(entry));
            (words, start, end)
        }
        Part::Gap | Part::Block => return None,
    })
}

/// Renders the documentation of a node.
pub(super) fn node_documentation(spec: &NodeSpec) -> String {
    let mut head = spec.name.to_owned();
    for arg in spec.args {
        let many = if arg.many { "…" } else { "" };
        head.push_str(&if arg.required {
            format!(" <{}>{many}", arg.name)
        } else {
            format!(" [{}]", arg.name)
        });
    }
    for prop in spec.props {
        head.push_str(&if prop.required { format!(" {}=", prop.name) } else { format!(" [{}=]", prop.name) });
    }
    if !spec.children.is_empty() || spec.free_children {
        head.push_str(" { … }");
    }
    let mut out = format!("```kdl\n{head}\n```\n\n{}", spec.doc);
    for arg in spec.args {
        out.push_str(&format!("\n- {}: {}", arg.name, arg.ty.describe_expected()));
    }
    for prop in spec.props {
        out.push_str(&format!("\n- {}", property(prop).replace("\n\n", ": ")));
    }
    if let Some(engines) = engines_of(spec) {
        out.push_str(&format!("\n\nengines: {}", engines.join(", ")));
    }
    out
}

fn property(prop: &Prop) -> String {
    format!("`{}=` {}\n\n{}", prop.name, prop.ty.describe_expected(), prop.doc)
}

/// Renders the resolved value of the plan.
fn resolved(row: &OriginRow) -> String {
    format!("\n\n`{}` = {}, from {}", row.path, row.value, row.why)
}

fn placeholder_hover(values: &[OriginRow], path: &str) -> Option<String> {
    let row = find_row(values, path)?;
    Some(format!("`{{{{ {path} }}}}` = {}, from {}", row.value, row.why))
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
