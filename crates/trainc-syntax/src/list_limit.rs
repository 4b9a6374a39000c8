//! Lists that are too long for any manifest: what looks at each of a list beside all others would never end on them.

use super::codes::T0111;
use super::tree::{Item, Node, Part};
use trainc_diag::Diagnostic;
use trainc_diag::source::{SourceId, Span};
use trainc_diag::text;

/// A block has at most so many nodes, and a node so many arguments and properties. The longest list that a training job
/// takes has 100 (hyperparameters, variables of the environment).
pub(super) const MAX_LIST: usize = 1_000;

/// The first that is one too many.
struct Surplus {
    what: &'static str,
    start: usize,
    end: usize,
}

/// The problem of a text with a list that is too long; none where all lists are fine.
pub(super) fn judge(source: SourceId, items: &[Item]) -> Option<Diagnostic> {
    let surplus = of_block(items)?;
    let most = text::group_digits(MAX_LIST as u64);
    Some(
        Diagnostic::new(
            &T0111,
            Span::new(source, surplus.start, surplus.end),
            format!("more than {most} {} stand in one list", surplus.what),
        )
        .primary_label(format!("the first behind {most}"))
        .note("the longest list that a training job takes has 100: is this the right file?")
        .fact("limit", MAX_LIST),
    )
}

fn of_block(items: &[Item]) -> Option<Surplus> {
    let nodes =
        || items.iter().filter_map(|item| if let Item::Node(node) = item { Some(node) } else { None });
    if let Some(node) = nodes().nth(MAX_LIST) {
        return Some(Surplus { what: "nodes", start: node.name.start, end: node.name.end });
    }
    nodes().find_map(|node| of_node(node))
}

fn of_node(node: &Node) -> Option<Surplus> {
    let entries =
        node.parts.iter().filter_map(|part| if let Part::Entry(entry) = part { Some(entry) } else { None });
    if let Some(entry) = entries.into_iter().nth(MAX_LIST) {
        return Some(Surplus { what: "values", start: entry.start, end: entry.end });
    }
    node.parts
        .iter()
        .find_map(|part| if let Part::Block(block) = part { of_block(&block.items) } else { None })
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;
    use trainc_diag::source::SourceMap;

    /// The text at fault, with the words.
    fn found(text: &str) -> Option<(u32, String)> {
        let mut sources = SourceMap::default();
        let source = sources.add("a.kdl", text);
        let problem = judge(source, &tree::read(text).unwrap().items)?;
        Some((problem.span.start, problem.message))
    }

    #[test]
    fn lists_end_somewhere() {
        let nodes = |n: usize| format!("job {{\n{}}}\n", "a 1\n".repeat(n));
        assert_eq!(found(&nodes(MAX_LIST)), None);
        let first = u32::try_from("job {\n".len() + 4 * MAX_LIST).unwrap();
        assert_eq!(
            found(&nodes(MAX_LIST + 1)),
            Some((first, "more than 1,000 nodes stand in one list".to_owned()))
        );
        let values = |n: usize| format!("job {{ a{} }}\n", " 1".repeat(n));
        assert_eq!(found(&values(MAX_LIST)), None);
        assert!(
            found(&values(MAX_LIST + 1))
                .is_some_and(|(_, words)| words.starts_with("more than 1,000 values"))
        );
    }
}
