//! Text to a KDL document, whatever is wrong with the text.
//!
//! In: the text of one source. Out: a [`kdl::KdlDocument`] with all that could be read, its spans byte offsets
//! into that text, and every mistake of the writing once. A value that was written wrong stands in the document
//! as what was probably meant, marked so that later stages can stay silent about it ([`is_mended`]).

use super::lex::{Fault, FaultKind, Token};
use super::tree::{self, Entry, Item, Limit, MAX_BYTES, MAX_DEPTH, Node, Part, Type};
use super::{lex, literal};
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::source::{SourceId, Span};
use crate::text;
use kdl::{KdlDocument, KdlEntry, KdlEntryFormat, KdlIdentifier, KdlNode, KdlValue};
use std::fmt::Write as _;

declare_code!(T0101, "syntax-error", Error, "the text is not KDL");
declare_code!(T0102, "bare-unit", Error, "a value needs quotes");
declare_code!(T0103, "keyword-needs-hash", Error, "a keyword lacks its `#`");
declare_code!(T0104, "unclosed-brace", Error, "a block is never closed");
declare_code!(T0105, "surplus-brace", Error, "a closing brace closes nothing");
declare_code!(T0106, "unclosed-string", Error, "a string is never closed");
declare_code!(T0107, "too-large", Error, "the file is too large for a manifest");
declare_code!(T0108, "too-deep", Error, "blocks lie too deep in each other");
declare_code!(T0109, "number-too-large", Error, "a number is too large");
declare_code!(T0110, "not-utf8", Error, "the file is not UTF-8");

/// The codes of this file.
pub static CODES: [&Code; 10] =
    [&T0101, &T0102, &T0103, &T0104, &T0105, &T0106, &T0107, &T0108, &T0109, &T0110];

/// The type tag of an entry that was written wrong; no text can produce it.
const MENDED: &str = "\0mended";

/// After so many mistakes the rest is only counted.
const MAX_PROBLEMS: usize = 100;

/// Reads a text. Gives nothing only where nothing could be read, or where a limit is passed.
pub fn parse(source: SourceId, text: &str, problems: &mut Problems) -> Option<KdlDocument> {
    let tree = match tree::read(text) {
        Ok(tree) => tree,
        Err(limit) => {
            problems.push(over_limit(source, text, limit));
            return None;
        }
    };
    for fault in tree.faults.iter().take(MAX_PROBLEMS) {
        problems.push(describe(source, text, fault));
    }
    if let Some(fault) = tree.faults.get(MAX_PROBLEMS) {
        let rest = u64::try_from(tree.faults.len() - MAX_PROBLEMS).unwrap_or(u64::MAX);
        let span = Span::new(source, fault.start, fault.end);
        problems.push(
            Diagnostic::new(
                &T0101,
                span,
                format!("{} more follow from here on", text::count(rest, "mistake")),
            )
            .here("the first that is not shown")
            .fact("mistakes", tree.faults.len()),
        );
        return None;
    }
    let document = Builder { text }.document(&tree.items, 0, text.len());
    (tree.faults.is_empty() || !document.nodes().is_empty()).then_some(document)
}

/// The problem of a file that is not UTF-8. The caller gives the place of the first bad byte, and reads on
/// with each bad byte replaced.
pub fn not_utf8(source: SourceId, offset: usize) -> Diagnostic {
    Diagnostic::new(&T0110, Span::new(source, offset, offset), format!("byte {offset} is not UTF-8"))
        .here("the first byte that is not UTF-8")
        .note("a manifest is UTF-8 text; save the file in that encoding")
        .fact("offset", offset)
}

/// Whether a problem may have moved nodes into another block, or hidden them.
pub fn breaks_structure(code: &Code) -> bool {
    [&T0104, &T0105, &T0106, &T0107, &T0108].contains(&code)
}

/// Whether an entry was written wrong and reported. Its value is what was probably meant: use it where it
/// fits, and say nothing where it does not.
pub fn is_mended(entry: &KdlEntry) -> bool {
    entry.ty().is_some_and(|ty| ty.value() == MENDED)
}

/// The type tag that the user wrote: `(u8)2`.
pub fn type_tag(entry: &KdlEntry) -> Option<&KdlIdentifier> {
    entry.ty().filter(|ty| ty.value() != MENDED)
}

/// The place of an entry, with its key.
pub fn entry_span(source: SourceId, entry: &KdlEntry) -> Span {
    let span = entry.span();
    Span::new(source, span.offset(), span.offset() + span.len())
}

/// The place of an entry's value: without key and type tag. Empty behind the `=` if the value was left out.
pub fn value_span(source: SourceId, entry: &KdlEntry) -> Span {
    let end = entry.span().offset() + entry.span().len();
    let length = entry.format().map_or(0, |format| format.value_repr.len());
    Span::new(source, end.saturating_sub(length), end)
}

/// The place of a node's name: what to blame for the node as a whole.
pub fn name_span(source: SourceId, node: &KdlNode) -> Span {
    let span = node.name().span();
    Span::new(source, span.offset(), span.offset() + span.len())
}

/// An entry's value as it was written: `2e-4`, `20_000_000_000`.
pub fn written(entry: &KdlEntry) -> &str {
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
                        none => *none = Some(children),
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
        if entry.mended {
            out.set_ty(MENDED);
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
            lex::Kind::Keyword | lex::Kind::BareKeyword => literal::keyword(raw),
            lex::Kind::Number => match literal::number(raw) {
                literal::Number::Value(value) => value,
                literal::Number::TooLarge | literal::Number::Malformed => KdlValue::Integer(i128::MAX),
            },
            lex::Kind::Broken | lex::Kind::Unclosed => KdlValue::String(meant(raw)),
            _ => KdlValue::String(literal::string(raw).unwrap_or_else(|_| raw.to_owned())),
        }
    }
}

/// What a broken value was probably to say.
fn meant(raw: &str) -> String {
    let old_raw = raw.strip_prefix('r').filter(|rest| rest.starts_with(['"', '#']));
    if let Some(rest) = old_raw {
        return rest.trim_matches('#').trim_matches('"').to_owned();
    }
    raw.trim_start_matches('#').trim_matches(['"', '\'']).to_owned()
}

/// A KDL string that says the text, with quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if lex::is_newline(c) || lex::is_disallowed(c) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

fn over_limit(source: SourceId, text: &str, limit: Limit) -> Diagnostic {
    match limit {
        Limit::TooLarge => Diagnostic::new(
            &T0107,
            Span::whole(source),
            format!(
                "the file has {}, a manifest has at most {}",
                text::bytes(u64::try_from(text.len()).unwrap_or(u64::MAX)),
                text::bytes(u64::try_from(MAX_BYTES).unwrap_or(u64::MAX)),
            ),
        )
        .fact("bytes", text.len())
        .fact("limit", MAX_BYTES),
        Limit::TooDeep(at) => Diagnostic::new(
            &T0108,
            Span::new(source, at, at + 1),
            format!("more than {MAX_DEPTH} blocks lie in each other"),
        )
        .here(format!("this opens block {} of them", MAX_DEPTH + 1))
        .fact("limit", MAX_DEPTH),
    }
}

/// As much of a text as a message can bear.
fn short(text: &str) -> String {
    const MOST: usize = 40;
    let line = text.lines().next().unwrap_or("");
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or("")),
        None => line.to_owned(),
    }
}

fn describe(source: SourceId, text: &str, fault: &Fault) -> Diagnostic {
    let span = Span::new(source, fault.start, fault.end);
    let raw = text.get(fault.start..fault.end).unwrap_or("");
    let shown = short(raw);
    let other =
        fault.other.map(|(start, end)| (Span::new(source, start, end), text.get(start..end).unwrap_or("")));
    let error = |message: String| Diagnostic::new(&T0101, span, message);
    match fault.kind {
        FaultKind::NeedsQuotes => needs_quotes(span, raw),
        FaultKind::NeedsHash => Diagnostic::new(&T0103, span, format!("`{raw}` is written `#{raw}`"))
            .here("a keyword needs its `#`")
            .help(format!("write `#{raw}`, or `{}` for the text", quoted(raw)))
            .fix(span, format!("#{raw}")),
        FaultKind::KeywordAsName => {
            Diagnostic::new(&T0103, span, format!("`{raw}` is no name without quotes"))
                .here("a keyword stands where a name is expected")
                .help(format!("write `{}`", quoted(raw)))
                .fix(span, quoted(raw))
        }
        FaultKind::SingleQuotes => {
            let double = quoted(raw.trim_matches('\''));
            error("a string stands between double quotes, not single ones".to_owned())
                .here("single quotes")
                .help(format!("write `{double}`"))
                .fix(span, double)
        }
        FaultKind::UnclosedString => {
            Diagnostic::new(&T0106, span, "the string is not closed on its line".to_owned())
                .here("it starts here and takes in the rest of the line")
                .help("add the closing quote")
                .note("text of several lines stands between `\"\"\"` and `\"\"\"`, each on its own line")
        }
        FaultKind::UnclosedMulti => Diagnostic::new(&T0106, span, "the string is never closed".to_owned())
            .here("it starts here and takes in the rest of the file")
            .help(format!("add a line with `{}`", closing_of(raw))),
        FaultKind::UnclosedComment => error("the comment is never closed".to_owned())
            .here("it starts here and takes in the rest of the file")
            .help("add `*/` where it ends"),
        FaultKind::UnclosedBrace => unclosed_brace(span, other),
        FaultKind::SurplusBrace => {
            let diagnostic = Diagnostic::new(&T0105, span, "`}` closes nothing".to_owned());
            match other {
                Some((line, text)) => diagnostic
                    .here("no block is open here")
                    .label(line, "its block has no `{`")
                    .help(format!("write `{} {{`", short(text)))
                    .fix(Span { start: line.end, ..line }, " {"),
                None => diagnostic.here("no block is open here").help("remove it").fix(span, ""),
            }
        }
        FaultKind::NumberTooLarge => {
            Diagnostic::new(&T0109, span, format!("`{shown}` is too large for a number"))
                .here("does not fit")
                .note("whole numbers go up to 2^127 - 1, others up to 1.8e308")
        }
        FaultKind::BadEscape => {
            let diagnostic = error(format!("`{shown}` is no escape")).here("unknown escape");
            let rest = raw.strip_prefix('\\').unwrap_or("");
            if rest.starts_with('u') {
                diagnostic.help("write `\\u{…}` with one to six hexadecimal digits of a character")
            } else if rest == "/" {
                diagnostic.help("write `/`").fix(span, "/")
            } else {
                diagnostic
                    .help(format!("write `\\\\{rest}` for a backslash"))
                    .fix(span, format!("\\\\{rest}"))
            }
        }
        FaultKind::MultiStart => {
            error("a string of several lines starts on the line after `\"\"\"`".to_owned())
                .here("text follows on the same line")
                .help("break the line after `\"\"\"`; a string of one line stands between single `\"`")
        }
        FaultKind::MultiEnd => error("the closing `\"\"\"` stands on a line of its own".to_owned())
            .here("text stands before it")
            .help("break the line before `\"\"\"`"),
        FaultKind::MultiIndent => error("the line is less indented than the closing `\"\"\"`".to_owned())
            .here("starts further left")
            .help("indent the line as far as the closing `\"\"\"`")
            .note("the blanks before the closing `\"\"\"` are taken off every line"),
        FaultKind::RawQuote => error("`#\"\"\"#` is no string".to_owned())
            .here("starts like a string of several lines")
            .help("write `\"\\\"\"`")
            .fix(span, "\"\\\"\""),
        FaultKind::OldRaw => {
            let rest = raw.strip_prefix('r').unwrap_or(raw);
            let new = if rest.starts_with('#') { rest.to_owned() } else { format!("#{rest}#") };
            error("a raw string is written without `r`".to_owned())
                .here("this is KDL 1")
                .help(format!("write `{}`", short(&new)))
                .fix(span, new)
        }
        FaultKind::HashComment => error("a comment starts with `//`".to_owned())
            .here("`#` starts a keyword or a raw string")
            .help("write `//`")
            .fix(span, "//"),
        FaultKind::UnknownKeyword => unknown_keyword(span, raw),
        FaultKind::BadCharacter => {
            let code = raw.chars().next().map_or(0, u32::from);
            let diagnostic =
                error(format!("the character U+{code:04X} is not allowed")).here("cannot be seen");
            diagnostic.help("remove it").fix(span, "").fact("character", code)
        }
        FaultKind::StrayBackslash => {
            error("`\\` stands at the end of a line only, or in a string".to_owned())
                .here("the line goes on after it")
                .help("remove it, or quote the value")
        }
        FaultKind::Comma => error("values are separated by blanks, not by commas".to_owned())
            .here("a comma")
            .help("remove it")
            .fix(
                span,
                if text.get(fault.end..).is_some_and(|rest| rest.starts_with(lex::is_space)) {
                    ""
                } else {
                    " "
                },
            ),
        FaultKind::Bracket => error(format!("`{raw}` has no meaning outside of strings"))
            .here("several values stand one after the other, without brackets")
            .help("remove it")
            .fix(span, ""),
        FaultKind::StrayEquals => error("`=` has no name before it".to_owned())
            .here("a property is `name=value`")
            .help("write the name of the property before it, or remove it"),
        FaultKind::NodeEquals => {
            let name = other.map_or("", |(_, name)| name);
            let rest = text.get(fault.end..).and_then(|rest| rest.lines().next()).unwrap_or("");
            let value = [" //", " {", ";"]
                .iter()
                .fold(rest, |rest, stop| rest.split(stop).next().unwrap_or(rest))
                .trim();
            let value = if value.is_empty() { "value" } else { value };
            error(format!("the value of `{name}` follows without `=`"))
                .here("only properties have one, after the node's name")
                .help(format!("write `{name} {}`", short(value)))
                .fix(span, "")
        }
        FaultKind::StrayParen => {
            error("`)` closes nothing".to_owned()).here("no `(` before it").help("remove it").fix(span, "")
        }
        FaultKind::BadType => error("`(` starts a type, as in `(name)value`".to_owned())
            .here(if raw.ends_with(')') {
                "no type name, or nothing that has the type"
            } else {
                "never closed"
            })
            .help("remove the parentheses, or quote the value"),
        FaultKind::MissingValue => {
            error(format!("`{shown}` has no value")).here("a value is expected behind this")
        }
        FaultKind::MissingSpace => error("a blank is missing".to_owned())
            .here("touches what stands before it")
            .help("put a blank before it")
            .fix(Span { end: span.start, ..span }, " "),
        FaultKind::MissingTerminator => error("a node ends with its block".to_owned())
            .here("stands behind the closing `}`")
            .help("start a new line here, or move it before the `{`"),
        FaultKind::BlockWithoutNode => error("a block has no node".to_owned())
            .here("no node before this `{`")
            .help("write the name of the node before it"),
        FaultKind::BlockOnOwnLine => error("`{` stands on the line of its node".to_owned())
            .here("the node has ended on the line before")
            .help("move it to the end of the line before"),
        FaultKind::SecondBlock => error("a node has one block".to_owned()).here("this is its second"),
        FaultKind::NotAName => error(format!("`{shown}` is no name"))
            .here("a name is expected here")
            .help(format!("write `{}` if it is one", quoted(&shown))),
        FaultKind::SlashdashNothing => error("`/-` has nothing to leave out".to_owned())
            .here("a node, a value or a block is expected behind it")
            .help("remove it, or write `//` for a comment"),
        FaultKind::StraySemicolon => {
            error("`;` ends no node".to_owned()).here("no node before it").help("remove it").fix(span, "")
        }
    }
}

/// The quotes that close what these opened.
fn closing_of(open: &str) -> String {
    let hashes = open.len() - open.trim_start_matches('#').len();
    format!("\"\"\"{}", "#".repeat(hashes))
}

fn needs_quotes(span: Span, raw: &str) -> Diagnostic {
    let text = quoted(raw);
    let shown = short(raw);
    let diagnostic = Diagnostic::new(&T0102, span, format!("`{shown}` needs quotes")).fix(span, text.clone());
    let number =
        raw.strip_suffix(['.', 'e', 'E']).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let pointed = raw.strip_prefix('.').filter(|rest| rest.chars().all(|c| c.is_ascii_digit()));
    if let Some(digits) = pointed {
        return diagnostic
            .here("a number starts with a digit")
            .help(format!("write `0.{digits}`"))
            .fix(span, format!("0.{digits}"));
    }
    if let Some(rest) = number {
        return diagnostic
            .here("neither a number nor a text")
            .help(format!("write `{text}` for the text, or `{rest}` for the number"));
    }
    let here = if raw.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-')) {
        "a number with something behind it"
    } else {
        "only names go without quotes"
    };
    diagnostic.here(here).help(format!("write `{text}`"))
}

fn unknown_keyword(span: Span, raw: &str) -> Diagnostic {
    let word = raw.trim_start_matches('#').to_lowercase();
    let known = ["true", "false", "null", "inf", "nan"];
    let meant = match word.as_str() {
        "yes" | "on" => Some("true"),
        "no" | "off" => Some("false"),
        "none" | "nil" => Some("null"),
        _ => text::nearest(&word, known),
    };
    let diagnostic =
        Diagnostic::new(&T0103, span, format!("`{}` is no keyword", short(raw))).here("`#` starts a keyword");
    match meant {
        Some(meant) => diagnostic.help(format!("write `#{meant}`")).fix(span, format!("#{meant}")),
        None => diagnostic.help(format!("write `{}` for the text", quoted(raw))).fix(span, quoted(raw)),
    }
}

fn unclosed_brace(span: Span, other: Option<(Span, &str)>) -> Diagnostic {
    let diagnostic =
        Diagnostic::new(&T0104, span, "the block is never closed".to_owned()).here("opened here");
    match other {
        Some((place, next)) => diagnostic
            .label(place, "the indentation says that it has ended before this")
            .help(format!("add `}}` on the line before `{}`", short(next))),
        None => diagnostic.help("add `}` at the end of the block"),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test looks at the clock")]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a document says, without trivia: to compare two readers, or a text before and after.
    pub(in crate::syntax) fn said(document: &KdlDocument) -> String {
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

    /// The document and its problems as lines: `CODE blamed text | message | help`.
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
    fn says(text: &str, expected: &str) {
        let (_, problems) = read(text);
        assert_eq!(problems.join("\n"), expected, "{text}");
    }

    #[test]
    fn sound_text_gives_what_kdl_gives_with_its_places() {
        let text = "// é\njob \"ä\" {\n  (t)régime (u8)1 k=\"v\" /-2 x=#\"r\"# // c\n  b { c; d #true; }\n  /-e { f }\n}\n";
        let ours = check(text, &[]);
        let theirs = KdlDocument::parse(text).unwrap();
        assert_eq!(said(&ours), said(&theirs));
        let node = &ours.nodes()[0].children().unwrap().nodes()[0];
        let their_node = &theirs.nodes()[0].children().unwrap().nodes()[0];
        assert_eq!(node.name().span(), their_node.name().span());
        for (entry, their) in node.entries().iter().zip(their_node.entries()) {
            assert_eq!(entry.span(), their.span());
            assert_eq!(written(entry), their.format().unwrap().value_repr);
        }
        let span = value_span(SourceId(0), &node.entries()[1]);
        assert_eq!(&text[span.start as usize..span.end as usize], "\"v\"");
    }

    #[test]
    fn three_bare_units_are_three_problems_and_the_rest_is_read() {
        let text = "job \"x\" {\n    cluster \"c\" nodes=2 {\n        max-run 5d\n        volume 500GiB\n    }\n    \
                    checkpoint every=200 steps keep=3\n    region \"us-west-2\"\n}\n";
        let document = check(text, &["T0102 \"5d\"", "T0102 \"500GiB\"", "T0102 \"200 steps\""]);
        let job = document.nodes()[0].children().unwrap();
        assert_eq!(job.nodes().len(), 3);
        let cluster = job.nodes()[0].children().unwrap();
        assert_eq!(cluster.get_arg("max-run"), Some(&KdlValue::String("5d".into())));
        assert_eq!(job.get("checkpoint").unwrap().get("every"), Some(&KdlValue::String("200 steps".into())));
        assert_eq!(job.get("checkpoint").unwrap().get("keep"), Some(&KdlValue::Integer(3)));
        assert!(is_mended(&cluster.nodes()[0].entries()[0]));
        assert!(!is_mended(&job.nodes()[0].entries()[0]));
        says("max-run 5d", "T0102 \"5d\" | `5d` needs quotes | write `\"5d\"`");
    }

    #[test]
    fn numbers_that_are_none() {
        says("x 1e", "T0102 \"1e\" | `1e` needs quotes | write `\"1e\"` for the text, or `1` for the number");
        says(
            "x y=1.",
            "T0102 \"1.\" | `1.` needs quotes | write `\"1.\"` for the text, or `1` for the number",
        );
        says("x .5", "T0102 \".5\" | `.5` needs quotes | write `0.5`");
        check("x 0xfg", &["T0102 \"0xfg\""]);
        check("x -5d +3h", &["T0102 \"-5d\"", "T0102 \"+3h\""]);
        check("x 1_000 2e-4 0xff 0b1_0 0o17 -1.5E+3 +1", &[]);
    }

    #[test]
    fn paths_and_addresses_need_quotes() {
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
        says("a #True", "T0103 \"#True\" | `#True` is no keyword | write `#true`");
        says("a #yes", "T0103 \"#yes\" | `#yes` is no keyword | write `#true`");
        says("a #ff0000", "T0103 \"#ff0000\" | `#ff0000` is no keyword | write `\"#ff0000\"` for the text");
        check("true 1\nb\n", &["T0103 \"true\""]);
    }

    #[test]
    fn unclosed_strings_end_with_their_line() {
        let document = check("a \"x\nb \"y\"\n", &["T0106 \"\\\"x\""]);
        assert_eq!(document.nodes().len(), 2);
        let text = "cluster \"ml.p4d nodes=2 {\n    max-run \"5d\"\n}\nb\n";
        let document = check(text, &["T0106 \"\\\"ml.p4d nodes=2\""]);
        assert_eq!(document.nodes()[0].children().unwrap().nodes().len(), 1);
        // Not the last quote is at fault, but the first string's missing one.
        check(
            "channel \"train s3=\"s3://b/x\" mode=\"rw\"\nb 5d\n",
            &["T0106 \"\\\"train s3=\\\"s3://b/x\\\" mode=\\\"rw\\\"\"", "T0102 \"5d\""],
        );
        let document = check("a { b \"5d }\nc\n", &["T0106 \"\\\"5d\""]);
        assert_eq!(document.nodes().len(), 2);
        check("a #\"x\nb\n", &["T0106 \"#\\\"x\""]);
        check("a \"\"\"\n  x\nb {\n", &["T0106 \"\\\"\\\"\\\"\""]);
        check("a {\n  b /* c\n}\n", &["T0101 \"/*\""]);
    }

    #[test]
    fn braces_are_blamed_by_indentation() {
        let text = "job \"x\" {\n    cluster \"c\" {\n        max-run \"5d\"\n\n    train {\n        steps 1\n    }\n}\nb\n";
        let document = check(text, &["T0104 \"{\""]);
        assert_eq!(document.nodes().len(), 2);
        assert_eq!(document.nodes()[0].children().unwrap().nodes().len(), 2);
        let (_, problems) = read(text);
        assert!(problems[0].ends_with("add `}` on the line before `train`"), "{problems:?}");
        let mut problems = Problems::default();
        parse(SourceId(0), text, &mut problems);
        assert_eq!(problems.iter().next().unwrap().span.start as usize, text.find("c\" {").unwrap() + 3);

        // The `{` is missing: the lines that look like a block are one.
        let text = "job \"x\" {\n    cluster \"c\"\n        max-run \"5d\"\n    }\n    train {\n        steps 1\n    }\n}\n";
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
        says(
            "x r\"a\\b\"",
            "T0101 \"r\\\"a\\\\b\\\"\" | a raw string is written without `r` | write `#\"a\\b\"#`",
        );
        says(
            "x r#\"a\"b\"#",
            "T0101 \"r#\\\"a\\\"b\\\"#\" | a raw string is written without `r` | write `#\"a\"b\"#`",
        );
    }

    #[test]
    fn each_page_shows_its_code() {
        for code in CODES {
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
            assert_eq!(crate::syntax::format::format(right).as_deref(), Ok(right));
        }
        assert_eq!(not_utf8(SourceId(0), 7).code, &T0110);
    }

    #[test]
    fn odd_places() {
        says(
            "region = \"us\" // c",
            "T0101 \"=\" | the value of `region` follows without `=` | write `region \"us\"`",
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
        check("a \\/*/\n1\n", &["T0101 \"\\\\\"", "T0101 \"/*\""]);
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
        assert_eq!(problems, ["T0108 \"{\" | more than 32 blocks lie in each other | -"]);
        let start = std::time::Instant::now();
        let (document, problems) = read(&"{".repeat(10 * MAX_BYTES));
        assert!(document.is_none());
        assert_eq!(problems, ["T0107 \"\" | the file has 10 MiB, a manifest has at most 1 MiB | -"]);
        assert_eq!(read(&"{".repeat(MAX_BYTES)).1.len(), 1);
        assert!(start.elapsed().as_secs() < 5);
    }

    #[test]
    fn nothing_to_read_gives_no_document() {
        assert!(read("").0.is_some_and(|document| document.nodes().is_empty()));
        assert!(read("// only a comment").0.is_some());
        assert!(read("5d").0.is_none());
        let (document, problems) = read(&"a 5d\n".repeat(200));
        assert!(document.is_none());
        assert_eq!(problems.len(), MAX_PROBLEMS + 1);
    }

    /// Each of these once made some reader quadratic or worse.
    #[test]
    fn much_of_anything_is_read_in_bounded_time() {
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
            assert!(start.elapsed().as_secs() < 5, "{piece:?} took {:?}", start.elapsed());
        }
    }

    /// Texts near to KDL, sound and not.
    pub(in crate::syntax) fn near_kdl() -> impl Strategy<Value = String> {
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
        fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = read(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn any_text_can_be_read(text in any::<String>()) {
            let _ = read(&text);
        }

        /// What we accept kdl reads alike. Not the other way round: we refuse some that is legal and surely a slip.
        #[test]
        fn kdl_and_we_agree(text in near_kdl()) {
            let (ours, problems) = read(&text);
            // kdl 6.7 refuses a node behind `/-node;`, against the grammar.
            let known = text.contains("/-") && text.contains(';');
            if let (Some(ours), true, false) = (&ours, problems.is_empty(), known) {
                let theirs = KdlDocument::parse(&text);
                prop_assert!(theirs.is_ok(), "only we accept {text:?}");
                prop_assert_eq!(said(ours), said(&theirs.unwrap()), "{:?}", text);
            }
        }
    }
}
