//! Embedded TOML tables with `["key"]` rows. A row is found and parsed without parsing the other rows.
//!
//! The data use a subset of TOML that can be scanned: each header on a separate line, each value on one line,
//! no sub-tables.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::de::DeserializeOwned;

/// An embedded table. Its index and its parsed rows are kept for the life of the process.
#[derive(Debug)]
pub(crate) struct Table {
    /// File name, for tests and messages.
    pub(crate) name: &'static str,
    /// The whole text.
    pub(crate) text: &'static str,
    index: OnceLock<Index>,
}

impl Table {
    /// Creates a table from an embedded text.
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text, index: OnceLock::new() }
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::new(self.text))
    }

    fn find(&self, key: &str) -> Option<&Row> {
        let index = self.index();
        index.rows.get(*index.by_key.get(key)?)
    }

    /// Returns the key of a row.
    pub(crate) fn key(&self, key: &str) -> Option<&'static str> {
        self.find(key).map(|row| row.key)
    }

    /// Returns the lines of a row, without its header.
    pub(crate) fn row_text(&self, key: &str) -> Option<&'static str> {
        self.find(key).map(|row| row.text)
    }

    /// Returns a row, parsed once per process for each type. A row of another type counts as absent; a test
    /// parses every row of every table.
    pub(crate) fn row<T: DeserializeOwned + Send + Sync + 'static>(&self, key: &str) -> Option<&'static T> {
        self.find(key)?.parsed()
    }

    /// Returns all rows of a type with their keys, in the order of the file.
    pub(crate) fn rows<T: DeserializeOwned + Send + Sync + 'static>(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'static T)> {
        self.index().rows.iter().filter_map(|row| Some((row.key, row.parsed()?)))
    }

    /// Returns all keys in the order of the file.
    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &'static str> {
        self.index().rows.iter().map(|row| row.key)
    }

    /// Returns the keys that begin with `prefix`.
    pub(crate) fn keys_under(&self, prefix: &str) -> impl DoubleEndedIterator<Item = &'static str> {
        self.keys().filter(move |key| key.starts_with(prefix))
    }
}

/// The rows of a table.
#[derive(Debug)]
struct Index {
    /// In the order of the file.
    rows: Vec<Row>,
    by_key: BTreeMap<&'static str, usize>,
}

impl Index {
    fn new(text: &'static str) -> Self {
        let starts: Vec<usize> = memchr::memmem::find_iter(text.as_bytes(), "\n[\"").collect();
        // The line break before the next header belongs to the row.
        let ends = starts.iter().skip(1).map(|start| start + 1).chain([text.len()]);
        let row = |(start, end): (&usize, usize)| {
            let (key, text) = text.get(start + 3..end)?.split_once("\"]\n")?;
            Some(Row { key, text, parsed: Mutex::default() })
        };
        let rows: Vec<Row> = starts.iter().zip(ends).filter_map(row).collect();
        let by_key = rows.iter().enumerate().rev().map(|(at, row)| (row.key, at)).collect();
        Self { rows, by_key }
    }
}

#[derive(Debug)]
struct Row {
    key: &'static str,
    /// Its lines.
    text: &'static str,
    /// An `Option` for each type that was asked for, `None` if the row is of another.
    parsed: Mutex<Vec<&'static (dyn Any + Send + Sync)>>,
}

impl Row {
    fn parsed<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Option<&'static T> {
        let mut all = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find_map(|one| one.downcast_ref::<Option<T>>()) {
            return known.as_ref();
        }
        let new: &'static Option<T> = Box::leak(Box::new(toml::from_str(self.text).ok()));
        all.push(new);
        new.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TABLES;
    use trainc_ir::hardware::Provenance;

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
                let row: Provenance =
                    table.row(key).cloned().unwrap_or_else(|| panic!("{} {key}", table.name));
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
