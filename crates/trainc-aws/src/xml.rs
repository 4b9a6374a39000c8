//! XML answers as a tree of names: enough for EC2's lists.

use xmlparser::{ElementEnd, Token, Tokenizer};

/// An element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    /// Its name, without its prefix.
    pub name: String,
    /// Its text, where it holds no elements.
    pub text: String,
    /// The elements in it.
    pub children: Vec<Element>,
}

/// Reads a document; none where it is not one.
pub(super) fn read(text: &str) -> Option<Element> {
    let mut open: Vec<Element> = vec![Element::default()];
    for token in Tokenizer::from(text) {
        match token.ok()? {
            Token::ElementStart { local, .. } => {
                open.push(Element { name: local.as_str().to_owned(), ..Element::default() });
            }
            Token::Text { text } => open.last_mut()?.text.push_str(unescaped(text.as_str().trim()).as_str()),
            Token::Cdata { text, .. } => open.last_mut()?.text.push_str(text.as_str()),
            Token::ElementEnd { end: ElementEnd::Close(..) | ElementEnd::Empty, .. } => {
                let done = open.pop()?;
                open.last_mut()?.children.push(done);
            }
            _ => {}
        }
    }
    let mut outside = open.pop().filter(|_| open.is_empty())?;
    outside.children.pop()
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

impl Element {
    /// The first child of that name.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the first child of that name.
    pub(super) fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.as_str()).filter(|text| !text.is_empty())
    }

    /// The `item`s of a list.
    pub(super) fn items<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Self> + use<'a> {
        self.child(name)
            .into_iter()
            .flat_map(|list| list.children.iter())
            .filter(|child| child.name == "item")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_a_tree() {
        let text = r#"<?xml version="1.0"?><A xmlns="x"><set><item><id>a&amp;b</id></item><item/></set> <n>1</n></A>"#;
        let read = read(text).unwrap();
        assert_eq!(read.name, "A");
        assert_eq!(read.items("set").count(), 2);
        assert_eq!(read.items("set").next().unwrap().text_of("id"), Some("a&b"));
        assert_eq!(read.text_of("n"), Some("1"));
        assert_eq!(super::read("<A><B></A>").map(|a| a.name), None);
        assert_eq!(super::read("not xml"), None);
    }
}
