//! Manifests as text: reading, formatting and editing KDL.
//!
//! In: text. Out: a KDL document whose spans count in that text, problems, or new text. The letters and the
//! tree are read by our own reader, because the `kdl` crate gives nothing for a file with a mistake in it;
//! tests hold the two equal on sound text. Knows no node of a job.

mod braces;
pub mod edit;
pub mod format;
mod lex;
mod literal;
pub mod recover;
mod tree;
