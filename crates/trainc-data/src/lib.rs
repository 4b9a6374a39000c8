//! Training data: text in, packed tokens out.
//!
//! In: a tokenizer, a chat template, files with lines of text or JSON. Out: documents as tokens with their
//! loss mask, then sequences of one length in the form that the worker reads. Tokenizers, templates and
//! documents are read in processes of their own ([`reading_process`]), in parallel; [`packing`] has the
//! files. The other modules touch neither.

pub mod document;
mod document_reader;
pub mod fault;
#[expect(clippy::disallowed_methods, reason = "starts the processes that read")]
mod fence;
pub mod message;
pub mod pack;
#[expect(clippy::disallowed_methods, reason = "reads the files of the user")]
pub mod packing;
pub mod python;
pub mod reading_process;
pub mod record;
pub mod shard;
#[expect(clippy::disallowed_methods, reason = "writes the output directory")]
mod shard_writer;
mod splits;
pub mod template;
mod template_functions;
pub mod vocabulary;

use trainc_diag::Code;

/// Returns the codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    fault::CODES.to_vec()
}
