//! Decides whether a manifest with KDL syntax errors still shows all of its nodes, so that a missing node can be reported
//! in addition to the syntax error.

use trainc_diag::source::SourceMap;
use trainc_diag::{Diagnostic, Problems};
use trainc_syntax::recover::{Damage, damage};
use trainc_syntax::{is_node, properties_at, read, stands_once};

/// Returns whether a syntax error may hide a node or have moved it into another block.
pub(super) fn may_hide_nodes(problems: &Problems, sources: &SourceMap) -> bool {
    // A known node in the wrong block, or a duplicate of one, was moved there by a brace. A misspelled name is not a known
    // node in any block.
    let is_moved = |one: &Diagnostic| {
        let name = sources.slice(one.span);
        one.code == &read::T0122 && stands_once(name) || one.code == &read::T0120 && is_node(name)
    };
    problems.iter().any(|one| match damage(one.code) {
        Damage::None => false,
        Damage::Line => !ends_with_line(one, sources),
        // Invalid KDL next to a brace, such as a second `{`, may have swallowed the nodes of the block.
        Damage::Blocks => problems.iter().any(|one| is_moved(one) || one.code.id == "T0101"),
        Damage::All => true,
    })
}

/// Returns whether an unterminated string contains no structure: only one value at the end of its line.
fn ends_with_line(problem: &Diagnostic, sources: &SourceMap) -> bool {
    let text = sources.slice(problem.span);
    let whole = sources.get(problem.span.source).map_or("", |source| &source.text);
    let behind = whole.get(problem.span.end as usize..).unwrap_or("");
    let behind = behind.lines().next().unwrap_or("").trim();
    // The parser read the text after an unterminated string; after a closing quote without an opening one it read
    // properties only.
    let is_read =
        behind.trim_matches('"').is_empty() || !behind.starts_with('"') || properties_at(behind) == Some(1);
    // A placeholder contains braces and a text may contain an equals sign; a property follows a space.
    let own = text.replace("{{", "").replace("}}", "");
    let takes_property = own.split_whitespace().skip(1).any(|word| word.contains('='));
    let takes_block = own.contains("\"\"\"") || own.contains(['{', '}', ';', '\\', '\n']);
    is_read && !takes_property && !takes_block
}
