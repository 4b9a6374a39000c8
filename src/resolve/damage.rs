//! Whether a manifest that was not written as KDL still shows all its nodes: what is missing in it is then missing, and
//! said, beside the brace or the quote.

use crate::diag::{Diagnostic, Problems};
use crate::source::SourceMap;
use crate::syntax::recover::{Damage, damage};
use crate::syntax::{is_node, read, stands_once};

/// Whether what seems missing may stand in the text, where a mistake of its form hides it or has moved it into another
/// block.
pub(super) fn hides_nodes(problems: &Problems, sources: &SourceMap) -> bool {
    // A node of ours that is not known where it stands, or stands twice, was moved there by a brace; a slip of the
    // fingers is no node of ours anywhere.
    let is_moved = |one: &Diagnostic| {
        let name = sources.slice(one.span);
        one.code == &read::T0122 && stands_once(name) || one.code == &read::T0120 && is_node(name)
    };
    problems.iter().any(|one| match damage(one.code) {
        Damage::None => false,
        Damage::Line => !ends_with_line(one, sources),
        Damage::Blocks => problems.iter().any(is_moved),
        Damage::All => true,
    })
}

/// Whether a string without its end took in nothing of the structure: one value at the end of its line.
fn ends_with_line(problem: &Diagnostic, sources: &SourceMap) -> bool {
    let text = sources.slice(problem.span);
    !text.contains("\"\"\"") && !text.contains(['{', '}', ';', '=', '\\', '\n'])
}
