//! Text to [`ast`]: what the user wrote, with every node against the language's tables.
//!
//! In: the text of one file. Out: [`ast::File`], as much of it as could be read, and problems. Knows no
//! defaults, no catalogue, no other file.

pub mod ast;
pub mod nodes;
pub mod read;
pub mod spec;
pub mod units;

use crate::diag::{Code, Problems};
use crate::source::SourceId;

/// The codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    read::CODES.to_vec()
}

/// Reads one file; `None` when nothing at all could be read.
pub fn parse(source: SourceId, text: &str, problems: &mut Problems) -> Option<ast::File> {
    let _ = problems.is_empty();
    let document: kdl::KdlDocument = kdl::KdlDocument::parse(text).ok()?;
    Some(read::file(&document, source, text, problems))
}
