//! The language server of manifests: diagnostics, hover, completion, definitions, symbols, formatting and quick fixes.
//!
//! In: texts as the editor has them, and messages of the Language Server Protocol. Out: answers in the types of the
//! protocol. Compiles with a function of the caller, so that unsaved text takes precedence over the files. Does not read
//! files or streams.

mod completion;
mod cursor;
mod definition;
mod hover;
mod open_document;
mod positions;
mod problems;
mod server;
mod symbols;

pub use open_document::OpenDocument;
pub use positions::{Encoding, file_path};
pub use server::{Buffers, Compile, RequestError, Server, SummarizeOthers};
