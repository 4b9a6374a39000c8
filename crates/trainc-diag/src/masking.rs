//! Finds the credentials in the text of a source, and masks them in text that is shown.
//!
//! A source may be unreadable, or be no manifest: its words and strings are found without a parser, so that a
//! credential at a place where none is expected (a surplus argument, an unclosed string, an unknown node) is
//! masked too. What a value is decides [`crate::credentials::classify`].

use crate::credentials::{NamedCredential, Place, classify_name, classify_whole, credential_ranges, find};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

/// The text that replaces a credential.
const MASKED: &str = "***";

/// Values shorter than this are masked in a text only as a whole quoted or assigned word, since they may be a
/// part of others.
const LEAST_IN_TEXT: usize = 6;

/// The beginning of a value by which it is recognised where a text was truncated, in bytes.
const LEAST_START: usize = 8;

/// The part of a multi-line value, such as a line of a private key, that is masked alone, in bytes.
const LEAST_LINE: usize = 16;

/// Names of a node that are tried for a value, those next to it.
const MOST_NAMES: usize = 8;

/// Nodes whose values are variables of the program.
const VARIABLE_NODES: [&str; 5] = ["environment", "hyperparameter", "hyperparameters", "mpi-env", "secret"];

/// A credential in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundCredential {
    /// Its bytes, without quotation marks.
    pub(super) range: Range<usize>,
    /// The texts that a message may quote of it: as it is written, as it is read, and its lines.
    pub(super) values: Vec<String>,
}

impl FoundCredential {
    /// Makes the credential at a place of a text.
    pub(super) fn new(text: &str, range: Range<usize>) -> Self {
        let written = text.get(range.clone()).unwrap_or_default();
        let read = unescape(written);
        let mut values = vec![written.to_owned()];
        if read.contains('\n') {
            let lines = read.lines().map(str::trim).filter(|line| line.len() >= LEAST_LINE);
            values.extend(lines.map(str::to_owned));
        }
        for (start, end, _) in credential_ranges(&read) {
            values.extend(read.get(start..end).map(str::to_owned));
        }
        // A value of several lines is shown without the indentation around it.
        values.push(read.trim().to_owned());
        values.push(read.into_owned());
        values.retain(|value| !value.trim().is_empty());
        values.dedup();
        Self { range, values }
    }
}

/// Returns the credentials in the text of a source of that name.
pub(super) fn find_credentials(name: &str, text: &str) -> Vec<FoundCredential> {
    // The words of a program are expressions, not values.
    let is_program = name.ends_with(".py") || name.ends_with(".pyw");
    let mut out = Vec::new();
    let mut names: Vec<Name<'_>> = Vec::new();
    for token in Tokens::new(text) {
        if token.is_first {
            names.clear();
        }
        let is_value = token.is_quoted || (!is_program && (token.is_joined || token.is_variable));
        // Of an address that contains a token, the token alone is found, below. The lines of a key belong
        // together.
        let is_line = !token.value.contains('\n');
        let is_partly =
            || is_line && token.has_format_as_written(text) && !token.is_credential_as_a_whole(&names);
        if is_value && token.is_credential(&names) && !is_partly() {
            out.push(FoundCredential::new(text, token.range.clone()));
        }
        if token.is_joined && names.len() > 1 {
            names.pop();
        } else if !(token.is_joined || token.is_first && token.value == "secret") {
            names.push(Name::new(text.get(token.range).unwrap_or_default()));
        }
    }
    for (start, end, _) in credential_ranges(text) {
        let covers = |one: &FoundCredential| one.range.start <= start && end <= one.range.end;
        if !out.iter().any(covers) {
            out.push(FoundCredential::new(text, start..end));
        }
    }
    out
}

/// Returns the bytes of a string without its marks, if one is at these bytes; else the bytes.
pub(super) fn content(text: &str, range: Range<usize>) -> Range<usize> {
    let mut tokens = Tokens { at: range.start, ..Tokens::new(text) };
    tokens.string().map(|(inner, _)| inner).filter(|inner| inner.end <= range.end).unwrap_or(range)
}

/// A word or a string that may name the values after it.
struct Name<'a> {
    text: &'a str,
    kind: Option<NamedCredential>,
}

impl<'a> Name<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, kind: classify_name(text) }
    }
}

/// A word or a string of a text.
struct Token<'a> {
    /// Its bytes, without quotation marks.
    range: Range<usize>,
    /// The text that it stands for.
    value: Cow<'a, str>,
    is_quoted: bool,
    /// Whether it comes after `=` or `:`.
    is_joined: bool,
    /// Whether it begins a line, a node or an object.
    is_first: bool,
    /// Whether it is in a node of variables.
    is_variable: bool,
    /// Whether `=` or `:` comes after it.
    names_property: bool,
}

impl Token<'_> {
    /// Returns whether it is a credential, after these names of its node.
    fn is_credential(&self, names: &[Name<'_>]) -> bool {
        // A placeholder is filled in from the plan.
        if self.names_property || (self.value.contains("{{") && find(&self.value).is_none()) {
            return false;
        }
        find(&self.value).is_some() || self.is_credential_as_a_whole(names)
    }

    /// Returns whether its names or its randomness, and not a format in it, make it a credential.
    fn is_credential_as_a_whole(&self, names: &[Name<'_>]) -> bool {
        // A property has its own name, but `from` of a `secret` is named by its argument.
        let is_named = self.is_joined && names.last().is_none_or(|name| name.text != "from");
        let names = names.iter().rev().take(if is_named { 1 } else { MOST_NAMES });
        // Digits are those of the nearest name: the node's own name indicates no digest.
        let nearest = if self.is_variable { Place::Variable } else { Place::Other };
        let places = std::iter::once(nearest).chain(std::iter::repeat(Place::Other));
        classify_whole(names.map(|name| name.kind).zip(places), &self.value).is_some()
    }

    /// Returns whether all that has the format of a credential in the value has it also as it is written.
    fn has_format_as_written(&self, text: &str) -> bool {
        let written = text.get(self.range.clone()).map_or(0, |written| credential_ranges(written).len());
        written > 0 && written == credential_ranges(&self.value).len()
    }
}

/// The words and strings of a text, in the syntax that KDL, JSON, YAML, TOML and Python share.
struct Tokens<'a> {
    text: &'a str,
    at: usize,
    is_joined: bool,
    is_first: bool,
    /// Whether the node of this line, and the nodes around it, hold variables.
    is_variable: bool,
    around: Vec<bool>,
    /// Marks that close no string in the rest of the text, so that it is searched once for each.
    unclosed: BTreeSet<String>,
    /// The characters that were compared with the end of a string.
    #[cfg(test)]
    compared: usize,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            is_joined: false,
            is_first: true,
            is_variable: false,
            around: Vec::new(),
            unclosed: BTreeSet::new(),
            #[cfg(test)]
            compared: 0,
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Begins a statement.
    fn begin(&mut self) {
        (self.is_joined, self.is_first) = (false, true);
        self.is_variable = self.around.last().copied().unwrap_or_default();
    }

    /// Skips to a text, or to the end.
    fn skip_past(&mut self, end: &str) {
        self.at += self.rest().find(end).map_or(self.rest().len(), |at| at + end.len());
    }

    /// Returns the marks around a string that begins here: the opening and the closing one, and whether it
    /// has escapes.
    fn string_marks(&self) -> Option<(usize, String, bool)> {
        let rest = self.rest();
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        let inner = rest.get(hashes..).unwrap_or_default();
        let mark = if inner.starts_with("\"\"\"") {
            "\"\"\""
        } else if inner.starts_with('"') {
            "\""
        } else if hashes == 0 && inner.starts_with('\'') {
            "'"
        } else {
            return None;
        };
        Some((hashes + mark.len(), format!("{mark}{}", "#".repeat(hashes)), hashes == 0))
    }

    /// Reads the string that begins here; one that is not closed ends with its line.
    fn string(&mut self) -> Option<(Range<usize>, Cow<'a, str>)> {
        let (opening, closing, has_escapes) = self.string_marks()?;
        let start = self.at + opening;
        let body = self.text.get(start..)?;
        let is_multi_line = closing.starts_with("\"\"\"") || !has_escapes;
        let mark = if closing.starts_with('"') { '"' } else { '\'' };
        let mut end = None;
        let mut escaped = false;
        let searched = if self.unclosed.contains(&closing) { "" } else { body };
        for (at, c) in searched.char_indices() {
            #[cfg(test)]
            {
                self.compared += 1;
            }
            if escaped {
                escaped = false;
            } else if has_escapes && c == '\\' {
                escaped = true;
            } else if c == mark && body.get(at..).is_some_and(|rest| rest.starts_with(closing.as_str())) {
                end = Some((at, at + closing.len()));
                break;
            } else if c == '\n' && !is_multi_line {
                break;
            }
        }
        let (end, after) = end.unwrap_or_else(|| {
            if is_multi_line {
                self.unclosed.insert(closing.clone());
            }
            let line = body.find('\n').unwrap_or(body.len());
            (line, line)
        });
        // An apostrophe is no mark of a string.
        if closing == "'" && after == end {
            return None;
        }
        self.at = start + after;
        let range = start..start + end;
        let written = self.text.get(range.clone())?;
        // The indentation of a string of several lines is no part of it.
        let written = if is_multi_line { written.trim() } else { written };
        Some((range, if has_escapes { unescape(written) } else { Cow::Borrowed(written) }))
    }

    /// Reads the word that begins here.
    fn word(&mut self) -> Range<usize> {
        let rest = self.rest();
        let mut chars = rest.char_indices().peekable();
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|(_, c)| *c);
            // A colon inside a word belongs to it: `s3://bucket`.
            let ends_key = c == ':' && next.is_none_or(|next| next.is_whitespace() || "\"'".contains(next));
            if c.is_whitespace() || "\"{}()[];,=`\\".contains(c) || ends_key {
                end = at;
                break;
            }
        }
        let range = self.at..self.at + end;
        self.at = range.end;
        range
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let blanks = self.rest().bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            self.at += blanks;
            let rest = self.rest();
            let c = rest.chars().next()?;
            if rest.starts_with("//") || rest.starts_with("# ") {
                self.at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            if rest.starts_with("/*") {
                self.skip_past("*/");
                continue;
            }
            let found = match c {
                '\n' | ';' | '{' | '}' | '(' => {
                    match c {
                        '{' => self.around.push(self.is_variable),
                        '}' => drop(self.around.pop()),
                        _ => {}
                    }
                    self.begin();
                    None
                }
                '\\' => {
                    // The node goes on in the next line.
                    self.at += rest.find('\n').unwrap_or(0);
                    None
                }
                '=' | ':' => {
                    self.is_joined = true;
                    None
                }
                ')' | '[' | ']' | ',' | '`' => None,
                c if c.is_whitespace() => None,
                _ => match self.string() {
                    Some((range, value)) => Some((range, value, true)),
                    None if c == '\'' || c == '"' => None,
                    None => {
                        let range = self.word();
                        let word = self.text.get(range.clone()).unwrap_or_default();
                        Some((range, Cow::Borrowed(word), false)).filter(|(range, ..)| !range.is_empty())
                    }
                },
            };
            let Some((range, value, is_quoted)) = found else {
                // `string` and `word` move on by themselves, unless nothing is there.
                self.at += self.rest().chars().next().map_or(1, char::len_utf8);
                continue;
            };
            if self.is_first
                && !self.is_joined
                && VARIABLE_NODES.iter().any(|node| value.eq_ignore_ascii_case(node))
            {
                self.is_variable = true;
            }
            let after = self.rest().trim_start_matches([' ', ']']);
            let token = Token {
                range,
                is_quoted,
                is_joined: self.is_joined,
                is_first: self.is_first,
                is_variable: self.is_variable,
                names_property: after.starts_with('=')
                    || after.strip_prefix(':').is_some_and(|rest| !rest.starts_with('/')),
                value,
            };
            (self.is_joined, self.is_first) = (false, false);
            // `#true` and `#null` are not text.
            if !token.is_quoted && token.value.starts_with('#') {
                continue;
            }
            return Some(token);
        }
    }
}

/// Returns the text that a string stands for: the escapes of KDL and JSON.
fn unescape(written: &str) -> Cow<'_, str> {
    if !written.contains('\\') {
        return Cow::Borrowed(written);
    }
    let mut out = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        out.push_str(rest.get(..at).unwrap_or_default());
        let escape = rest.get(at + 1..).unwrap_or_default();
        let Some(c) = escape.chars().next() else {
            rest = "";
            break;
        };
        let mut length = c.len_utf8();
        match c {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            's' => out.push(' '),
            'u' => {
                let digits = escape.get(1..).unwrap_or_default();
                let (digits, read) = match digits.strip_prefix('{') {
                    Some(inside) => {
                        let digits = inside.split('}').next().unwrap_or_default();
                        (digits, digits.len() + 2)
                    }
                    None => (digits.get(..4).unwrap_or_default(), 4),
                };
                length += read;
                out.extend(u32::from_str_radix(digits, 16).ok().and_then(char::from_u32));
            }
            // It removes the white space after it.
            c if c.is_whitespace() => length = escape.len() - escape.trim_start().len(),
            other => out.push(other),
        }
        rest = escape.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Masks the values of credentials, and whatever has the form of one, in a text.
pub(super) fn mask<'v>(text: &str, values: impl IntoIterator<Item = &'v str>) -> String {
    // Bytes keep their places in lowercase.
    let lower = text.to_ascii_lowercase();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for value in values {
        let value = value.to_ascii_lowercase();
        let start = value.get(..value.ceil_char_boundary(LEAST_START)).unwrap_or(&value);
        for (at, _) in lower.match_indices(start) {
            let found = lower.get(at..).unwrap_or_default();
            let same =
                found.chars().zip(value.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8());
            let end = at + same.sum::<usize>();
            let is_whole = end == at + value.len() && is_alone(&lower, at..end, value.len() < LEAST_IN_TEXT);
            // Messages truncate long texts.
            if is_whole || lower.get(end..).is_some_and(|rest| rest.starts_with('…')) {
                ranges.push(at..end);
            }
        }
    }
    ranges.extend(credential_ranges(text).into_iter().map(|(start, end, _)| start..end));
    if ranges.is_empty() {
        return text.to_owned();
    }
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for range in ranges {
        if range.start >= end {
            out.push_str(text.get(end..range.start).unwrap_or_default());
            out.push_str(MASKED);
        }
        end = end.max(range.end);
    }
    out.push_str(text.get(end..).unwrap_or_default());
    out
}

/// Returns whether a part of a text is no part of a longer word; `is_short` for one that must be quoted or
/// assigned.
fn is_alone(text: &str, range: Range<usize>, is_short: bool) -> bool {
    let before = text.get(..range.start).and_then(|before| before.chars().next_back());
    let after = text.get(range.end..).and_then(|after| after.chars().next());
    if is_short {
        let is_mark = |c: char| "\"'`".contains(c);
        return before.is_some_and(|c| is_mark(c) || c == '=')
            && after.is_none_or(|c| is_mark(c) || c == ' ');
    }
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inside = text.get(range).unwrap_or_default();
    !(is_word(before) && is_word(inside.chars().next())
        || is_word(after) && is_word(inside.chars().next_back()))
}

/// Masks the strings of a JSON document, so that it stays one.
pub(super) fn mask_json(json: &str, mask: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('"') {
        out.push_str(rest.get(..at).unwrap_or_default());
        let from = rest.get(at..).unwrap_or_default();
        let mut escaped = false;
        let is_end = |(_, c): &(usize, char)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        };
        let end = from.char_indices().skip(1).find(is_end).map_or(from.len(), |(at, _)| at + 1);
        let literal = from.get(..end).unwrap_or_default();
        let masked = serde_json::from_str::<String>(literal).ok().and_then(|text| {
            let masked = mask(&text);
            (masked != text).then(|| serde_json::Value::from(masked).to_string())
        });
        out.push_str(masked.as_deref().unwrap_or(literal));
        rest = from.get(end..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
#[path = "masking_tests.rs"]
mod tests;
