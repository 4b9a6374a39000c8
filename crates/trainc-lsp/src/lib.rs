//! What an editor asks of a manifest: its problems, what stands at a place, what may stand there, and edits.
//!
//! In: texts as the editor has them, and the messages of the Language Server Protocol. Out: answers in the types of
//! the protocol. Compiles through a function that the caller gives, so that unsaved text lies over the files. Reads
//! no file and no stream itself.

mod complete;
mod cursor;
mod define;
mod hover;
mod problems;
mod server;
mod symbols;
mod text;

pub use server::{Buffers, Compile, Fault, Opened, Server, SummarizeOthers};
pub use text::{Encoding, file_path};
