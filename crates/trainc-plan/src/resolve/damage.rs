//! Whether a manifest that was not written as KDL still shows all its nodes: what is missing in it is then missing, and
//! said, beside the brace or the quote.

use trainc_diag::source::SourceMap;
use trainc_diag::{Diagnostic, Problems};
use trainc_syntax::recover::{Damage, damage};
use trainc_syntax::{is_node, properties_at, read, stands_once};

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
        // What is no KDL beside a brace, as a second `{`, may have taken the block's nodes with it.
        Damage::Blocks => problems.iter().any(|one| is_moved(one) || one.code.id == "T0101"),
        Damage::All => true,
    })
}

/// Whether a string without its end, or its beginning, took in nothing of the structure: one value at the end of its line.
fn ends_with_line(problem: &Diagnostic, sources: &SourceMap) -> bool {
    let text = sources.slice(problem.span);
    let whole = sources.get(problem.span.source).map_or("", |source| &source.text);
    let behind = whole.get(problem.span.end as usize..).unwrap_or("");
    let behind = behind.lines().next().unwrap_or("").trim();
    // What stands behind a string without its end was read; behind a closing quote that nothing opened, where it is
    // properties.
    let is_read =
        behind.trim_matches('"').is_empty() || !behind.starts_with('"') || properties_at(behind) == Some(1);
    // A placeholder has braces of its own, and a text an equals sign; a property stands behind a blank.
    let own = text.replace("{{", "").replace("}}", "");
    let takes_property = own.split_whitespace().skip(1).any(|word| word.contains('='));
    let takes_block = own.contains("\"\"\"") || own.contains(['{', '}', ';', '\\', '\n']);
    is_read && !takes_property && !takes_block
}
