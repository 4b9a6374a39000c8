//! The nodes of any form below `request`.

use super::ast::{Duplicate, Node};
use super::codes::{T0122, T0123};
use super::reader::Reader;
use super::spec::Ty;
use kdl::KdlNode;
use std::collections::BTreeMap;
use trainc_diag::Diagnostic;
use trainc_diag::source::{Span, Spanned};

impl Reader<'_> {
    pub(super) fn free_children(&mut self, list: &[&KdlNode]) -> Vec<Node> {
        let mut out: Vec<Node> = Vec::new();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for child in list {
            let read = self.free_node(child);
            if read.name.value != "-" {
                let at = *seen.entry(read.name.value.clone()).or_insert(out.len());
                if let Some(first) = out.get_mut(at) {
                    self.push(
                        Diagnostic::new(&T0122, read.name.span, format!("duplicate `{}`", read.name.value))
                            .primary_label("the second")
                            .label(first.name.span, "the first")
                            .help("keep one of them; the items of a list are written as `-`"),
                    );
                    first.add_duplicate(Duplicate::Node(read));
                    continue;
                }
            }
            out.push(read);
        }
        out
    }

    /// Reads a node of any form.
    fn free_node(&mut self, node: &KdlNode) -> Node {
        let mut read = Node {
            spec: None,
            name: Spanned::new(node.name().value().to_owned(), self.span(node.name().span())),
            span: self.span(node.span()),
            also: Vec::new(),
            duplicates: Vec::new(),
            removed: Vec::new(),
            args: Vec::new(),
            props: Vec::new(),
            children: Vec::new(),
        };
        let mut seen: BTreeMap<String, Span> = BTreeMap::new();
        for entry in node.entries() {
            self.report_type_annotation(entry);
            let span = self.value_span(entry);
            let value = self.value(entry, span, Ty::Scalar, &read.name.value);
            match entry.name() {
                None => read.args.push(Spanned::new(value, span)),
                Some(key) => {
                    let key = Spanned::new(key.value().to_owned(), self.span(key.span()));
                    if let Some(first) = seen.insert(key.value.clone(), key.span) {
                        self.push(
                            Diagnostic::new(&T0123, key.span, format!("duplicate property `{}`", key.value))
                                .label(first, "the first")
                                .help("keep one of them"),
                        );
                        read.add_duplicate(Duplicate::Property(key, Spanned::new(value, span)));
                        continue;
                    }
                    read.props.push((key, Spanned::new(value, span)));
                }
            }
        }
        if let Some(children) = node.children() {
            let list: Vec<&KdlNode> = children.nodes().iter().collect();
            read.children = self.free_children(&list);
        }
        read
    }
}
