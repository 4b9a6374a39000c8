//! Text to [`ast`]: what the user wrote, with every node against the language's tables; and edits of the text.
//!
//! In: the text of one file. Out: [`ast::File`], as much of it as could be read, and problems; or new text.
//! The letters and the tree are read by our own reader, because the `kdl` crate gives nothing for a file with
//! a mistake in it; tests hold the two equal on sound text. Knows no defaults, no catalogue, no other file.

pub mod ast;
mod braces;
pub mod edit;
pub mod format;
mod lex;
mod literal;
mod meant;
pub mod nodes;
pub mod read;
pub mod recover;
pub mod schema;
pub mod spec;
mod tree;
pub mod units;
pub(crate) mod value;

use crate::diag::{Code, Problems};
use crate::source::SourceId;

/// The codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    [recover::CODES.to_vec(), read::CODES.to_vec()].concat()
}

/// Reads one file; `None` when nothing at all could be read.
pub fn parse(source: SourceId, text: &str, problems: &mut Problems) -> Option<ast::File> {
    let document = recover::parse(source, text, problems)?;
    let mut found = Problems::default();
    let file = read::file(&document, source, text, &mut found);
    read::cap(&mut found);
    problems.extend(found);
    Some(file)
}
