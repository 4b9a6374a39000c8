//! The language server of manifests: diagnostics of all manifests of a workspace, quick fixes, hover, inlay
//! hints, code lenses, completion, definitions, symbols and formatting.
//!
//! In: texts as the editor has them, and messages of the Language Server Protocol. Out: answers in the types
//! of the protocol. Compiles with a function of the caller, so that unsaved text takes precedence over the
//! files. Does not read files or streams.

mod code_lens;
mod completion;
mod definition;
mod hover;
mod inlay_hints;
mod open_document;
mod positions;
mod prediction;
mod problems;
mod server;
mod symbols;
#[cfg(test)]
mod tests;
mod workspace;

pub use open_document::OpenDocument;
pub use positions::{Encoding, Folder, file_path};
pub use server::{Buffers, Changed, Client, Compile, FIRST_CLOSED_PART, RequestError, Server};
pub use workspace::{CheckedManifest, Compilation, Reads};
