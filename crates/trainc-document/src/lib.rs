//! Reader of documents that others wrote: YAML, JSON and TOML.
//!
//! In: a text. Out: its [`Node`]s, each with the bytes at which it is written, so that a problem can point at
//! a key or a value; or an [`Error`] with its place. Values are those that Python reads: YAML as PyYAML's
//! `safe_load` (YAML 1.1, where `1e-5` is text and `no` is false), JSON as `json.loads`, TOML as `tomllib`.
//! Reading takes time and memory in proportion to the text; [`Limits`] bound its size, its depth, and what
//! its aliases expand to. Independent of manifests and files.

mod json;
mod members;
mod node;
mod scalar;
mod toml_table;
mod yaml;

pub use json::{read_json, read_json_stream};
pub use node::{Entry, Node, Value};
pub use toml_table::read_toml;
pub use yaml::{read_yaml, read_yaml_stream};

use std::ops::Range;

/// Bounds on a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of the text in bytes.
    pub bytes: usize,
    /// Maximum depth of nested collections.
    pub depth: usize,
    /// Maximum number of keys and values, those of expanded aliases included.
    pub nodes: usize,
    /// Maximum size in bytes of all keys and values as text, those of expanded aliases included.
    pub expanded_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 16 << 20, depth: 128, nodes: 1_000_000, expanded_bytes: 64 << 20 }
    }
}

impl Limits {
    fn check_size(&self, text: &str) -> Result<(), Error> {
        if text.len() <= self.bytes {
            return Ok(());
        }
        let message = format!("the document is larger than {} bytes", self.bytes);
        Err(Error::limit(0..0, message))
    }

    fn too_deep(&self, at: Range<usize>) -> Error {
        Error::limit(at, format!("the document is nested more than {} levels deep", self.depth))
    }
}

/// What is left of the [`Limits`] of the document that is read.
struct Budget {
    limits: Limits,
    nodes: usize,
    bytes: usize,
}

impl Budget {
    fn new(limits: &Limits) -> Self {
        Self { limits: *limits, nodes: limits.nodes, bytes: limits.expanded_bytes }
    }

    /// Counts a key or a value.
    fn count(&mut self, bytes: usize, at: &Range<usize>) -> Result<(), Error> {
        let Some(nodes) = self.nodes.checked_sub(1) else { return Err(self.count_exceeded(at.clone())) };
        let Some(bytes) = self.bytes.checked_sub(bytes) else {
            let message = format!("the document expands to more than {} bytes", self.limits.expanded_bytes);
            return Err(Error::limit(at.clone(), message));
        };
        (self.nodes, self.bytes) = (nodes, bytes);
        Ok(())
    }

    fn count_exceeded(&self, at: Range<usize>) -> Error {
        let message = format!("the document has more than {} keys and values", self.limits.nodes);
        Error::limit(at, message)
    }
}

/// Why a text is no document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The bytes of the text where the error was found.
    pub span: Range<usize>,
    /// What is wrong: a lowercase fragment.
    pub message: String,
    /// Whether the text exceeds one of the [`Limits`], whatever its format.
    pub is_limit: bool,
}

impl Error {
    fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), is_limit: false }
    }

    fn limit(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { is_limit: true, ..Self::new(span, message) }
    }
}

/// The byte order mark that some editors write at the start of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';
