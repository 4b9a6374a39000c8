//! YAML 1.1 as PyYAML's `safe_load` reads it. The parser is `granit-parser`, which follows PyYAML where it
//! departs from YAML 1.2; what its scalars, keys and aliases mean is decided here. Tags that `safe_load`
//! rejects are kept.

use crate::members::{Members, counted};
use crate::node::{Node, Value};
use crate::scalar::{self, Plain};
use crate::{Budget, Error, Limits};
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Reads a text that is one YAML document; an empty text is null.
pub fn read_yaml(text: &str, limits: &Limits) -> Result<Node, Error> {
    let mut documents = Reader::new(text, limits)?.documents(1)?;
    match documents.pop() {
        Some(document) => Ok(document),
        None => Ok(Node::new(0..0, Value::Null)),
    }
}

/// Reads a text of any number of YAML documents.
pub fn read_yaml_stream(text: &str, limits: &Limits) -> Result<Vec<Node>, Error> {
    Reader::new(text, limits)?.documents(usize::MAX)
}

/// A node as it is written: its children are other nodes of one list, so that an alias is a number.
struct Written {
    span: Range<usize>,
    tag: Option<Box<str>>,
    content: Content,
}

enum Content {
    Plain(Box<str>),
    Quoted(Box<str>),
    Alias(usize),
    Sequence(Vec<usize>),
    Mapping(Vec<(usize, usize)>),
}

/// A collection whose end is not read yet, or a document.
struct OpenCollection {
    /// Its number; a document has none.
    node: Option<usize>,
    /// The key of the value that is read.
    key: Option<usize>,
    /// The node of a document.
    root: Option<usize>,
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    budget: Budget,
    nodes: Vec<Written>,
    /// The node of each anchor of the document.
    anchors: BTreeMap<usize, usize>,
    anchor_names: BTreeSet<String>,
    end: usize,
}

/// Prefix of the tags of YAML itself.
const STANDARD: &str = "tag:yaml.org,2002:";

impl<'a> Reader<'a> {
    fn new(text: &'a str, limits: &Limits) -> Result<Self, Error> {
        limits.check_size(text)?;
        if let Some((at, found)) = text.char_indices().find(|(_, c)| !is_printable(*c)) {
            let message = format!("the character U+{:04X}, which YAML does not allow", u32::from(found));
            return Err(Error::new(at..at + found.len_utf8(), message));
        }
        // As PyYAML. Depth is counted here, since that of the parser is of one kind of collections.
        let options = granit_parser::options! {
            emit_comments: false,
            emit_anchor_events: true,
            block_scalar_eof_without_line_feed: true,
            bom_inside_document_as_content: true,
            flow_nesting_limit: limits.depth + 1,
            block_nesting_limit: limits.depth + 1,
        };
        Ok(Self {
            parser: Parser::new_from_str_with_options(text, options),
            budget: Budget::new(limits),
            nodes: Vec::new(),
            anchors: BTreeMap::new(),
            anchor_names: BTreeSet::new(),
            end: text.len(),
        })
    }

    fn place(&self, span: &Span) -> Range<usize> {
        let range = span.byte_range().unwrap_or(self.end..self.end);
        range.start.min(self.end)..range.end.clamp(range.start.min(self.end), self.end)
    }

    fn syntax(&self, error: &ScanError) -> Error {
        let at = error.marker().byte_offset().unwrap_or(self.end).min(self.end);
        Error::new(at..at, error.info())
    }

    /// Reads all documents, `most` at most.
    fn documents(mut self, most: usize) -> Result<Vec<Node>, Error> {
        let mut documents = Vec::new();
        let mut open: Vec<OpenCollection> = Vec::new();
        while let Some(event) = self.parser.next_event() {
            let (event, span) = event.map_err(|error| self.syntax(&error))?;
            let span = self.place(&span);
            let (content, tag, anchor) = match event {
                Event::DocumentStart(..) => {
                    if documents.len() == most {
                        return Err(Error::new(span, "a second document, where one is expected"));
                    }
                    self.nodes.clear();
                    self.anchors.clear();
                    self.anchor_names.clear();
                    open = vec![OpenCollection { node: None, key: None, root: None }];
                    continue;
                }
                Event::DocumentEnd => {
                    let root = open.pop().and_then(|document| document.root);
                    if let Some(root) = root {
                        documents.push(self.resolve(root, 0, &mut Vec::new())?);
                    }
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    let ended = open.pop().and_then(|open| open.node);
                    if let Some(ended) = ended.and_then(|node| self.nodes.get_mut(node)) {
                        ended.span.end = ended.span.end.max(span.end);
                    }
                    continue;
                }
                Event::Anchor(_, name) => {
                    if !self.anchor_names.insert(name.into_owned()) {
                        return Err(Error::new(span, "an anchor with the name of another one"));
                    }
                    continue;
                }
                Event::Alias(anchor) => {
                    let Some(target) = self.anchors.get(&anchor) else {
                        return Err(Error::new(span, "an alias without its anchor"));
                    };
                    (Content::Alias(*target), None, 0)
                }
                Event::Scalar(text, ScalarStyle::Plain, anchor, tag) => {
                    (Content::Plain(text.into()), tag, anchor)
                }
                Event::Scalar(text, _, anchor, tag) => (Content::Quoted(text.into()), tag, anchor),
                Event::SequenceStart(_, anchor, tag) => (Content::Sequence(Vec::new()), tag, anchor),
                Event::MappingStart(_, anchor, tag) => (Content::Mapping(Vec::new()), tag, anchor),
                _ => continue,
            };
            let is_collection = matches!(content, Content::Sequence(_) | Content::Mapping(_));
            // One of them is the document.
            if is_collection && open.len() > self.budget.limits.depth {
                return Err(self.budget.limits.too_deep(span));
            }
            let number = self.nodes.len();
            if number >= self.budget.limits.nodes {
                return Err(self.budget.count_exceeded(span));
            }
            self.nodes.push(Written { span, tag: tag.as_deref().map(full_tag), content });
            if anchor > 0 {
                self.anchors.insert(anchor, number);
            }
            self.add(number, open.last_mut());
            if is_collection {
                open.push(OpenCollection { node: Some(number), key: None, root: None });
            }
        }
        Ok(documents)
    }

    /// Adds a node to the collection in which it is written.
    fn add(&mut self, number: usize, parent: Option<&mut OpenCollection>) {
        let Some(parent) = parent else { return };
        let Some(node) = parent.node else {
            parent.root = Some(number);
            return;
        };
        match self.nodes.get_mut(node).map(|node| &mut node.content) {
            Some(Content::Sequence(items)) => items.push(number),
            Some(Content::Mapping(members)) => match parent.key.take() {
                Some(key) => members.push((key, number)),
                None => parent.key = Some(number),
            },
            _ => {}
        }
    }

    /// Returns the node that an alias stands for, or the node itself.
    fn target(&self, node: usize) -> Result<(usize, &Written), Error> {
        let unknown = || Error::new(self.end..self.end, "an alias without its anchor");
        let written = self.nodes.get(node).ok_or_else(unknown)?;
        match written.content {
            Content::Alias(target) => self.nodes.get(target).map(|found| (target, found)).ok_or_else(unknown),
            _ => Ok((node, written)),
        }
    }

    /// Makes the value of a node; `inside` are the collections that it is in.
    fn resolve(&mut self, node: usize, depth: usize, inside: &mut Vec<usize>) -> Result<Node, Error> {
        let alias = self.nodes.get(node).map_or(0..0, |written| written.span.clone());
        let (node, written) = self.target(node)?;
        let (span, tag) = (written.span.clone(), written.tag.clone());
        let made = match &written.content {
            Content::Plain(text) => scalar_value(text, tag.as_deref(), true),
            Content::Quoted(text) => scalar_value(text, tag.as_deref(), false),
            Content::Alias(_) => Err("an alias of an alias".to_owned()),
            Content::Sequence(items) => {
                let items = items.clone();
                let tag = collection_tag(tag, "seq", &span)?;
                self.enter(node, depth, &alias, inside)?;
                let read = items.into_iter().map(|item| self.resolve(item, depth + 1, inside));
                let read = read.collect::<Result<Vec<_>, _>>()?;
                inside.pop();
                Ok((Value::Sequence(read), tag))
            }
            Content::Mapping(_) => {
                let tag = collection_tag(tag, "map", &span)?;
                self.enter(node, depth, &alias, inside)?;
                let mut written = Vec::new();
                self.flatten(node, true, &alias, inside, &mut written)?;
                let mut members = Members::default();
                for (key, value, is_written_here) in written {
                    let key = self.key(key, depth + 1, inside)?;
                    let value = self.resolve(value, depth + 1, inside)?;
                    members.insert(key, value, is_written_here)?;
                }
                inside.pop();
                Ok((members.into_value(), tag))
            }
        };
        let (value, tag) = made.map_err(|message| Error::new(span.clone(), message))?;
        let made = counted(span, value, &mut self.budget)?;
        Ok(Node { tag, ..made })
    }

    /// Enters a collection, which must not be inside of itself.
    fn enter(
        &self,
        node: usize,
        depth: usize,
        alias: &Range<usize>,
        inside: &mut Vec<usize>,
    ) -> Result<(), Error> {
        if inside.contains(&node) {
            return Err(Error::new(alias.clone(), "an alias of the collection that it is in"));
        }
        if depth >= self.budget.limits.depth {
            return Err(self.budget.limits.too_deep(alias.clone()));
        }
        inside.push(node);
        Ok(())
    }

    /// Returns the key of a member: `=` is text there.
    fn key(&mut self, node: usize, depth: usize, inside: &mut Vec<usize>) -> Result<Node, Error> {
        let (_, written) = self.target(node)?;
        match &written.content {
            Content::Plain(text) if written.tag.is_none() && &**text == "=" => {
                let (span, value) = (written.span.clone(), Value::Text(text.clone()));
                counted(span, value, &mut self.budget)
            }
            _ => self.resolve(node, depth, inside),
        }
    }

    fn is_merge(&self, key: usize) -> bool {
        let is_it = |written: &Written| match &written.content {
            Content::Plain(text) if written.tag.is_none() => matches!(scalar::resolve(text), Plain::Merge),
            _ => written.tag.as_deref().and_then(|tag| tag.strip_prefix(STANDARD)) == Some("merge"),
        };
        self.target(key).is_ok_and(|(_, written)| is_it(written))
    }

    /// Appends the members of a map with those that its keys `<<` merge, which come first, as
    /// `flatten_mapping` of PyYAML orders them.
    fn flatten(
        &mut self,
        node: usize,
        is_written_here: bool,
        at: &Range<usize>,
        inside: &mut Vec<usize>,
        out: &mut Vec<(usize, usize, bool)>,
    ) -> Result<(), Error> {
        self.budget.count(0, at)?;
        let Ok((_, Written { content: Content::Mapping(members), .. })) = self.target(node) else {
            return Ok(());
        };
        let (merges, own): (Vec<_>, Vec<_>) =
            members.clone().into_iter().partition(|(key, _)| self.is_merge(*key));
        for (_, merged) in merges {
            let (number, written) = self.target(merged)?;
            let at = written.span.clone();
            let maps = match &written.content {
                Content::Mapping(_) => vec![number],
                // The first of several has precedence.
                Content::Sequence(items) => items.iter().rev().copied().collect(),
                _ => return Err(Error::new(at, "`<<` takes a map or a list of maps")),
            };
            for map in maps {
                let (map, written) = self.target(map)?;
                let at = written.span.clone();
                if !matches!(written.content, Content::Mapping(_)) {
                    return Err(Error::new(at, "`<<` takes a map or a list of maps"));
                }
                self.enter(map, inside.len().saturating_sub(1), &at, inside)?;
                self.flatten(map, false, &at, inside, out)?;
                inside.pop();
            }
        }
        for (key, value) in own {
            self.budget.count(0, at)?;
            out.push((key, value, is_written_here));
        }
        Ok(())
    }
}

/// Returns whether PyYAML reads a character (`Reader.NON_PRINTABLE` of `yaml/reader.py`).
fn is_printable(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

/// Returns a tag as one text.
fn full_tag(tag: &Tag) -> Box<str> {
    format!("{}{}", tag.handle(), tag.suffix()).into()
}

/// Returns the tag of a collection if it says more than that.
fn collection_tag(tag: Option<Box<str>>, own: &str, span: &Range<usize>) -> Result<Option<Box<str>>, Error> {
    let Some(tag) = tag.filter(|tag| &**tag != "!") else { return Ok(None) };
    match tag.strip_prefix(STANDARD) {
        Some(name) if name == own => Ok(None),
        Some("null") => Err(Error::new(span.clone(), "a collection with the tag `!!null`")),
        Some(name @ ("bool" | "int" | "float" | "str" | "timestamp" | "binary" | "seq" | "map")) => {
            Err(Error::new(span.clone(), format!("a value of another kind with the tag `!!{name}`")))
        }
        _ => Ok(Some(tag)),
    }
}

/// Makes the value of a scalar, and its tag if that says more.
fn scalar_value(text: &str, tag: Option<&str>, is_plain: bool) -> Result<(Value, Option<Box<str>>), String> {
    let as_text = || Value::Text(text.into());
    let Some(tag) = tag else {
        if !is_plain {
            return Ok((as_text(), None));
        }
        return match scalar::resolve(text) {
            Plain::Value(value) => Ok((value, None)),
            Plain::Merge => Err("`<<` as a value, which is only valid as a key".to_owned()),
            Plain::Default => Err("`=` as a value, which PyYAML does not read; quote it".to_owned()),
            Plain::Invalid(problem) => Err(problem.to_owned()),
        };
    };
    if tag == "!" {
        return scalar_value(text, None, true);
    }
    let Some(name) = tag.strip_prefix(STANDARD) else { return Ok((as_text(), Some(tag.into()))) };
    let value = match name {
        "str" => Some(as_text()),
        "null" => Some(Value::Null),
        "bool" => scalar::tagged_boolean(text).map(Value::Bool),
        "int" => scalar::yaml_integer(text.trim()),
        "float" => scalar::float(text.trim()),
        "timestamp" => (scalar::timestamp(text) == Some(true)).then(|| Value::Timestamp(text.into())),
        "seq" | "map" | "set" | "omap" | "pairs" => None,
        _ => return Ok((as_text(), Some(tag.into()))),
    };
    value.map(|value| (value, None)).ok_or_else(|| format!("no value of the tag `!!{name}`"))
}
