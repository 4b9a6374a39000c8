//! Nodes that a job lacks: each stage reports those that it requires, and all of a job become one problem.

use super::T0220;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Diagnostic, Problems};
use trainc_syntax::nodes::JOB_CHILDREN;

/// Fact of a problem: the names of the missing nodes, in the order of the language.
const NODES: &str = "nodes";
/// Fact of a problem: the nodes to write, one for each name.
pub const WRITE: &str = "write";

/// Reports a node that a job lacks, with an example of it.
pub(crate) fn missing_node(span: Span, job: &str, node: &str, example: &str) -> Diagnostic {
    Diagnostic::new(&T0220, span, format!("job `{job}` has no `{node}`"))
        .add(example)
        .fact(NODES, vec![node])
        .fact(WRITE, vec![example])
}

/// Joins the nodes that a job lacks into one problem, whose help is a block to paste.
pub fn join_missing_nodes(job: &str, problems: &mut Problems) {
    let is_missing = |one: &Diagnostic| one.code == &T0220;
    let Some(span) = problems.iter().find(|one| is_missing(one)).map(|one| one.span) else { return };
    let all: Vec<Diagnostic> =
        problems.iter().filter(|one| is_missing(one) && one.span == span).cloned().collect();
    let text_of = |one: &Diagnostic, fact: &str| Some(one.facts.get(fact)?.get(0)?.as_str()?.to_owned());
    let mut nodes: Vec<(String, String)> =
        all.iter().filter_map(|one| Some((text_of(one, NODES)?, text_of(one, WRITE)?))).collect();
    if all.len() < 2 || nodes.len() < all.len() {
        return;
    }
    nodes.sort_by_key(|(name, _)| JOB_CHILDREN.iter().position(|spec| spec.name == name));
    let (names, examples): (Vec<String>, Vec<String>) = nodes.into_iter().unzip();
    let block = format!("\n    {}", examples.join("\n    "));
    let joined =
        Diagnostic::new(&T0220, span, format!("job `{job}` has no {}", text::backtick_list(&names, "and")))
            .help(format!("add to its block:{block}"))
            .suggest_code(examples.join("\n"), None)
            .fact(NODES, names)
            .fact(WRITE, examples);
    let joined = all.into_iter().flat_map(|one| one.notes).fold(joined, Diagnostic::note);
    problems.retain(|one| !(is_missing(one) && one.span == span));
    problems.push(joined);
}
