//! Text to [`ast`]: what the user wrote, with every node against the language's tables; and edits of the text.
//!
//! In: the text of one file. Out: [`ast::File`], as much of it as could be read, and problems; or new text.
//! The letters and the tree are read by our own reader, because the `kdl` crate gives nothing for a file with
//! a mistake in it; tests hold the two equal on sound text. Knows no defaults, no catalogue, no other file.

pub mod ast;
mod braces;
mod characters;
pub mod codes;
pub mod document;
pub mod edit;
mod fault;
mod fault_fixes;
mod fault_messages;
pub mod format;
mod lexer;
mod list_limit;
mod literal;
pub mod nodes;
mod property;
pub mod reader;
mod request;
pub mod required_values;
pub mod schema;
pub mod spec;
pub mod suggestions;
mod top_level;
mod tree;
mod unclosed_string;
pub mod units;
pub mod value;

pub use unclosed_string::trailing_properties;

use trainc_diag::source::SourceId;
use trainc_diag::{Code, Problems};

/// The codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    codes::ALL.to_vec()
}

/// Whether the language has a node of this name anywhere in a job.
pub fn is_node(name: &str) -> bool {
    !suggestions::parents_of(name).is_empty()
}

/// Whether the language has a node of this name that stands once where it stands.
pub fn is_unique_node(name: &str) -> bool {
    suggestions::parents_of(name).iter().any(|(_, spec)| spec.repeat == spec::Repeat::Once)
}

/// Reads one file; `None` when nothing at all could be read.
pub fn parse(source: SourceId, text: &str, problems: &mut Problems) -> Option<ast::File> {
    let other = top_level::written_as_json(text, source).or_else(|| top_level::written_as_toml(text, source));
    if let Some(other) = other {
        // No line of it is KDL.
        problems.push(other);
        return None;
    }
    let mut found = Problems::default();
    let document = document::parse(source, text, &mut found);
    if let Some(yaml) = document.as_ref().and_then(|document| top_level::written_as_yaml(document, source)) {
        // What is no KDL in it, and what a manifest would lack, follows from that.
        problems.push(yaml);
        return None;
    }
    problems.extend(found);
    let document = document?;
    let mut found = Problems::default();
    let file = top_level::file(&document, source, text, &mut found);
    top_level::cap(&mut found);
    problems.extend(found);
    Some(file)
}
