//! Document symbols: the nodes of a file, each with its first argument.

use super::positions::Encoding;
use kdl::{KdlDocument, KdlEntry, KdlNode};
use lsp_types::{DocumentSymbol, SymbolKind};

/// Returns the nodes of a document, nested like its blocks.
pub(super) fn symbols(document: &KdlDocument, text: &str, encoding: Encoding) -> Vec<DocumentSymbol> {
    document.nodes().iter().map(|node| symbol(node, text, encoding)).collect()
}

#[expect(deprecated, reason = "the protocol's type has the member, and no constructor")]
fn symbol(node: &KdlNode, text: &str, encoding: Encoding) -> DocumentSymbol {
    let (name, whole) = (node.name().span(), node.span());
    let first = node.entries().iter().find(|entry| entry.name().is_none());
    let children = node.children().map(|children| symbols(children, text, encoding)).unwrap_or_default();
    let covered = text.get(whole.offset()..whole.offset() + whole.len()).unwrap_or("").trim_end().len();
    let end = (whole.offset() + covered).max(name.offset() + name.len());
    DocumentSymbol {
        name: node.name().value().to_owned(),
        detail: first.map(entry_text),
        kind: if node.name().value() == "job" { SymbolKind::MODULE } else { SymbolKind::PROPERTY },
        tags: None,
        deprecated: None,
        range: encoding.range(text, name.offset(), end),
        selection_range: encoding.range(text, name.offset(), name.offset() + name.len()),
        children: (!children.is_empty()).then_some(children),
    }
}

fn entry_text(entry: &KdlEntry) -> String {
    entry.value().as_string().map_or_else(|| entry.value().to_string(), str::to_owned)
}
