//! The limit on the length of lists, which keeps checks that compare all pairs of a list fast.

use super::codes::T0111;
use super::tree::{Item, Node, Part};
use trainc_diag::Diagnostic;
use trainc_diag::source::{SourceId, Span};
use trainc_diag::text;

/// The most nodes in a block, and arguments and properties of a node. The longest list that a training job
/// accepts has 100 entries (hyperparameters, environment variables).
pub(super) const MAX_LIST: usize = 1_000;

/// The first entry past the limit.
struct Surplus {
    noun: &'static str,
    start: usize,
    end: usize,
}

/// Returns the diagnostic of a text with a list that is too long.
pub(super) fn check(source: SourceId, items: &[Item]) -> Option<Diagnostic> {
    let surplus = surplus_in_block(items)?;
    let most = text::group_digits(MAX_LIST as u64);
    Some(
        Diagnostic::new(
            &T0111,
            Span::new(source, surplus.start, surplus.end),
            format!("more than {most} {} in one list", surplus.noun),
        )
        .primary_label("the first past the limit")
        .note("the longest list that a training job accepts has 100 entries: is this the right file?")
        .fact("limit", MAX_LIST),
    )
}

fn surplus_in_block(items: &[Item]) -> Option<Surplus> {
    let nodes =
        || items.iter().filter_map(|item| if let Item::Node(node) = item { Some(node) } else { None });
    if let Some(node) = nodes().nth(MAX_LIST) {
        return Some(Surplus { noun: "nodes", start: node.name.start, end: node.name.end });
    }
    nodes().find_map(|node| surplus_in_node(node))
}

fn surplus_in_node(node: &Node) -> Option<Surplus> {
    let entries =
        node.parts.iter().filter_map(|part| if let Part::Entry(entry) = part { Some(entry) } else { None });
    if let Some(entry) = entries.into_iter().nth(MAX_LIST) {
        return Some(Surplus { noun: "values", start: entry.start, end: entry.end });
    }
    node.parts
        .iter()
        .find_map(|part| if let Part::Block(block) = part { surplus_in_block(&block.items) } else { None })
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;
    use trainc_diag::source::SourceMap;

    /// Returns the start of the blamed text and the message.
    fn problem_in(text: &str) -> Option<(u32, String)> {
        let mut sources = SourceMap::default();
        let source = sources.add("a.kdl", text);
        let problem = check(source, &tree::parse(text).unwrap().items)?;
        Some((problem.span.start, problem.message))
    }

    #[test]
    fn long_lists_are_rejected() {
        let nodes = |n: usize| format!("job {{\n{}}}\n", "a 1\n".repeat(n));
        assert_eq!(problem_in(&nodes(MAX_LIST)), None);
        let first = u32::try_from("job {\n".len() + 4 * MAX_LIST).unwrap();
        assert_eq!(
            problem_in(&nodes(MAX_LIST + 1)),
            Some((first, "more than 1,000 nodes in one list".to_owned()))
        );
        let values = |n: usize| format!("job {{ a{} }}\n", " 1".repeat(n));
        assert_eq!(problem_in(&values(MAX_LIST)), None);
        assert!(
            problem_in(&values(MAX_LIST + 1))
                .is_some_and(|(_, words)| words.starts_with("more than 1,000 values"))
        );
    }
}
