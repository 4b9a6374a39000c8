//! The keys and values of a document, each with its place.

use std::ops::Range;
use trainc_catalog::engine_files::{self, KeyKind, KeyRow, KeyTable};
use trainc_diag::source::{SourceId, Span};
use trainc_document::{Node, Value};
use trainc_ir::{FileSetting, FileValue, Scalar};

/// The keys of a document that one table describes.
pub struct Part {
    /// The table.
    pub table: &'static KeyTable,
    /// The keys, in the order of the document.
    pub settings: Vec<FileSetting>,
}

/// Returns the keys of a document, each with those of the maps around it. A key has the name that the table
/// gives it, whichever of its spellings is written. A map that another table describes is a part of its own,
/// after the one around it.
pub fn parts(table: &'static KeyTable, document: &Node, source: SourceId) -> Vec<Part> {
    let mut reader = Reader { source, done: Vec::new() };
    let whole = reader.part(table, document);
    let mut parts = vec![whole];
    parts.append(&mut reader.done);
    parts
}

struct Reader {
    source: SourceId,
    /// The parts inside the one that is read.
    done: Vec<Part>,
}

impl Reader {
    fn part(&mut self, table: &'static KeyTable, node: &Node) -> Part {
        let mut part = Part { table, settings: Vec::new() };
        self.map(&mut part, "", node);
        part
    }

    fn span(&self, range: &Range<usize>) -> Span {
        Span::new(self.source, range.start, range.end)
    }

    fn map(&mut self, part: &mut Part, prefix: &str, node: &Node) {
        for entry in node.entries() {
            let written = format!("{prefix}{}", entry.key.key_text());
            let row = part.table.find(&written);
            let key = row.map_or(written, |row| row.key.clone());
            let inside = row.and_then(|row| row.opens.as_deref()).and_then(engine_files::keys);
            let value = match &entry.value.value {
                Value::Mapping(_) => FileValue::Map,
                Value::Sequence(items) => FileValue::List(items.iter().filter_map(scalar).collect()),
                _ => {
                    let value = scalar(&entry.value).unwrap_or(Scalar::Null);
                    FileValue::Scalar(match row {
                        Some(row) => as_read(row, value),
                        None => value,
                    })
                }
            };
            let setting = FileSetting {
                key: key.clone(),
                value,
                key_span: self.span(&entry.key.span),
                value_span: self.span(&entry.value.span),
                replaced: entry.replaced.iter().map(|range| self.span(range)).collect(),
            };
            part.settings.push(setting);
            match inside {
                Some(table) if !entry.value.entries().is_empty() => {
                    let inner = self.part(table, &entry.value);
                    self.done.push(inner);
                }
                _ => self.map(part, &format!("{key}."), &entry.value),
            }
        }
    }
}

/// Returns a value as the program takes it: where it converts, the number in a text, and a float without a fraction
/// for a whole number. What it refuses stays as it is written.
fn as_read(row: &KeyRow, value: Scalar) -> Scalar {
    match (row.kind, &value) {
        (KeyKind::Int, Scalar::Float(x)) if row.loose && x.fract() == 0.0 => {
            format!("{x:.0}").parse().map_or(value, Scalar::Int)
        }
        (KeyKind::Int, Scalar::Text(text)) if row.loose => text.trim().parse().map_or(value, Scalar::Int),
        (KeyKind::Number, Scalar::Text(text)) if row.loose => {
            text.trim().parse().map_or(value, Scalar::Float)
        }
        _ => value,
    }
}

/// Returns a scalar; `None` for a list or a map.
fn scalar(node: &Node) -> Option<Scalar> {
    Some(match &node.value {
        Value::Null => Scalar::Null,
        Value::Bool(on) => Scalar::Bool(*on),
        Value::Integer(n) => Scalar::Int(*n),
        Value::Float(x) => Scalar::Float(*x),
        Value::BigInteger(text) | Value::Text(text) | Value::Timestamp(text) => {
            Scalar::Text(text.to_string())
        }
        Value::Sequence(_) | Value::Mapping(_) => return None,
    })
}
