//! The nodes around a position of a text, and the part of the innermost node at the position.

use super::document;
use super::nodes;
use super::spec::NodeSpec;
use kdl::{KdlDocument, KdlEntry, KdlNode};
use trainc_diag::source::SourceId;

/// A node around a position, with its table.
#[derive(Clone, Copy, Debug)]
pub struct Step<'d> {
    /// The node.
    pub node: &'d KdlNode,
    /// Its table, if the language has the node there.
    pub spec: Option<&'static NodeSpec>,
}

/// The part of the innermost node at a position.
#[derive(Clone, Copy, Debug)]
pub enum Part<'d> {
    /// Its name.
    Name,
    /// The argument with that index.
    Argument(usize, &'d KdlEntry),
    /// The name of a property.
    Key(&'d KdlEntry),
    /// The value of a property.
    Value(&'d KdlEntry),
    /// Between its entries, or after them.
    Gap,
    /// Its block, outside of its children; without a node, the top level of the file.
    Block,
}

/// A position in a document.
#[derive(Debug)]
pub struct Cursor<'d> {
    /// The nodes around it, innermost last.
    pub steps: Vec<Step<'d>>,
    /// The part of the innermost node.
    pub part: Part<'d>,
}

impl<'d> Cursor<'d> {
    /// Finds the position of a byte of the text.
    pub fn at(document: &'d KdlDocument, text: &str, offset: usize) -> Self {
        let mut cursor = Self { steps: Vec::new(), part: Part::Block };
        cursor.descend(document, text, offset);
        cursor
    }

    /// Returns the names of the nodes around it, innermost last.
    pub fn names(&self) -> Vec<&'d str> {
        self.steps.iter().map(|step| step.node.name().value()).collect()
    }

    /// Returns the innermost node.
    pub fn node(&self) -> Option<Step<'d>> {
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
            self.steps.push(Step { node, spec: spec_of_node(parent, node) });
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

/// Returns the end of a node without a block, including the spaces up to the position.
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
            let value_start = value_range(entry).0;
            return if offset < value_start { Part::Key(entry) } else { Part::Value(entry) };
        }
        if here {
            return Part::Argument(arguments, entry);
        }
        arguments += usize::from(entry.name().is_none());
    }
    Part::Gap
}

/// Returns the start and end of an entry's value.
pub fn value_range(entry: &KdlEntry) -> (usize, usize) {
    let span = document::value_span(SourceId(0), entry);
    (span.start as usize, span.end as usize)
}

/// Returns the table of a node below another, or at the top level of a file.
fn spec_of_node(parent: Option<Step>, node: &KdlNode) -> Option<&'static NodeSpec> {
    let name = node.name().value();
    if name == "allow" {
        return Some(&nodes::ALLOW);
    }
    match parent {
        Some(step) => step.spec?.child(name),
        None => top_level()
            .iter()
            .copied()
            .chain(nodes::JOB_CHILDREN.iter().copied())
            .find(|spec| spec.name == name),
    }
}

/// Returns the nodes that are valid at the top level of every file.
pub fn top_level() -> [&'static NodeSpec; 4] {
    [&nodes::JOB, &nodes::REQUIRES, &nodes::EXTENDS, &nodes::ENV]
}

/// Returns where the name begins that is written at a byte inside `{{ … }}`, which may not be closed yet.
pub fn placeholder_start(text: &str, offset: usize) -> Option<usize> {
    let before = text.get(..offset)?;
    let line = before.rfind('\n').map_or(0, |newline| newline + 1);
    let open = line + before.get(line..)?.rfind("{{")? + 2;
    let inside = before.get(open..)?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    (!inside.contains("}}")).then(|| open + inside.trim_end_matches(is_name).len())
}

/// Returns the path of the placeholder `{{ path }}` around a byte of the text, and its start and end.
pub fn placeholder(text: &str, offset: usize) -> Option<(&str, usize, usize)> {
    let line_start = text.get(..offset)?.rfind('\n').map_or(0, |newline| newline + 1);
    let open = text.get(line_start..offset)?.rfind("{{").map(|at| line_start + at + 2)?;
    let rest = text.get(open..)?;
    let close = open + rest.find("}}").filter(|&at| !rest.get(..at).unwrap_or("\n").contains('\n'))?;
    let inside = text.get(open..close)?;
    let path = inside.trim().split([' ', '|', '+', '*', '-', '/', '(']).next()?;
    let start = open + inside.find(path)?;
    (offset <= close && !path.is_empty()).then_some((path, start, start + path.len()))
}
