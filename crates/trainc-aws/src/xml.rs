//! Parses the XML responses of EC2 and IAM, which are untrusted input: without DTD, and with a limited number
//! of nodes.

use roxmltree::{Document, Node, ParsingOptions};

/// Maximum number of nodes of a response. A page of 1,000 route tables has about 50,000.
const MAX_NODES: u32 = 1 << 20;

/// Parses a document. `None` if the text is not XML, declares a DTD, or has more than [`MAX_NODES`] nodes.
pub(super) fn parse(text: &str) -> Option<Document<'_>> {
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).ok()
}

/// Returns the first child element of a name, in any namespace.
pub(super) fn child<'a, 'input>(element: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    element.children().find(|child| child.is_element() && child.tag_name().name() == name)
}

/// Returns the text of an element; empty for one without text.
pub(super) fn text<'a>(element: Node<'a, '_>) -> &'a str {
    element.text().unwrap_or_default().trim()
}

/// Returns the text of the first child of a name, if it has any.
pub(super) fn text_of<'a>(element: Node<'a, '_>, name: &str) -> Option<&'a str> {
    child(element, name).map(text).filter(|text| !text.is_empty())
}

/// Returns the elements of a name in the list of a name: `item` in lists of EC2, `member` in those of IAM.
pub(super) fn elements<'a, 'input: 'a>(
    element: Node<'a, 'input>,
    list: &str,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'input>> + use<'a, 'input> {
    let list = child(element, list);
    list.into_iter().flat_map(|list| list.children()).filter(move |child| child.tag_name().name() == name)
}

/// Returns the `item` elements of the list of a name.
pub(super) fn items<'a, 'input: 'a>(
    element: Node<'a, 'input>,
    list: &str,
) -> impl Iterator<Item = Node<'a, 'input>> + use<'a, 'input> {
    elements(element, list, "item")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_by_name() {
        let source = r#"<?xml version="1.0"?><A xmlns="x"><set><item><id>a&amp;b</id></item><item/></set> <n>1</n></A>"#;
        let document = parse(source).unwrap();
        let root = document.root_element();
        assert_eq!(root.tag_name().name(), "A");
        assert_eq!(items(root, "set").count(), 2);
        assert_eq!(text_of(items(root, "set").next().unwrap(), "id"), Some("a&b"));
        assert_eq!(text_of(root, "n"), Some("1"));
        assert_eq!(text_of(root, "missing"), None);
    }

    #[test]
    fn malformed_documents_are_rejected() {
        for source in ["<A><B></A>", "not xml", "", "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>"] {
            assert!(parse(source).is_none(), "{source}");
        }
    }

    #[test]
    fn nested_and_long_documents_are_bounded() {
        let nested = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        // The parser is not recursive: a deeply nested document needs nodes, but no stack.
        assert!(parse(&nested(300_000)).is_some());
        assert!(parse(&nested(MAX_NODES as usize + 1)).is_none());
        let long = format!("<a>{}</a>", "<b/>".repeat(MAX_NODES as usize));
        assert!(parse(&long).is_none());
    }
}
