//! Parses text into a KDL document and recovers from syntax errors.
//!
//! In: the text of one source. Out: a [`kdl::KdlDocument`] with all that could be read, its spans byte
//! offsets into that text, and each syntax error once. A value with a syntax error has its most likely
//! meaning in the document, marked so that later stages do not report it again ([`is_recovered`]).

use super::characters::is_space;
use super::codes::{T0101, T0104, T0105, T0106, T0107, T0108, T0110, T0111, T0112};
use super::lexer::{self, Token};
use super::tree::{self, Entry, Item, Limit, MAX_BYTES, MAX_DEPTH, Node, Part, Type};
use super::{fault_messages, list_limit, literal};
use kdl::{KdlDocument, KdlEntry, KdlEntryFormat, KdlIdentifier, KdlNode, KdlValue};
use trainc_diag::source::{SourceId, Span};
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};

/// The type tag of an entry with a syntax error; no text can produce it.
const RECOVERED: &str = "\0recovered";

/// After this many errors the rest are only counted.
const MAX_PROBLEMS: usize = 100;

/// Parses a text. Returns `None` only if nothing could be read, or if a limit is exceeded.
pub fn parse(source: SourceId, text: &str, problems: &mut Problems) -> Option<KdlDocument> {
    let tree = match tree::parse(text) {
        Ok(tree) => tree,
        Err(limit) => {
            problems.push(limit_diagnostic(source, limit));
            return None;
        }
    };
    for fault in tree.faults.iter().take(MAX_PROBLEMS) {
        problems.push(fault_messages::describe(source, text, fault));
    }
    if let Some(fault) = tree.faults.get(MAX_PROBLEMS) {
        let rest = u64::try_from(tree.faults.len() - MAX_PROBLEMS).unwrap_or(u64::MAX);
        let span = Span::new(source, fault.start, fault.end);
        problems.push(
            Diagnostic::new(&T0101, span, text::count(rest, "more syntax error"))
                .primary_label("the first one not shown")
                .fact("mistakes", tree.faults.len()),
        );
        return None;
    }
    if let Some(problem) = list_limit::check(source, &tree.items) {
        problems.push(problem);
        return None;
    }
    let document = Builder { text }.document(&tree.items, 0, text.len());
    (tree.faults.is_empty() || !document.nodes().is_empty()).then_some(document)
}

/// Returns the diagnostic of a file that is not UTF-8; `offset` is the first invalid byte. The caller
/// replaces each invalid byte and continues.
pub fn not_utf8(source: SourceId, offset: usize) -> Diagnostic {
    Diagnostic::new(&T0110, Span::new(source, offset, offset), format!("byte {offset} is not valid UTF-8"))
        .primary_label("first invalid byte")
        .note("a manifest is UTF-8 text; save the file in that encoding")
        .fact("offset", offset)
}

/// Returns the diagnostic of a binary file, which shows none of its content.
pub fn not_text(source: SourceId, offset: usize) -> Diagnostic {
    Diagnostic::new(&T0110, Span::whole(source), "the file is binary, not UTF-8 text".to_owned())
        .note("a manifest is UTF-8 text; is this the right file?")
        .fact("offset", offset)
}

/// The part of the file that a syntax error may affect, beyond its own span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorExtent {
    /// Nothing else.
    None,
    /// The rest of its line, or more if it is a multi-line string.
    Line,
    /// The nesting of nodes: they may be in the wrong block.
    Blocks,
    /// The whole file.
    File,
}

/// Returns the part of the file that a problem of this code may affect.
pub fn error_extent(code: &Code) -> ErrorExtent {
    if [&T0104, &T0105].contains(&code) {
        ErrorExtent::Blocks
    } else if code == &T0106 {
        ErrorExtent::Line
    } else if [&T0107, &T0108, &T0111, &T0112].contains(&code) {
        ErrorExtent::File
    } else {
        ErrorExtent::None
    }
}

/// Returns whether an entry has a syntax error, which was reported. Its value is the most likely meaning: use
/// it if it fits, and report nothing if it does not.
pub fn is_recovered(entry: &KdlEntry) -> bool {
    entry.ty().is_some_and(|ty| ty.value() == RECOVERED)
}

/// Returns whether an entry is a one-line string without a closing quote that may include the entries after
/// it, or a list in brackets: its value is unknown and, after a string, so are the remaining entries of the
/// node.
pub fn is_ambiguous(entry: &KdlEntry) -> bool {
    let written = value_text(entry);
    is_recovered(entry) && written.starts_with(['"', '#']) && written.contains(is_space)
        || is_recovered(entry) && written.starts_with('[')
}

/// Returns the type tag that the user wrote: `(u8)2`.
pub fn type_tag(entry: &KdlEntry) -> Option<&KdlIdentifier> {
    entry.ty().filter(|ty| ty.value() != RECOVERED)
}

/// Returns the span of an entry, including its key.
pub fn entry_span(source: SourceId, entry: &KdlEntry) -> Span {
    let span = entry.span();
    Span::new(source, span.offset(), span.offset() + span.len())
}

/// Returns the span of an entry's value, without key and type tag. Empty after the `=` if the value is
/// missing.
pub fn value_span(source: SourceId, entry: &KdlEntry) -> Span {
    let end = entry.span().offset() + entry.span().len();
    let length = entry.format().map_or(0, |format| format.value_repr.len());
    Span::new(source, end.saturating_sub(length), end)
}

/// Returns the span of a node's name, which problems of the whole node point to.
pub fn name_span(source: SourceId, node: &KdlNode) -> Span {
    let span = node.name().span();
    Span::new(source, span.offset(), span.offset() + span.len())
}

/// Returns the text of an entry's value: `2e-4`, `20_000_000_000`.
pub fn value_text(entry: &KdlEntry) -> &str {
    entry.format().map_or("", |format| format.value_repr.as_str())
}

struct Builder<'t> {
    text: &'t str,
}

impl Builder<'_> {
    fn slice(&self, token: Token) -> &str {
        self.text.get(token.start..token.end).unwrap_or("")
    }

    fn identifier(&self, token: Token) -> KdlIdentifier {
        let raw = self.slice(token);
        let mut identifier = KdlIdentifier::from(literal::string(raw).unwrap_or_else(|_| raw.to_owned()));
        identifier.set_repr(raw);
        identifier.set_span((token.start, token.end - token.start));
        identifier
    }

    fn document(&self, items: &[Item], start: usize, end: usize) -> KdlDocument {
        let mut document = KdlDocument::new();
        document.set_span((start, end - start));
        let nodes = items.iter().filter_map(|item| match item {
            Item::Node(node) if !node.slashdash && !node.broken => Some(self.node(node)),
            Item::Node(_) | Item::Comment { .. } | Item::Blank => None,
        });
        document.nodes_mut().extend(nodes);
        document
    }

    fn node(&self, node: &Node) -> KdlNode {
        let mut out = KdlNode::new(self.identifier(node.name));
        out.set_span((node.start, node.end - node.start));
        if let Some(name) = node.ty.and_then(|ty| ty.name) {
            out.set_ty(self.identifier(name));
        }
        for part in &node.parts {
            match part {
                Part::Entry(entry) if !entry.slashdash => out.entries_mut().push(self.entry(entry)),
                Part::Block(block) if !block.slashdash => {
                    let children = self.document(&block.items, block.start, block.end);
                    match out.children_mut() {
                        Some(first) => first.nodes_mut().extend(children.nodes().iter().cloned()),
                        missing => *missing = Some(children),
                    }
                }
                Part::Entry(_) | Part::Block(_) | Part::Comment(_) | Part::Break(_) => {}
            }
        }
        out
    }

    fn entry(&self, entry: &Entry) -> KdlEntry {
        let raw = entry.value.map_or("", |token| self.slice(token));
        let value = entry.value.map_or(KdlValue::Null, |token| self.value(token));
        let mut out = match entry.key {
            Some(key) => KdlEntry::new_prop(self.identifier(key), value),
            None => KdlEntry::new(value),
        };
        if entry.recovered {
            out.set_ty(RECOVERED);
        } else if let Some(Type { name: Some(name), .. }) = entry.ty {
            out.set_ty(self.identifier(name));
        }
        out.set_format(KdlEntryFormat {
            value_repr: raw.to_owned(),
            leading: " ".to_owned(),
            ..KdlEntryFormat::default()
        });
        out.set_span((entry.start, entry.end - entry.start));
        out
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "all other values are strings")]
    fn value(&self, token: Token) -> KdlValue {
        let raw = self.slice(token);
        match token.kind {
            lexer::Kind::Keyword | lexer::Kind::BareKeyword => literal::keyword(raw),
            lexer::Kind::Number => match literal::number(raw) {
                literal::Number::Value(value) => value,
                literal::Number::TooLarge | literal::Number::Malformed => KdlValue::Integer(i128::MAX),
            },
            lexer::Kind::Broken | lexer::Kind::Unclosed => KdlValue::String(unquoted(raw)),
            _ => KdlValue::String(literal::string(raw).unwrap_or_else(|_| raw.to_owned())),
        }
    }
}

/// Returns the text of a malformed value without its quotes.
fn unquoted(raw: &str) -> String {
    let old_raw = raw.strip_prefix('r').filter(|rest| rest.starts_with(['"', '#']));
    if let Some(rest) = old_raw {
        return rest.trim_matches('#').trim_matches('"').to_owned();
    }
    raw.trim_start_matches('#').trim_matches(['"', '\'', '“', '”', '„', '‟']).to_owned()
}

fn limit_diagnostic(source: SourceId, limit: Limit) -> Diagnostic {
    match limit {
        Limit::TooLarge => Diagnostic::new(
            &T0107,
            Span::whole(source),
            // The size is unknown: the caller may have stopped reading at its own limit.
            format!(
                "the file is larger than {}, the maximum for a manifest",
                text::bytes(u64::try_from(MAX_BYTES).unwrap_or(u64::MAX)),
            ),
        )
        .fact("limit", MAX_BYTES),
        Limit::TooDeep(at) => Diagnostic::new(
            &T0108,
            Span::new(source, at, at + 1),
            format!("blocks are nested more than {MAX_DEPTH} levels deep"),
        )
        .primary_label(format!("this block is at level {}", MAX_DEPTH + 1))
        .fact("limit", MAX_DEPTH),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test measures time")]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write as _;

    /// Returns the content of a document without trivia, to compare two parsers, or a text before and after.
    pub(crate) fn content(document: &KdlDocument) -> String {
        fn walk(document: &KdlDocument, depth: usize, out: &mut String) {
            for node in document.nodes() {
                write!(
                    out,
                    "{}{:?}{:?}",
                    " ".repeat(depth),
                    node.ty().map(KdlIdentifier::value),
                    node.name().value()
                )
                .unwrap();
                for entry in node.entries() {
                    let (key, ty) =
                        (entry.name().map(KdlIdentifier::value), entry.ty().map(KdlIdentifier::value));
                    write!(out, " {key:?}{ty:?}{:?}", entry.value()).unwrap();
                }
                out.push('\n');
                if let Some(children) = node.children() {
                    walk(children, depth + 1, out);
                    writeln!(out, "{}end", " ".repeat(depth)).unwrap();
                }
            }
        }
        let mut out = String::new();
        walk(document, 0, &mut out);
        out
    }

    /// Returns the document, and its problems as lines: `CODE blamed text | message | help`.
    fn read(text: &str) -> (Option<KdlDocument>, Vec<String>) {
        let mut problems = Problems::default();
        let document = parse(SourceId(0), text, &mut problems);
        let lines = problems
            .iter()
            .map(|d| {
                let blamed = text.get(d.span.start as usize..d.span.end as usize).unwrap();
                format!("{} {blamed:?} | {} | {}", d.code.id, d.message, d.help.as_deref().unwrap_or("-"))
            })
            .collect();
        (document, lines)
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) -> KdlDocument {
        let (document, problems) = read(text);
        let codes: Vec<String> =
            problems.iter().map(|line| line.split(" | ").next().unwrap_or("").to_owned()).collect();
        assert_eq!(codes, expected, "{text}\n{problems:#?}");
        document.expect("a document")
    }

    #[track_caller]
    fn reports(text: &str, expected: &str) {
        let (_, problems) = read(text);
        assert_eq!(problems.join("\n"), expected, "{text}");
    }

    #[test]
    fn valid_text_parses_as_in_kdl_with_the_same_spans() {
        let text = "// é\njob \"ä\" {\n  (t)régime (u8)1 k=\"v\" /-2 x=#\"r\"# // c\n  b { c; d #true; }\n  \
            /-e { f }\n}\n";
        let ours = check(text, &[]);
        let theirs = KdlDocument::parse(text).unwrap();
        assert_eq!(content(&ours), content(&theirs));
        let node = &ours.nodes()[0].children().unwrap().nodes()[0];
        let their_node = &theirs.nodes()[0].children().unwrap().nodes()[0];
        assert_eq!(node.name().span(), their_node.name().span());
        for (entry, their) in node.entries().iter().zip(their_node.entries()) {
            assert_eq!(entry.span(), their.span());
            assert_eq!(value_text(entry), their.format().unwrap().value_repr);
        }
        let span = value_span(SourceId(0), &node.entries()[1]);
        assert_eq!(&text[span.start as usize..span.end as usize], "\"v\"");
    }

    #[test]
    fn each_bare_unit_is_a_problem_and_the_rest_is_parsed() {
        let text = "job \"x\" {\n    cluster \"c\" nodes=2 {\n        max-run 5d\n        volume 500GiB\n    }\n    \
                    checkpoint every=200 steps keep=3\n    region \"us-west-2\"\n}\n";
        let document = check(text, &["T0102 \"5d\"", "T0102 \"500GiB\"", "T0102 \"200 steps\""]);
        let job = document.nodes()[0].children().unwrap();
        assert_eq!(job.nodes().len(), 3);
        let cluster = job.nodes()[0].children().unwrap();
        assert_eq!(cluster.get_arg("max-run"), Some(&KdlValue::String("5d".into())));
        assert_eq!(job.get("checkpoint").unwrap().get("every"), Some(&KdlValue::String("200 steps".into())));
        assert_eq!(job.get("checkpoint").unwrap().get("keep"), Some(&KdlValue::Integer(3)));
        assert!(is_recovered(&cluster.nodes()[0].entries()[0]));
        assert!(!is_recovered(&job.nodes()[0].entries()[0]));
        reports("max-run 5d", "T0102 \"5d\" | `5d` needs quotes | write `\"5d\"`");
    }

    #[test]
    fn malformed_numbers() {
        reports(
            "x 1e",
            "T0102 \"1e\" | `1e` needs quotes | write `1` for the number, or `\"1e\"` for the string",
        );
        reports(
            "x y=1.",
            "T0102 \"1.\" | `1.` needs quotes | write `1` for the number, or `\"1.\"` for the string",
        );
        reports("x .5", "T0102 \".5\" | `.5` needs quotes | write `0.5`");
        check("x 0xfg", &["T0102 \"0xfg\""]);
        check("x -5d +3h", &["T0102 \"-5d\"", "T0102 \"+3h\""]);
        check("x 1_000 2e-4 0xff 0b1_0 0o17 -1.5E+3 +1", &[]);
    }

    #[test]
    fn paths_and_uris_need_quotes() {
        let text =
            "output s3=s3://bucket/out keep=1\nprogram train.py source=./scripts\ncheckpoint local=/opt/ml\n";
        let document =
            check(text, &["T0102 \"s3://bucket/out\"", "T0102 \"./scripts\"", "T0102 \"/opt/ml\""]);
        assert_eq!(
            document.get("output").unwrap().get("s3"),
            Some(&KdlValue::String("s3://bucket/out".into()))
        );
        assert_eq!(document.get("output").unwrap().get("keep"), Some(&KdlValue::Integer(1)));
        assert_eq!(document.get_arg("program"), Some(&KdlValue::String("train.py".into())));
        check("region us-west-2 // comment", &[]);
        check("region us-west-2/* comment */", &[]);
    }

    #[test]
    fn keywords_need_their_hash() {
        let document =
            check("a true\nb k=false null\n", &["T0103 \"true\"", "T0103 \"false\"", "T0103 \"null\""]);
        assert_eq!(document.get_arg("a"), Some(&KdlValue::Bool(true)));
        assert_eq!(document.get("b").unwrap().get("k"), Some(&KdlValue::Bool(false)));
        reports("a #True", "T0103 \"#True\" | unknown keyword `#True` | write `#true`");
        reports("a #yes", "T0103 \"#yes\" | unknown keyword `#yes` | write `#true`");
        reports(
            "a #ff0000",
            "T0103 \"#ff0000\" | unknown keyword `#ff0000` | write `\"#ff0000\"` for the string",
        );
        check("true 1\nb\n", &["T0103 \"true\""]);
    }

    #[test]
    fn unclosed_strings_end_with_their_line() {
        let document = check("a \"x\nb \"y\"\n", &["T0106 \"\\\"x\""]);
        assert_eq!(document.nodes().len(), 2);
        let text = "cluster \"ml.p4d nodes=2 {\n    max-run \"5d\"\n}\nb\n";
        let document = check(text, &["T0106 \"\\\"ml.p4d\""]);
        assert_eq!(document.nodes()[0].get("nodes"), Some(&KdlValue::Integer(2)));
        assert_eq!(document.nodes()[0].children().unwrap().nodes().len(), 1);
        // The first string is missing its closing quote, not the last.
        check(
            "channel \"train s3=\"s3://b/x\" mode=\"rw\"\nb 5d\n",
            &["T0106 \"\\\"train\"", "T0102 \"5d\""],
        );
        let document = check("a { b \"5d }\nc\n", &["T0106 \"\\\"5d\""]);
        assert_eq!(document.nodes().len(), 2);
        check("a #\"x\nb\n", &["T0106 \"#\\\"x\""]);
        check("a \"\"\"\n  x\nb {\n", &["T0106 \"\\\"\\\"\\\"\""]);
        check("a {\n  b /* c\n}\n", &["T0112 \"/*\""]);
    }

    #[test]
    fn braces_are_blamed_by_indentation() {
        let text = "job \"x\" {\n    cluster \"c\" {\n        max-run \"5d\"\n\n    train {\n        steps \
            1\n    }\n}\nb\n";
        let document = check(text, &["T0104 \"{\""]);
        assert_eq!(document.nodes().len(), 2);
        assert_eq!(document.nodes()[0].children().unwrap().nodes().len(), 2);
        let (_, problems) = read(text);
        assert!(problems[0].ends_with("add `}` on the line before `train`"), "{problems:?}");
        let mut problems = Problems::default();
        parse(SourceId(0), text, &mut problems);
        assert_eq!(problems.iter().next().unwrap().span.start as usize, text.find("c\" {").unwrap() + 3);

        // The `{` is missing: the lines that look like a block are one.
        let text = "job \"x\" {\n    cluster \"c\"\n        max-run \"5d\"\n    }\n    train {\n        \
            steps 1\n    }\n}\n";
        let document = check(text, &["T0105 \"}\""]);
        assert_eq!(document.nodes()[0].children().unwrap().nodes().len(), 2);
        assert!(read(text).1[0].ends_with("write `cluster \"c\" {`"));

        let document = check("a {\n    b\n}\n}\nc\n", &["T0105 \"}\""]);
        assert_eq!(document.nodes().len(), 2);
        check("a {\nb {\nc\n", &["T0104 \"{\"", "T0104 \"{\""]);
        check("a { b { c }\n", &["T0104 \"{\""]);
        let document = check("job \"x\"\n{\n  a 1\n}\n", &["T0101 \"{\""]);
        assert_eq!(document.nodes()[0].children().unwrap().nodes().len(), 1);
        check("{ a }\nb\n", &["T0101 \"{\""]);
    }

    #[test]
    fn habits_of_other_languages() {
        let document = check("region = \"us\"\nx a = 1\n", &["T0101 \"=\""]);
        assert_eq!(document.get_arg("region"), Some(&KdlValue::String("us".into())));
        assert_eq!(document.get("x").unwrap().get("a"), Some(&KdlValue::Integer(1)));
        let document = check("subnets \"a\", \"b\",\"c\"\n", &["T0101 \",\"", "T0101 \",\""]);
        assert_eq!(document.nodes()[0].entries().len(), 3);
        check("x 1, 2\n", &["T0101 \",\""]);
        let document = check("subnets [\"a\" \"b\"]\n", &["T0101 \"[\"", "T0101 \"]\""]);
        assert_eq!(document.nodes()[0].entries().len(), 2);
        let document = check("region 'us west'\n", &["T0101 \"'us west'\""]);
        assert_eq!(document.get_arg("region"), Some(&KdlValue::String("us west".into())));
        check("# a comment: it's {\na 1 # more\nb\n", &["T0101 \"#\"", "T0101 \"#\""]);
        reports(
            "x r\"a\\b\"",
            "T0101 \"r\\\"a\\\\b\\\"\" | unexpected `r` before a raw string | write `#\"a\\b\"#`",
        );
        reports(
            "x r#\"a\"b\"#",
            "T0101 \"r#\\\"a\\\"b\\\"#\" | unexpected `r` before a raw string | write `#\"a\"b\"#`",
        );
    }

    #[test]
    fn each_page_shows_its_code() {
        for code in crate::codes::ALL.iter().filter(|code| code.id < "T0120") {
            assert!(code.page.starts_with(&format!("# {} {}\n", code.id, code.name)), "{}", code.id);
            let block = |tag: &str| {
                let (_, rest) = code.page.split_once(&format!("```{tag}\n"))?;
                rest.split_once("```").map(|(block, _)| block)
            };
            if let Some(wrong) = block("kdl must-fail") {
                let (_, problems) = read(wrong);
                assert_eq!(problems.len(), 1, "{}", code.id);
                assert!(problems[0].starts_with(code.id), "{problems:?}");
            }
            let right = block("kdl").unwrap();
            assert_eq!(read(right).1, Vec::<String>::new());
            assert_eq!(crate::format::format(right).as_deref(), Ok(right));
        }
        assert_eq!(not_utf8(SourceId(0), 7).code, &T0110);
    }

    #[test]
    fn edge_cases() {
        reports(
            "region = \"us\" // c",
            "T0101 \"=\" | unexpected `=` before the value of node `region` | write `region \"us\"`",
        );
        check("a \"x\"b\n", &["T0101 \"b\""]);
        check("a k=\n b\n", &["T0101 \"k=\""]);
        check("a =1 =2\n", &["T0101 \"=\"", "T0101 \"1\""]);
        check("a b=1 =2\n", &["T0101 \"=\""]);
        check("a \"\\q\" \"\\u{110000}\"\n", &["T0101 \"\\\\q\"", "T0101 \"\\\\u{110000}\""]);
        check("a (u8\nb\n", &["T0101 \"(u8\""]);
        check("a ()1\nb (x)\n", &["T0101 \"()\"", "T0101 \"(x)\""]);
        check("a {b} c\n", &["T0101 \"c\""]);
        check("a; ; b\n", &["T0101 \";\""]);
        check("a 1 /-\nb\n", &[]);
        check("a \\ b\n", &["T0101 \"\\\\\""]);
        check("a \\ /* /*/ */ */ // c\n 1\n", &[]);
        check("a \\/*/\n1\n", &["T0101 \"\\\\\"", "T0112 \"/*\""]);
        check("a \u{0}\u{1} 1\n", &["T0101 \"\\0\\u{1}\""]);
        check("\u{feff}a 1\n", &[]);
        check("a \u{feff}1\n", &["T0101 \"\\u{feff}\""]);
        check("a 1\r\nb 2\rc 3\n", &[]);
        check("a \"\"\"x\"\"\"\nb\n", &["T0101 \"\\\"\\\"\\\"\""]);
        check("a \"\"\"\n  x\n y\n  \"\"\"\nb\n", &["T0101 \" \""]);
        check("a \"\"\"\né\n  \"\"\"\nb\n", &["T0101 \"é\""]);
        check("a \"\"\"\n  \u{feff}\n  \"\"\"\nb\n", &["T0101 \"\\u{feff}\""]);
        check("a #\"\"\"#\nb\n", &["T0101 \"#\\\"\\\"\\\"#\""]);
        check("a 1\n12 { b }\n", &["T0101 \"12\""]);
    }

    #[test]
    fn numbers_have_limits() {
        check("a 170141183460469231731687303715884105727\n", &[]);
        check(
            "a 170141183460469231731687303715884105728 1e999\n",
            &["T0109 \"170141183460469231731687303715884105728\"", "T0109 \"1e999\""],
        );
    }

    #[test]
    fn limits_stop_at_once() {
        let deep = "a {".repeat(MAX_DEPTH) + &"}".repeat(MAX_DEPTH);
        check(&deep, &[]);
        let (document, problems) = read(&("a {".repeat(MAX_DEPTH + 1) + &"}".repeat(MAX_DEPTH + 1)));
        assert!(document.is_none());
        assert_eq!(problems, ["T0108 \"{\" | blocks are nested more than 32 levels deep | -"]);
        let (document, problems) = read(&"{".repeat(10 * MAX_BYTES));
        assert!(document.is_none());
        assert_eq!(problems, ["T0107 \"\" | the file is larger than 1 MiB, the maximum for a manifest | -"]);
        assert_eq!(read(&"{".repeat(MAX_BYTES)).1.len(), 1);
    }

    #[test]
    fn a_text_without_nodes_gives_no_document() {
        assert!(read("").0.is_some_and(|document| document.nodes().is_empty()));
        assert!(read("// only a comment").0.is_some());
        assert!(read("5d").0.is_none());
        let (document, problems) = read(&"a 5d\n".repeat(200));
        assert!(document.is_none());
        assert_eq!(problems.len(), MAX_PROBLEMS + 1);
    }

    /// Each of these once made a parser quadratic or worse.
    #[test]
    fn repeated_pieces_are_parsed_in_bounded_time() {
        let pieces = [
            "\"",
            "\"\"\"\n",
            "#\"",
            "#",
            "/*",
            "/-",
            "(",
            ")",
            "}",
            "=",
            "'",
            "' ",
            "\\",
            "a\\\n",
            "1 ",
            "1 s ",
            "5d ",
            "a=",
            "\"a\"",
            "\"a\"b",
            "{}",
            "a{\n",
            "a {\n}\n}\n",
            ";",
            "\u{0}",
            "r\"",
            "r#\"",
            ",",
            "[",
            "é",
            "\"\\u{",
            "/",
            "a/",
            "{}\n",
            "{}\n//\n",
            "a{}\n",
            "a\n}\n",
            "(a",
            "(\n",
            "/-\n",
            "\"a\" ",
        ];
        for piece in pieces {
            let text = piece.repeat(100_000 / piece.len());
            let start = std::time::Instant::now();
            read(&text);
            // Milliseconds; a quadratic one takes minutes.
            assert!(start.elapsed().as_secs() < 60, "{piece:?} took {:?}", start.elapsed());
        }
    }

    /// Texts similar to KDL, valid and invalid.
    pub(crate) fn near_kdl() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "a",
            "node",
            "b1",
            "-",
            ".",
            " ",
            "  ",
            "\n",
            "\n\n",
            "\t",
            "{",
            "}",
            " {\n",
            "\n}\n",
            "{ ",
            " }",
            "(",
            ")",
            "(u8)",
            "=",
            ";",
            "\"",
            "\"s\"",
            "\"a\\nb\"",
            "\"\"\"\n  x\n  \"\"\"",
            "\"\"\"",
            "#\"r\"#",
            "#\"\"\"\nr\n\"\"\"#",
            "#",
            "#true",
            "#null",
            "#-inf",
            "true",
            "null",
            "1",
            "-1.5",
            "2e-4",
            "1_000",
            "0xff",
            "5d",
            "1.",
            "// c\n",
            "//",
            "/* c */",
            "/*",
            "*/",
            "/-",
            " \\\n",
            "\\",
            " k=",
            " k=1",
            "é",
            "\u{3000}",
            "\r\n",
            "\u{0}",
            "'",
            ",",
            "[",
            "]",
            "/",
            "s3://x",
            "r\"x\"",
        ]);
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_can_be_parsed(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = read(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn any_text_can_be_parsed(text in any::<String>()) {
            let _ = read(&text);
        }

        /// Text that trainc accepts has the same content in kdl. trainc rejects some valid texts as probable
        /// typos.
        #[test]
        fn accepted_text_parses_as_in_kdl(text in near_kdl()) {
            let (ours, problems) = read(&text);
            // kdl 6.7 rejects a node after `/-node;`, contrary to the grammar.
            let known = text.contains("/-") && text.contains(';');
            if let (Some(ours), true, false) = (&ours, problems.is_empty(), known) {
                let theirs = KdlDocument::parse(&text);
                prop_assert!(theirs.is_ok(), "kdl rejects {text:?}");
                prop_assert_eq!(content(ours), content(&theirs.unwrap()), "{:?}", text);
            }
        }
    }
}
