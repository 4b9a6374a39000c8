//! Detects whether a manifest with KDL syntax errors still shows all of its nodes, so that a missing node can
//! be reported in addition to the syntax error.

use trainc_diag::source::SourceMap;
use trainc_diag::{Diagnostic, Problems};
use trainc_syntax::codes::{T0101, T0120, T0122};
use trainc_syntax::document::{ErrorExtent, error_extent};
use trainc_syntax::{is_node, is_unique_node, trailing_properties};

/// Returns true if a syntax error may hide a node or have moved it into another block.
pub(super) fn may_hide_nodes(problems: &Problems, sources: &SourceMap) -> bool {
    // A known node in the wrong block, or a duplicate of one, was moved there by a brace. A misspelled name
    // is not a known node in any block.
    let is_moved = |one: &Diagnostic| {
        let name = sources.slice(one.span);
        one.code == &T0122 && is_unique_node(name) || one.code == &T0120 && is_node(name)
    };
    problems.iter().any(|one| match error_extent(one.code) {
        ErrorExtent::None => false,
        ErrorExtent::Line => !is_single_value_on_line(one, sources),
        // Invalid KDL next to a brace, such as a second `{`, may have swallowed the nodes of the block.
        ErrorExtent::Blocks => problems.iter().any(|one| is_moved(one) || one.code == &T0101),
        ErrorExtent::File => true,
    })
}

/// Returns true if an unterminated string contains no structure: only one value at the end of its line.
fn is_single_value_on_line(problem: &Diagnostic, sources: &SourceMap) -> bool {
    let text = sources.slice(problem.span);
    let whole = sources.get(problem.span.source).map_or("", |source| &source.text);
    let behind = whole.get(problem.span.end as usize..).unwrap_or("");
    let behind = behind.lines().next().unwrap_or("").trim();
    // The parser read the text after an unterminated string; after a closing quote without an opening one it
    // read properties only.
    let is_read = behind.trim_matches('"').is_empty()
        || !behind.starts_with('"')
        || trailing_properties(behind) == Some(1);
    // A placeholder contains braces and a text may contain an equals sign; a property follows a space.
    let own = text.replace("{{", "").replace("}}", "");
    let takes_property = own.split_whitespace().skip(1).any(|word| word.contains('='));
    let takes_block = own.contains("\"\"\"") || own.contains(['{', '}', ';', '\\', '\n']);
    is_read && !takes_property && !takes_block
}
