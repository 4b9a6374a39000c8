//! Formats manifests: four spaces per level, one space between values, one node per line.
//!
//! In: the text of a valid manifest. Out: the formatted text, with its comments, single blank lines and the
//! spelling of every value. The meaning never changes, and a second pass changes nothing.

use super::lexer::{Kind, Token};
use super::tree::{self, Block, Entry, Item, Limit, Node, Part, Type};

/// A block on one line stays on one line up to this width.
const MAX_WIDTH: usize = 100;

/// An error that prevents formatting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The text has syntax errors, which [`parse`](super::document::parse) reports.
    #[error("the text has syntax errors, the first at byte {first}")]
    Syntax {
        /// The number of errors.
        count: usize,
        /// The byte offset of the first.
        first: usize,
    },
    /// The text exceeds a limit of size or depth.
    #[error("the text is too large or too deeply nested")]
    Limit,
}

/// Formats a text.
pub fn format(text: &str) -> Result<String, FormatError> {
    let tree = tree::parse(text).map_err(|limit| match limit {
        Limit::TooLarge | Limit::TooDeep(_) => FormatError::Limit,
    })?;
    if let Some(first) = tree.faults.first() {
        return Err(FormatError::Syntax { count: tree.faults.len(), first: first.start });
    }
    let mut printer = Printer { text, out: String::with_capacity(text.len() + 64) };
    printer.items(&tree.items, 0);
    Ok(printer.out)
}

struct Printer<'t> {
    text: &'t str,
    out: String,
}

/// Returns the items without blank lines at either end.
fn trimmed(items: &[Item]) -> &[Item] {
    let mut items = items;
    while let [Item::Blank, rest @ ..] | [rest @ .., Item::Blank] = items {
        items = rest;
    }
    items
}

impl Printer<'_> {
    fn slice(&self, start: usize, end: usize) -> String {
        let text = self.text.get(start..end).unwrap_or("");
        text.replace("\r\n", "\n").replace('\r', "\n")
    }

    fn token(&self, token: Token) -> String {
        self.slice(token.start, token.end)
    }

    /// Returns the text of a comment, or of the comment in a line continuation.
    fn comment(&self, token: Token) -> String {
        let text = self.token(token);
        let text = if token.kind == Kind::Escline { text.trim_start_matches('\\') } else { &text };
        text.trim().to_owned()
    }

    fn is_blank(&self, start: usize, end: usize) -> bool {
        self.text.get(start..end).is_none_or(|gap| gap.trim().is_empty())
    }

    fn indent(&mut self, depth: usize) {
        self.out.push_str(&"    ".repeat(depth));
    }

    /// Prints items on separate lines.
    fn items(&mut self, items: &[Item], depth: usize) {
        let mut fresh = true;
        for item in trimmed(items) {
            match item {
                Item::Blank => self.out.push('\n'),
                Item::Comment { token, inline } => {
                    if fresh {
                        self.indent(depth);
                    }
                    let comment = self.comment(*token);
                    self.out.push_str(&comment);
                    self.out.push(if *inline { ' ' } else { '\n' });
                    fresh = !inline;
                    continue;
                }
                Item::Node(node) => {
                    if fresh {
                        self.indent(depth);
                    }
                    self.node(node, depth);
                    self.out.push('\n');
                }
            }
            fresh = true;
        }
    }

    fn ty(&self, ty: Option<Type>, next: usize) -> String {
        let Some(ty) = ty else { return String::new() };
        match ty.name {
            Some(name)
                if self.is_blank(ty.start + 1, name.start)
                    && self.is_blank(name.end, ty.end - 1)
                    && self.is_blank(ty.end, next) =>
            {
                format!("({})", self.token(name))
            }
            // It contains a comment: printed as written.
            _ => self.slice(ty.start, next),
        }
    }

    fn head(&self, node: &Node) -> String {
        let slashdash = if node.slashdash { "/-" } else { "" };
        format!("{slashdash}{}{}", self.ty(node.ty, node.name.start), self.token(node.name))
    }

    fn entry(&self, entry: &Entry) -> String {
        let slashdash = if entry.slashdash { "/-" } else { "" };
        let first = entry
            .key
            .map(|key| key.start)
            .or(entry.ty.map(|ty| ty.start))
            .or(entry.value.map(|value| value.start));
        if entry.has_trivia {
            return format!("{slashdash}{}", self.slice(first.unwrap_or(entry.start), entry.end));
        }
        let key = entry.key.map_or_else(String::new, |key| format!("{}=", self.token(key)));
        let value = entry.value.map_or_else(String::new, |value| self.token(value));
        let ty = self.ty(entry.ty, entry.value.map_or(entry.end, |value| value.start));
        format!("{slashdash}{key}{ty}{value}")
    }

    /// Prints a node without the line end.
    fn node(&mut self, node: &Node, depth: usize) {
        let head = self.head(node);
        self.out.push_str(&head);
        let mut at_start = false;
        // A line continuation before nothing is dropped, and its comment ends this line.
        let mut parts = node.parts.as_slice();
        let mut end = node.comment.map(|token| self.comment(token));
        while let [before @ .., Part::Break(token)] = parts {
            let comment = self.comment(*token);
            if !comment.is_empty() && end.is_some() {
                break;
            }
            end = end.or(Some(comment).filter(|comment| !comment.is_empty()));
            parts = before;
        }
        for part in parts {
            self.push_space_unless(at_start);
            at_start = false;
            match part {
                Part::Entry(entry) => {
                    let entry = self.entry(entry);
                    self.out.push_str(&entry);
                }
                Part::Comment(token) if token.kind == Kind::BlockComment => {
                    let comment = self.comment(*token);
                    self.out.push_str(&comment);
                }
                Part::Comment(token) | Part::Break(token) => {
                    let comment = self.comment(*token);
                    self.out.push('\\');
                    self.push_space_unless(comment.is_empty());
                    self.out.push_str(&comment);
                    self.out.push('\n');
                    self.indent(depth + 1);
                    at_start = true;
                }
                Part::Block(block) => self.block(block, depth),
            }
        }
        if let Some(comment) = end {
            self.push_space_unless(at_start);
            self.out.push_str(&comment);
        }
    }

    fn push_space_unless(&mut self, without: bool) {
        if !without {
            self.out.push(' ');
        }
    }

    fn block(&mut self, block: &Block, depth: usize) {
        if block.slashdash {
            self.out.push_str("/-");
        }
        let items = trimmed(&block.items);
        if items.is_empty() && block.comment.is_none() {
            self.out.push_str("{}");
            return;
        }
        if block.flat {
            let line_start = self.out.rfind('\n').map_or(0, |at| at + 1);
            let before = self.out.get(line_start..).map_or(0, |line| line.chars().count());
            let flat = self.block_on_one_line(items);
            if before + flat.chars().count() <= MAX_WIDTH {
                self.out.push_str(&flat);
                return;
            }
        }
        self.out.push('{');
        if let Some(comment) = block.comment {
            let comment = self.comment(comment);
            self.out.push(' ');
            self.out.push_str(&comment);
        }
        self.out.push('\n');
        self.items(items, depth + 1);
        self.indent(depth);
        self.out.push('}');
    }

    /// Prints a block on one line; it contains neither a line comment nor a line end.
    fn block_on_one_line(&self, items: &[Item]) -> String {
        let mut out = String::from("{ ");
        let mut after_node = false;
        for item in items {
            match item {
                Item::Blank => {}
                Item::Comment { token, .. } => {
                    out.push_str(if after_node { "; " } else { "" });
                    out.push_str(&self.comment(*token));
                    out.push(' ');
                    after_node = false;
                }
                Item::Node(node) => {
                    out.push_str(if after_node { "; " } else { "" });
                    out.push_str(&self.head(node));
                    for part in &node.parts {
                        out.push(' ');
                        match part {
                            Part::Entry(entry) => out.push_str(&self.entry(entry)),
                            Part::Comment(token) | Part::Break(token) => {
                                out.push_str(&self.comment(*token));
                            }
                            Part::Block(block) => {
                                out.push_str(if block.slashdash { "/-" } else { "" });
                                let items = trimmed(&block.items);
                                out.push_str(&if items.is_empty() {
                                    "{}".to_owned()
                                } else {
                                    self.block_on_one_line(items)
                                });
                            }
                        }
                    }
                    after_node = true;
                }
            }
        }
        out.push_str(if after_node { " }" } else { "}" });
        out
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::document::tests::{content, near_kdl};
    use super::*;
    use crate::document;
    use proptest::prelude::*;
    use trainc_diag::Problems;
    use trainc_diag::source::SourceId;

    fn meaning(text: &str) -> String {
        let mut problems = Problems::default();
        let document = document::parse(SourceId(0), text, &mut problems).unwrap();
        assert!(problems.is_empty(), "{text:?} {problems:?}");
        content(&document)
    }

    /// Returns every comment of a text, sorted: none may be lost.
    fn comments(text: &str) -> Vec<String> {
        let mut comments: Vec<String> = super::super::lexer::lex(text)
            .tokens
            .iter()
            .filter(|token| {
                matches!(token.kind, Kind::LineComment | Kind::BlockComment)
                    || (token.kind == Kind::Escline && text[token.start..token.end].contains('/'))
            })
            .map(|token| text[token.start..token.end].trim_start_matches('\\').trim().replace("\r\n", "\n"))
            .collect();
        comments.sort();
        comments
    }

    fn check_invariants(text: &str) -> Result<(), TestCaseError> {
        let Ok(once) = format(text) else {
            return Ok(());
        };
        prop_assert_eq!(meaning(text), meaning(&once), "{:?} to {:?}", text, once);
        prop_assert_eq!(comments(text), comments(&once), "{:?} to {:?}", text, once);
        let twice = format(&once);
        prop_assert_eq!(Ok(&once), twice.as_ref(), "{:?}", text);
        let layout = once.is_empty() || (once.ends_with('\n') && !once.ends_with("\n\n"));
        prop_assert!(layout, "{:?}", once);
        Ok(())
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(format(text).as_deref(), Ok(expected));
        check_invariants(text).unwrap();
    }

    const STYLE: &str = r##"// A comment of the file.
job "llama-7b-fsdp" {
    region "us-west-2" // where
    tags team="nlp" cost-center="4711"

    // The cluster.
    cluster "ml.p4d.24xlarge" nodes=8 { max-run "5d"; spot max-wait="7d" }

    train {
        optimizer "adamw" lr=3e-4 betas="0.9,0.95" clip=1.0 warmup="2000 steps" min-lr=3e-5
        tokens 20_000_000_000 /* all of them */
        /-seed 12345
        activation-checkpointing #true /-"selective"
    }

    program "pretrain.py" source="./scripts" {
        metric "train:loss" regex=#"loss=([0-9.]+)"#
        environment TEXT="""
            two
            lines
            """
    }
}
"##;

    #[test]
    fn formatted_text_is_unchanged() {
        check(STYLE, STYLE);
    }

    #[test]
    fn extra_space_is_removed() {
        let mut loose =
            STYLE.replace("    ", "\t").replace(" {\n", "   {\n\n\n").replace("nodes=8", "nodes = 8  ");
        loose = loose.replace("\n    }", "\n\n  }").replace("\"us-west-2\" //", "\"us-west-2\"; //");
        loose.insert_str(0, "\u{feff}\n\n");
        // The indentation inside of a string is kept.
        check(
            &loose,
            &STYLE.replace(
                "            two\n            lines\n            \"\"\"",
                "\t\t\ttwo\n\t\t\tlines\n\t\t\t\"\"\"",
            ),
        );
    }

    #[test]
    fn blocks_on_one_line() {
        check("a {b;c 1 ;}\n", "a { b; c 1 }\n");
        check("a { }\nb {\n}\n", "a {}\nb {}\n");
        check("a { /* c */ }\nb { // c\n}\n", "a { /* c */ }\nb { // c\n}\n");
        check("a { b\n}", "a {\n    b\n}\n");
        check("a; b;; // c\n".replace(";;", ";").as_str(), "a\nb // c\n");
        let long = format!("a {{ b \"{}\"; c {{ d }} }}\n", "x".repeat(90));
        check(&long, &format!("a {{\n    b \"{}\"\n    c {{ d }}\n}}\n", "x".repeat(90)));
    }

    #[test]
    fn comments_are_kept_everywhere() {
        check("a /*1*/ b=/*2*/1 /- /*3*/ c // 4\n", "a /*1*/ b=/*2*/1 /*3*/ /-c // 4\n");
        check("/* x */ a\n", "/* x */ a\n");
        check("/- // why\n\n a {\n b }\n", "// why\n/-a {\n    b\n}\n");
        check("a \\\n   1 \\ // c\n 2 \\\n\n", "a \\\n    1 \\ // c\n    2\n");
        check("a 1 \\ // c\n\nb\n", "a 1 // c\nb\n");
        check("(  t /* c */ ) a ( u8 ) 1\n", "(  t /* c */ ) a (u8)1\n");
        check("a\r\n\r\n\r\n\r\nb // c\r\n", "a\n\nb // c\n");
        check("a \"\"\"\r\n  x\r\r\n  y\r\n  \"\"\"\r\n", "a \"\"\"\n  x\n\n  y\n  \"\"\"\n");
        check("a \\\n\\\n\nb\n", "a\nb\n");
        check("a \\\n \\ // c\n\n", "a // c\n");
        check("a /- // c\n b d\n", "a \\ // c\n    /-b d\n");
    }

    #[test]
    fn invalid_text_is_rejected() {
        assert_eq!(format("a\nb 5d\n"), Err(FormatError::Syntax { count: 1, first: 4 }));
        assert_eq!(format(&"a {".repeat(40)), Err(FormatError::Limit));
        assert_eq!(format("").as_deref(), Ok(""));
    }

    /// Valid documents in any layout.
    pub(crate) fn unformatted_kdl() -> impl Strategy<Value = String> {
        let gap = prop::sample::select(vec![" ", "  ", "\t", " /* c */ ", " \\\n", " \\ // c\n  ", "\u{a0}"]);
        let value = prop::sample::select(vec![
            "1",
            "2e-4",
            "1_000",
            "0xFF",
            "\"s\"",
            "\"a b\\n\"",
            "bare",
            "#true",
            "#null",
            "#\"r\"#",
            "(u8)2",
            "( t ) \"x\"",
            "\"\"\"\n  x\n    y\n  \"\"\"",
            "k=1",
            "k = \"v\"",
            "key=(t)#false",
            "\"q\"=1",
            "k /* c */ = 1",
            "/-1",
            "/- k=2",
            "/-\n 3",
        ]);
        let end = prop::sample::select(vec![
            "\n",
            "\n\n\n",
            ";",
            " ; ",
            " // c\n",
            "\r\n",
            " /* c */\n",
            "; // c\n",
            " \\\n\n",
        ]);
        let lead = prop::sample::select(vec![
            "",
            "",
            "",
            "    ",
            "\n\n",
            "// c\n",
            "/* c */ ",
            "/-",
            "/- ",
            "/-\n",
            "(t)",
            "/* a\n b */\n",
        ]);
        let leaf = (lead.clone(), prop::collection::vec((gap.clone(), value.clone()), 0..4), end.clone())
            .prop_map(|(lead, entries, end)| {
                let entries: String = entries.into_iter().flat_map(|(gap, value)| [gap, value]).collect();
                format!("{lead}node{entries}{end}")
            });
        let node = leaf.prop_recursive(4, 24, 4, move |inner| {
            let open = prop::sample::select(vec![
                "{",
                " { ",
                " {\n",
                " {\n\n\n",
                " { // c\n",
                " /- {",
                " /* c */ {",
            ]);
            let entries = prop::collection::vec((gap.clone(), value.clone()), 0..3);
            (lead.clone(), entries, open, prop::collection::vec(inner, 0..4), end.clone()).prop_map(
                |(lead, entries, open, children, end)| {
                    let entries: String = entries.into_iter().flat_map(|(gap, value)| [gap, value]).collect();
                    format!("{lead}node{entries}{open}{}}}{end}", children.concat())
                },
            )
        });
        prop::collection::vec(node, 0..4).prop_map(|nodes| nodes.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn valid_documents_are_formatted(text in unformatted_kdl()) {
            prop_assert!(format(&text).is_ok(), "{:?} {:?}", text, format(&text));
            check_invariants(&text)?;
        }

        #[test]
        fn near_kdl_keeps_its_meaning(text in near_kdl()) {
            check_invariants(&text)?;
        }

        #[test]
        fn any_text_can_be_formatted(text in any::<String>()) {
            check_invariants(&text)?;
        }
    }
}
