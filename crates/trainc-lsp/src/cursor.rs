//! What stands at a place of a text: the nodes around it, and the part of the innermost that is meant.

use kdl::{KdlDocument, KdlEntry, KdlNode};
use trainc_diag::source::SourceId;
use trainc_syntax::document;
use trainc_syntax::nodes;
use trainc_syntax::spec::NodeSpec;

/// A node on the way to a place, with its table.
#[derive(Clone, Copy)]
pub(super) struct Step<'d> {
    pub(super) node: &'d KdlNode,
    pub(super) spec: Option<&'static NodeSpec>,
}

/// The part of the innermost node that a place is in.
#[derive(Clone, Copy)]
pub(super) enum Part<'d> {
    /// Its name.
    Name,
    /// Its argument of that number, from 0.
    Argument(usize, &'d KdlEntry),
    /// The name of a property.
    Key(&'d KdlEntry),
    /// The value of a property.
    Value(&'d KdlEntry),
    /// Between its entries, or behind them.
    Gap,
    /// Its block, outside of every child; without a node, the top of the file.
    Block,
}

/// A place.
pub(super) struct Cursor<'d> {
    /// The nodes around it, the innermost last.
    pub(super) steps: Vec<Step<'d>>,
    pub(super) part: Part<'d>,
}

impl<'d> Cursor<'d> {
    /// What stands at a byte of the text.
    pub(super) fn at(document: &'d KdlDocument, text: &str, offset: usize) -> Self {
        let mut cursor = Self { steps: Vec::new(), part: Part::Block };
        cursor.descend(document, text, offset);
        cursor
    }

    /// The innermost node.
    pub(super) fn node(&self) -> Option<Step<'d>> {
        self.steps.last().copied()
    }

    fn descend(&mut self, document: &'d KdlDocument, text: &str, offset: usize) {
        let parent = self.node();
        for node in document.nodes() {
            let name = node.name().span();
            let start = name.offset();
            if offset < start {
                break;
            }
            let block = node.children().map(KdlDocument::span);
            let head_end = block.map_or_else(|| line_end(node, text, offset), |block| block.offset());
            let end = block.map_or(head_end, |block| block.offset() + block.len());
            if offset > end || (block.is_some() && offset == end) {
                continue;
            }
            self.steps.push(Step { node, spec: table(parent, node) });
            if let Some(children) = node.children().filter(|_| offset > head_end) {
                self.part = Part::Block;
                self.descend(children, text, offset);
            } else {
                self.part = part(node, offset);
            }
            return;
        }
    }
}

/// Where the line of a node without a block ends, blanks behind it included if the place is there.
fn line_end(node: &KdlNode, text: &str, offset: usize) -> usize {
    let last = node.entries().last().map_or_else(|| node.name().span(), KdlEntry::span);
    let end = last.offset() + last.len();
    let between = text.get(end..offset.max(end)).unwrap_or("\n");
    if between.chars().all(|c| c == ' ' || c == '\t') { offset.max(end) } else { end }
}

fn part(node: &KdlNode, offset: usize) -> Part<'_> {
    let name = node.name().span();
    if offset <= name.offset() + name.len() {
        return Part::Name;
    }
    let mut arguments = 0;
    for entry in node.entries() {
        let span = entry.span();
        let here = span.offset() <= offset && offset <= span.offset() + span.len();
        if here && entry.name().is_some() {
            let value = value(entry).0;
            return if offset < value { Part::Key(entry) } else { Part::Value(entry) };
        }
        if here {
            return Part::Argument(arguments, entry);
        }
        arguments += usize::from(entry.name().is_none());
    }
    Part::Gap
}

/// First byte and end of an entry's value.
pub(super) fn value(entry: &KdlEntry) -> (usize, usize) {
    let span = document::value_span(SourceId(0), entry);
    (span.start as usize, span.end as usize)
}

/// The table of a node below another, or at the top of a file.
fn table(parent: Option<Step>, node: &KdlNode) -> Option<&'static NodeSpec> {
    let name = node.name().value();
    if name == "allow" {
        return Some(&nodes::ALLOW);
    }
    match parent {
        Some(step) => step.spec?.child(name),
        None => {
            top().iter().copied().chain(nodes::JOB_CHILDREN.iter().copied()).find(|spec| spec.name == name)
        }
    }
}

/// The nodes that every file may have at its top.
pub(super) fn top() -> [&'static NodeSpec; 3] {
    [&nodes::JOB, &nodes::EXTENDS, &nodes::ENV]
}

/// The path of the placeholder `{{ path }}` that a byte of the text is in, and its place.
pub(super) fn placeholder(text: &str, offset: usize) -> Option<(&str, usize, usize)> {
    let line_start = text.get(..offset)?.rfind('\n').map_or(0, |newline| newline + 1);
    let open = text.get(line_start..offset)?.rfind("{{").map(|at| line_start + at + 2)?;
    let rest = text.get(open..)?;
    let close = open + rest.find("}}").filter(|&at| !rest.get(..at).unwrap_or("\n").contains('\n'))?;
    let inside = text.get(open..close)?;
    let path = inside.trim().split([' ', '|', '+', '*', '-', '/', '(']).next()?;
    let start = open + inside.find(path)?;
    (offset <= close && !path.is_empty()).then_some((path, start, start + path.len()))
}
