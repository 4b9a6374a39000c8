//! What a sweep varies: paths that lead somewhere, and values that differ.

use super::{pick, set};
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::ir::{Val, Vary};
use crate::syntax::ast::Node;

declare_code!(T0213, "value-varied-twice", Warning, "a sweep that has one value twice");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0213];

/// Looks at every `vary` of the job once, so that each job of the sweep need not.
pub(super) fn look(job: &Node, problems: &mut Problems) {
    for vary in job.children_named("sweep").flat_map(|sweep| sweep.children_named("vary")) {
        if let Some((path, arg)) = vary.first_text().zip(vary.arg(0))
            && let Some(problem) = set::nowhere(path, arg.span, &job.children)
        {
            problems.push(problem);
        }
        let mut seen = Vec::new();
        for arg in vary.args.iter().skip(1) {
            let Some(value) = pick::scalar_of(&arg.value) else { continue };
            match seen.iter().find(|(other, _)| *other == value) {
                Some((_, first)) => problems.push(
                    Diagnostic::new(&T0213, arg.span, "two jobs of the sweep are the same".to_owned())
                        .here("the second")
                        .label(*first, "the first")
                        .help("remove one; runs of other seeds differ by `vary \"train.seed\" 1 2 3`"),
                ),
                None => seen.push((value, arg.span)),
            }
        }
    }
}

/// What `sweep` varies: paths and their values.
pub(super) fn read(node: &Node) -> Vec<Vary> {
    node.children_named("vary")
        .filter_map(|vary| {
            let path = Val::written(vary.first_text()?.to_owned(), vary.arg(0)?.span);
            let values = vary
                .args
                .get(1..)?
                .iter()
                .filter_map(|arg| Some(Val::written(pick::scalar_of(&arg.value)?, arg.span)));
            Some(Vary { path, values: values.collect() })
        })
        .collect()
}
