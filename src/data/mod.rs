//! Training data: text in, packed tokens out.
//!
//! In: a tokenizer, a chat template, lines of text or JSON. Out: documents as tokens with their loss mask, then
//! sequences of one length in the form that the worker reads. It must not know files, threads or manifests: the
//! command line reads, writes and runs it in processes of its own, in parallel.

pub mod document;
pub mod fault;
pub mod message;
pub mod pack;
pub mod python;
pub mod record;
pub mod shard;
pub mod template;
mod template_functions;
pub mod vocabulary;

use trainc_diag::Code;

/// The codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    fault::CODES.to_vec()
}
