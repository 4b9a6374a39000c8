//! Nodes that a job lacks: each stage reports those that it requires, and all of a job become one problem.

use super::T0220;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Detail, Diagnostic, MissingNode, Problems};
use trainc_syntax::nodes::JOB_CHILDREN;

/// Reports a node that a job lacks, with an example of it: at the `#null` that took it away, if one did.
pub(crate) fn missing_node(
    span: Span,
    removed: Option<Span>,
    job: &str,
    node: &str,
    example: &str,
) -> Diagnostic {
    let diagnostic =
        Diagnostic::new(&T0220, span, format!("job `{job}` has no `{node}`")).removed_at(removed);
    if removed.is_some() {
        return diagnostic.write(example);
    }
    diagnostic.add(example).detail(Detail::MissingNodes(vec![MissingNode {
        name: node.to_owned(),
        example: example.to_owned(),
    }]))
}

/// Joins the nodes that a job lacks into one problem, whose help is a block to paste.
pub fn join_missing_nodes(job: &str, problems: &mut Problems) {
    let missing = |one: &Diagnostic| match &one.detail {
        Some(Detail::MissingNodes(nodes)) => Some((one.span, nodes.clone())),
        _ => None,
    };
    let Some(span) = problems.iter().find_map(missing).map(|(span, _)| span) else { return };
    let is_missing = |one: &Diagnostic| missing(one).is_some_and(|(at, _)| at == span);
    let all: Vec<Diagnostic> = problems.iter().filter(|one| is_missing(one)).cloned().collect();
    if all.len() < 2 {
        return;
    }
    let mut nodes: Vec<MissingNode> = all.iter().filter_map(missing).flat_map(|(_, nodes)| nodes).collect();
    nodes.sort_by_key(|node| JOB_CHILDREN.iter().position(|spec| spec.name == node.name));
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let examples: Vec<&str> = nodes.iter().map(|node| node.example.as_str()).collect();
    let block = format!("\n    {}", examples.join("\n    "));
    let joined =
        Diagnostic::new(&T0220, span, format!("job `{job}` has no {}", text::backtick_list(&names, "and")))
            .help(format!("add to its block:{block}"))
            .suggest_code(examples.join("\n"), None)
            .detail(Detail::MissingNodes(nodes.clone()));
    let joined = all.into_iter().flat_map(|one| one.notes).fold(joined, Diagnostic::note);
    problems.retain(|one| !is_missing(one));
    problems.push(joined);
}
