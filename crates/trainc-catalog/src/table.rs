//! Embedded TOML tables with `["key"]` rows. A row is found and parsed without parsing the other rows.
//!
//! The data use a subset of TOML that can be scanned: each header on a separate line, each value on one line,
//! no sub-tables.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::memo::Memo;
use trainc_ir::hardware::Provenance;

/// An embedded table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    /// File name, for tests and messages.
    pub(crate) name: &'static str,
    /// The whole text.
    pub(crate) text: &'static str,
}

impl Table {
    /// Creates a table from an embedded text.
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text }
    }

    /// Returns the lines of a row, without its header.
    pub(crate) fn row_text(self, key: &str) -> Option<&'static str> {
        let index = self.index();
        index.rows.get(*index.by_key.get(key)?).map(|(_, text)| *text)
    }

    /// Returns where the rows are, found once per process: a table has up to a thousand, and rules ask for
    /// many.
    fn index(self) -> &'static Index {
        static INDICES: Memo<usize, &'static Index> = Memo::new();
        // Tables never share a text, so its address identifies the table.
        INDICES.get(self.text.as_ptr().addr(), |_| Box::leak(Box::new(Index::new(self.text))))
    }

    /// Returns a row, parsed once per process. A row of another type counts as absent; a test parses every
    /// row of every table.
    pub(crate) fn row<T: DeserializeOwned + Clone + Send + Sync + 'static>(self, key: &str) -> Option<T> {
        static ROWS: Memo<(usize, TypeId, String), Option<Arc<dyn Any + Send + Sync>>> = Memo::new();
        let question = (self.text.as_ptr().addr(), TypeId::of::<T>(), key.to_owned());
        let row = ROWS.get(question, |_| {
            let row: T = toml::from_str(self.row_text(key)?).ok()?;
            Some(Arc::new(row))
        });
        row?.downcast_ref::<T>().cloned()
    }

    /// Returns all keys in the order of the file.
    pub(crate) fn keys(self) -> impl Iterator<Item = &'static str> {
        self.index().rows.iter().map(|(key, _)| *key)
    }

    /// Returns the keys that begin with `prefix`.
    pub(crate) fn keys_under(self, prefix: &str) -> impl Iterator<Item = &'static str> {
        self.keys().filter(move |key| key.starts_with(prefix))
    }
}

/// The rows of a table.
#[derive(Debug)]
struct Index {
    /// Keys and lines, in the order of the file.
    rows: Vec<(&'static str, &'static str)>,
    by_key: BTreeMap<&'static str, usize>,
}

impl Index {
    fn new(text: &'static str) -> Self {
        let starts: Vec<usize> = memchr::memmem::find_iter(text.as_bytes(), "\n[\"").collect();
        // The line break before the next header belongs to the row.
        let ends = starts.iter().skip(1).map(|start| start + 1).chain([text.len()]);
        let row = |(start, end): (&usize, usize)| text.get(start + 3..end)?.split_once("\"]\n");
        let rows: Vec<(&str, &str)> = starts.iter().zip(ends).filter_map(row).collect();
        let by_key = rows.iter().enumerate().rev().map(|(at, (key, _))| (*key, at)).collect();
        Self { rows, by_key }
    }
}

/// The columns of every row.
#[derive(Debug, Clone, serde::Deserialize)]
pub(crate) struct Sourced {
    source: String,
    date: String,
}

impl From<Sourced> for Provenance {
    fn from(row: Sourced) -> Self {
        Self { source: row.source, date: row.date }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TABLES;

    #[test]
    fn slices_equal_a_full_parse() {
        for table in TABLES {
            let whole: toml::Table = toml::from_str(table.text).unwrap();
            let keys: Vec<&str> = table.keys().collect();
            assert_eq!(keys.len(), whole.len(), "{}", table.name);
            for key in keys {
                let sliced: toml::Table = toml::from_str(table.row_text(key).unwrap()).unwrap();
                assert_eq!(Some(&toml::Value::Table(sliced)), whole.get(key), "{} {key}", table.name);
            }
        }
    }

    #[test]
    fn every_row_has_source_and_date() {
        for table in TABLES {
            for key in table.keys() {
                let row: Sourced = table.row(key).unwrap_or_else(|| panic!("{} {key}", table.name));
                assert!(!row.source.is_empty(), "{} {key}", table.name);
                let digits: Vec<usize> = row.date.split('-').map(str::len).collect();
                assert_eq!(digits, [4, 2, 2], "{} {key}: {}", table.name, row.date);
                assert!(row.date.bytes().all(|b| b.is_ascii_digit() || b == b'-'), "{} {key}", table.name);
                assert!(row.date.as_str() <= crate::VERSION, "{} {key}", table.name);
            }
        }
    }

    #[test]
    fn a_key_that_is_absent_or_odd_is_not_found() {
        let table = Table::new("t", "# head\n\n[\"a\"]\nx = 1\n\n[\"a.b\"]\nx = 2\n");
        assert_eq!(table.row_text("a"), Some("x = 1\n\n"));
        assert_eq!(table.row_text("a.b"), Some("x = 2\n"));
        for odd in ["", "b", "a\"]", "x = 1", "a\n"] {
            assert_eq!(table.row_text(odd), None, "{odd:?}");
        }
    }
}
