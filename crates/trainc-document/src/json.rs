//! JSON as Python's `json` module reads it: `NaN`, `Infinity` and large integers are numbers, the last of two
//! equal keys counts.
//!
//! The reader is our own, since the readers that are published keep no places of keys and values. It does not
//! recurse.

use crate::members::{Members, counted};
use crate::node::{Node, Value};
use crate::scalar::integer;
use crate::{BYTE_ORDER_MARK, Budget, Error, Limits};
use std::borrow::Cow;
use std::ops::Range;

/// Reads a text that is one JSON document.
pub fn read_json(text: &str, limits: &Limits) -> Result<Node, Error> {
    let mut reader = Reader::new(text, limits, false)?;
    reader.skip_space();
    let node = reader.document()?;
    reader.skip_space();
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.unexpected("the end of the document")),
    }
}

/// Reads a text of any number of JSON documents, with comments: lines that begin with `//`.
pub fn read_json_stream(text: &str, limits: &Limits) -> Result<Vec<Node>, Error> {
    let mut reader = Reader::new(text, limits, true)?;
    let mut out = Vec::new();
    reader.skip_space();
    while reader.peek().is_some() {
        out.push(reader.document()?);
        reader.skip_space();
    }
    Ok(out)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    has_comments: bool,
    budget: Budget,
}

/// A collection whose end is not read yet.
struct OpenCollection {
    start: usize,
    collection: Collection,
}

enum Collection {
    Array(Vec<Node>),
    /// With the key of the value that is read.
    Object(Members, Option<Node>),
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, limits: &Limits, has_comments: bool) -> Result<Self, Error> {
        limits.check_size(text)?;
        let at = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
        Ok(Self { text, at, has_comments, budget: Budget::new(limits) })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn remainder(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn skip_space(&mut self) {
        loop {
            let is_line_start = || {
                let line = self.text.get(..self.at).unwrap_or_default();
                line.bytes().rev().take_while(|byte| *byte != b'\n').all(|byte| byte.is_ascii_whitespace())
            };
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(b'/') if self.has_comments && self.remainder().starts_with("//") && is_line_start() => {
                    self.at += self.remainder().find('\n').unwrap_or(self.remainder().len());
                }
                _ => return,
            }
        }
    }

    /// Returns an error at the next character.
    fn unexpected(&self, expected: &str) -> Error {
        match self.remainder().chars().next() {
            Some(found) => {
                let shown = found.escape_debug();
                Error::new(
                    self.at..self.at + found.len_utf8(),
                    format!("expected {expected}, found `{shown}`"),
                )
            }
            None => Error::new(self.at..self.at, format!("expected {expected}, found the end of the text")),
        }
    }

    /// Reads a document, at whose first character the reader is.
    fn document(&mut self) -> Result<Node, Error> {
        let mut open: Vec<OpenCollection> = Vec::new();
        loop {
            // At a value.
            let start = self.at;
            let mut node = match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    if open.len() == self.budget.limits.depth {
                        return Err(self.budget.limits.too_deep(start..start + 1));
                    }
                    self.at += 1;
                    self.skip_space();
                    let close = if bracket == b'{' { b'}' } else { b']' };
                    let is_empty = self.eat(close);
                    let collection = match bracket {
                        b'{' if is_empty => Collection::Object(Members::default(), None),
                        b'{' => Collection::Object(Members::default(), Some(self.key()?)),
                        _ => Collection::Array(Vec::new()),
                    };
                    open.push(OpenCollection { start, collection });
                    if !is_empty {
                        continue;
                    }
                    self.close(&mut open)?
                }
                _ => Some(self.scalar()?),
            };
            // After a value: collections end, or the next value begins.
            while let Some(value) = node.take() {
                let Some(parent) = open.last_mut() else { return Ok(value) };
                match &mut parent.collection {
                    Collection::Array(items) => items.push(value),
                    Collection::Object(members, key) => {
                        if let Some(key) = key.take() {
                            members.insert(key, value, true)?;
                        }
                    }
                }
                let is_array = matches!(parent.collection, Collection::Array(_));
                self.skip_space();
                if self.eat(b',') {
                    self.skip_space();
                    if !is_array {
                        let key = self.key()?;
                        if let Some(OpenCollection { collection: Collection::Object(_, next), .. }) =
                            open.last_mut()
                        {
                            *next = Some(key);
                        }
                    }
                } else if self.eat(if is_array { b']' } else { b'}' }) {
                    node = self.close(&mut open)?;
                } else {
                    return Err(self.unexpected(if is_array { "`,` or `]`" } else { "`,` or `}`" }));
                }
            }
        }
    }

    /// Ends the innermost collection, whose bracket has been read.
    fn close(&mut self, open: &mut Vec<OpenCollection>) -> Result<Option<Node>, Error> {
        let Some(OpenCollection { start, collection }) = open.pop() else { return Ok(None) };
        let value = match collection {
            Collection::Array(items) => Value::Sequence(items),
            Collection::Object(members, _) => members.into_value(),
        };
        counted(start..self.at, value, &mut self.budget).map(Some)
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Result<Node, Error> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a key between double quotes"));
        }
        let key = self.scalar()?;
        self.skip_space();
        if !self.eat(b':') {
            return Err(self.unexpected("`:`"));
        }
        self.skip_space();
        Ok(key)
    }

    fn scalar(&mut self) -> Result<Node, Error> {
        const WORDS: [(&str, Value); 6] = [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("NaN", Value::Float(f64::NAN)),
            ("Infinity", Value::Float(f64::INFINITY)),
            ("-Infinity", Value::Float(f64::NEG_INFINITY)),
        ];
        let start = self.at;
        if self.peek() == Some(b'"') {
            let text = self.string()?;
            return counted(start..self.at, Value::Text(text.into()), &mut self.budget);
        }
        if let Some((word, value)) = WORDS.into_iter().find(|(word, _)| self.remainder().starts_with(word)) {
            self.at += word.len();
            return counted(start..self.at, value, &mut self.budget);
        }
        let Some((len, is_integer)) = number_len(self.remainder()) else {
            return Err(self.unexpected("a value"));
        };
        self.at += len;
        let written = self.text.get(start..self.at).unwrap_or_default();
        let value = if is_integer { integer(written, 10) } else { written.parse().map(Value::Float).ok() };
        let value = value.ok_or_else(|| Error::new(start..self.at, "a number that cannot be read"))?;
        counted(start..self.at, value, &mut self.budget)
    }

    /// Reads a string, at whose first quote the reader is.
    fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        let open = self.at;
        self.at += 1;
        let mut out = Cow::Borrowed("");
        loop {
            let plain = self.remainder();
            let end = plain.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < 0x20);
            let part = plain.get(..end.unwrap_or(plain.len())).unwrap_or(plain);
            self.at += part.len();
            if out.is_empty() {
                out = Cow::Borrowed(part);
            } else {
                out.to_mut().push_str(part);
            }
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.to_mut().push(self.escape()?),
                Some(_) => {
                    let span = self.at..self.at + 1;
                    return Err(Error::new(
                        span,
                        "a control character in a string: expected an escape such as `\\n`",
                    ));
                }
                None => return Err(Error::new(open..open + 1, "a string without its closing quote")),
            }
        }
    }

    /// Reads an escape, at whose backslash the reader is.
    fn escape(&mut self) -> Result<char, Error> {
        let start = self.at;
        self.at += 1;
        let letter = self.peek();
        self.at += usize::from(letter.is_some_and(|letter| letter.is_ascii()));
        Ok(match letter {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let unit = self.hexadecimal(start)?;
                let is_high = (0xd800..0xdc00).contains(&unit);
                let low = if is_high && self.remainder().starts_with("\\u") {
                    self.at += 2;
                    Some(self.hexadecimal(start)?)
                } else {
                    None
                };
                let decoded = char::decode_utf16(std::iter::once(unit).chain(low)).next();
                decoded.and_then(Result::ok).ok_or_else(|| {
                    Error::new(start..self.at, "half of a surrogate pair, which is no character")
                })?
            }
            _ => return Err(Error::new(start..self.at, "an escape that JSON does not have")),
        })
    }

    fn hexadecimal(&mut self, escape: usize) -> Result<u16, Error> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let span: Range<usize> = escape..self.at;
        let unit = unit.ok_or_else(|| Error::new(span, "expected four hexadecimal digits after `\\u`"))?;
        self.at += 4;
        Ok(unit)
    }
}

/// Returns the length of the number at the start of a text, and whether it is an integer.
fn number_len(text: &str) -> Option<(usize, bool)> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let sign = usize::from(bytes.first() == Some(&b'-'));
    let mut end = match bytes.get(sign)? {
        b'0' => sign + 1,
        b'1'..=b'9' => sign + digits(sign),
        _ => return None,
    };
    let whole = end;
    if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if digits(signed) > 0 {
            end = signed + digits(signed);
        }
    }
    Some((end, end == whole))
}
