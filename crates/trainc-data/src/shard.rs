//! The form of packed tokens that the worker reads, `trainc.tokens/v1`. The worker has its own reader of it
//! (`crates/trainc-worker/src/data/tokens.rs`); a test there reads what this writes.
//!
//! A directory holds `index.json` and files. A file is a head of 64 bytes and records of one size, so that
//! the place of a sequence is arithmetic and one read. Numbers are little-endian.
//!
//! ```text
//! head     0..16  "trainc.tokens/v1"
//!         16..20  bytes of a token, 2 or 4
//!         20..24  sequence length s
//!         24..28  bytes of a record
//!         28..32  number of the file, from 0
//!         32..60  0
//!         60..64  CRC-32 of the 60 bytes before
//! record   s + 1 tokens; the label of position t is token t + 1
//!          ceil(s / 8) bytes: bit t (lowest first) says that label t is trained on
//!          ceil((s + 1) / 8) bytes: bit t says that token t begins a document
//!          CRC-32 of the record before it
//! ```
//!
//! Sequence i holds the tokens i * s to i * s + s of the whole stream: each but the first is a label once.

use serde::Serialize;

/// The form.
pub const FORM: &str = "trainc.tokens/v1";

/// Bytes of a file's head.
pub const HEAD: usize = 64;

/// Sizes of a set of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a token.
    pub width: usize,
    /// Labels of a sequence.
    pub sequence_length: usize,
}

impl Layout {
    /// The narrowest that holds a vocabulary.
    pub fn new(sequence_length: usize, vocab_size: usize) -> Self {
        Self { width: if vocab_size <= 1 << 16 { 2 } else { 4 }, sequence_length }
    }

    /// `u16` or `u32`.
    pub fn dtype(&self) -> &'static str {
        if self.width == 2 { "u16" } else { "u32" }
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> usize {
        let s = self.sequence_length;
        (s + 1) * self.width + s.div_ceil(8) + (s + 1).div_ceil(8) + 4
    }

    /// The head of file `number`.
    pub fn file_header(&self, number: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD);
        out.extend(FORM.bytes());
        for value in [self.width, self.sequence_length, self.record_bytes()] {
            out.extend(u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
        }
        out.extend(number.to_le_bytes());
        out.resize(HEAD - 4, 0);
        out.extend(crc32fast::hash(&out).to_le_bytes());
        out
    }

    /// Appends the record of one sequence: s + 1 tokens, with which of them are trained on and which begin a
    /// document.
    pub fn record(&self, ids: &[u32], trained: &[bool], begins: &[bool], out: &mut Vec<u8>) {
        let start = out.len();
        for id in ids {
            let bytes = id.to_le_bytes();
            out.extend(bytes.iter().take(self.width));
        }
        bits(trained.iter().skip(1), out);
        bits(begins.iter(), out);
        let sum = crc32fast::hash(out.get(start..).unwrap_or_default());
        out.extend(sum.to_le_bytes());
    }
}

fn bits<'a>(flags: impl Iterator<Item = &'a bool>, out: &mut Vec<u8>) {
    let (mut byte, mut count) = (0_u8, 0_u32);
    for flag in flags {
        byte |= u8::from(*flag) << (count % 8);
        count += 1;
        if count.is_multiple_of(8) {
            out.push(byte);
            byte = 0;
        }
    }
    if !count.is_multiple_of(8) {
        out.push(byte);
    }
}

/// `index.json`: counts, and the digest of each file. Readers ignore what they do not know.
#[derive(Clone, Debug, Serialize)]
pub struct Index {
    /// `trainc.tokens/v1`.
    pub form: &'static str,
    /// `u16` or `u32`.
    pub dtype: &'static str,
    /// Labels of a sequence.
    pub sequence_length: usize,
    /// Sequences of all files.
    pub sequences: u64,
    /// Tokens below this.
    pub vocab_size: usize,
    /// Some label is not trained on.
    pub masked: bool,
    /// Documents of the input.
    pub documents: u64,
    /// Tokens of all documents, their ends included.
    pub tokens: u64,
    /// Labels that are trained on.
    pub trained_labels: u64,
    /// Tokens at the end that did not fill a sequence.
    pub dropped_tokens: u64,
    /// The token that ends a document.
    pub eos: Token,
    /// `answers` or `all`.
    pub train_on: &'static str,
    /// Of the order of documents; null: that of the input.
    pub seed: Option<u64>,
    /// sha256 of the tokenizer's file, hexadecimal.
    pub tokenizer: String,
    /// sha256 of the template; null: none.
    pub template: Option<String>,
    /// What was read, in order.
    pub inputs: Vec<Input>,
    /// What was written, in order.
    pub files: Vec<File>,
    /// sha256 over the digests of the files.
    pub digest: String,
    /// Which part of the documents it holds; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
}

/// One of two parts of the documents.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Split {
    /// `train` or `validation`.
    pub part: &'static str,
    /// The share that is held out to evaluate on; null: the files named for it.
    pub fraction: Option<f64>,
    /// Of the choice; null where files are named.
    pub seed: Option<u64>,
}

/// A token by its text and number.
#[derive(Clone, Debug, Serialize)]
pub struct Token {
    /// Its text.
    pub token: String,
    /// Its number.
    pub id: u32,
}

/// A file that was read.
#[derive(Clone, Debug, Serialize)]
pub struct Input {
    /// Its name, without directories.
    pub name: String,
    /// Its size, in bytes.
    pub bytes: u64,
    /// Documents in it.
    pub documents: u64,
    /// sha256 of its bytes, hexadecimal.
    pub sha256: String,
}

/// A file that was written.
#[derive(Clone, Debug, Serialize)]
pub struct File {
    /// Its name beside the index.
    pub name: String,
    /// Its sequences.
    pub sequences: u64,
    /// sha256 of its bytes, hexadecimal.
    pub sha256: String,
}
