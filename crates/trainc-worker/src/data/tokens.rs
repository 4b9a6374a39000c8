//! Packed token shards as written by `trainc data pack` (format: `crates/trainc-data/src/shard.rs`):
//! `index.json` and files of fixed-size records, read by position, never memory-mapped. The label of position
//! t is token t + 1.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::exit::{Code, Failure};
use crate::kernels::rows::IGNORED;

/// Token format that this binary reads.
pub const FORM: &str = "trainc.tokens/v1";

/// Bytes of a file's header.
const HEAD: usize = 64;

/// The members of `index.json` that the worker uses; others are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Format, `trainc.tokens/v1`.
    pub form: String,
    /// `u16` or `u32`, little-endian.
    pub dtype: String,
    /// Labels per sequence; a record stores one more token.
    pub sequence_length: usize,
    /// Sequences of all files.
    pub sequences: u64,
    /// Exclusive upper bound of the tokens.
    pub vocab_size: usize,
    /// Whether some labels are excluded from the loss.
    pub masked: bool,
    /// Files in order.
    pub files: Vec<Shard>,
}

/// One file of the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// File name, relative to `index.json`.
    pub name: String,
    /// Number of sequences.
    pub sequences: u64,
    /// SHA-256 of its bytes in hexadecimal.
    pub sha256: String,
}

/// The sequences of one pass, concatenated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Input tokens.
    pub inputs: Vec<u32>,
    /// For each position the next token, or [`IGNORED`].
    pub labels: Vec<u32>,
    /// For each position the start of its document in the sequence; empty unless documents are separated.
    pub begins: Vec<u32>,
}

impl Rows {
    /// Removes all sequences.
    pub fn clear(&mut self) {
        self.inputs.clear();
        self.labels.clear();
        self.begins.clear();
    }

    /// Returns the number of labels that count.
    pub fn count_labels(&self) -> usize {
        self.labels.iter().filter(|label| **label != IGNORED).count()
    }
}

/// Treatment of the documents within a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Documents {
    /// Treated as one text.
    Joined,
    /// Attention and positions restart with each document; the first token of a document is not a label.
    Apart,
}

impl Documents {
    /// Converts the config's `data.document_mask`.
    pub fn from_config(mask: bool) -> Self {
        if mask { Self::Apart } else { Self::Joined }
    }
}

/// An opened data set.
#[derive(Debug)]
pub struct Tokens {
    index: Index,
    files: Vec<(u64, File, String)>,
    digest: String,
    documents: Documents,
}

/// Formats bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Index {
    fn token_bytes(&self) -> usize {
        if self.dtype == "u16" { 2 } else { 4 }
    }

    fn record_bytes(&self) -> usize {
        let s = self.sequence_length;
        (s + 1) * self.token_bytes() + s.div_ceil(8) + (s + 1).div_ceil(8) + 4
    }

    fn file_header(&self, number: usize) -> Vec<u8> {
        let mut out = FORM.as_bytes().to_vec();
        for value in [self.token_bytes(), self.sequence_length, self.record_bytes(), number] {
            out.extend((value as u32).to_le_bytes());
        }
        out.resize(HEAD - 4, 0);
        out.extend(crc32fast::hash(&out).to_le_bytes());
        out
    }

    /// Returns the first mismatch between the index and the model.
    fn find_mismatch(&self, sequence_length: usize, vocab: usize) -> Option<String> {
        if self.form != FORM {
            return Some(format!("index.json: format `{}` is unsupported, expected `{FORM}`", self.form));
        }
        if self.dtype != "u16" && self.dtype != "u32" {
            return Some(format!("index.json: dtype `{}` is neither `u16` nor `u32`", self.dtype));
        }
        if self.sequence_length != sequence_length {
            return Some(format!(
                "sequences of {} tokens, but `model.sequence_length` is {sequence_length}",
                self.sequence_length
            ));
        }
        if self.vocab_size > vocab {
            return Some(format!(
                "a vocabulary of {} tokens, but `model.vocab_size` is {vocab}",
                self.vocab_size
            ));
        }
        // Far above real data, and no product of these sizes overflows.
        let most = 1 << 40;
        let sum = self.files.iter().fold(0u64, |sum, f| sum.saturating_add(f.sequences));
        if self.sequences == 0 || sum != self.sequences || sum > most {
            return Some(format!("index.json: {} sequences, but its files have {sum}", self.sequences));
        }
        None
    }
}

impl Tokens {
    /// Opens a directory and checks that it fits the model.
    pub fn open(
        directory: &Path,
        sequence_length: usize,
        vocab: usize,
        documents: Documents,
    ) -> Result<Self, Failure> {
        let fail =
            |message: String| Failure::new(Code::Data, format!("data {}: {message}", directory.display()));
        let text = fs::read(directory.join("index.json")).map_err(|e| fail(format!("index.json: {e}")))?;
        let index: Index = serde_json::from_slice(&text).map_err(|e| fail(format!("index.json: {e}")))?;
        if let Some(fault) = index.find_mismatch(sequence_length, vocab) {
            return Err(fail(fault));
        }
        let mut files = Vec::new();
        let mut first = 0;
        for (number, shard) in index.files.iter().enumerate() {
            let name = &shard.name;
            if Path::new(name).components().count() != 1 || name.starts_with('.') {
                return Err(fail(format!(
                    "index.json: `{name}` is not the name of a file in this directory"
                )));
            }
            let file = File::open(directory.join(name)).map_err(|e| fail(format!("{name}: {e}")))?;
            let found = file.metadata().map_err(|e| fail(format!("{name}: {e}")))?.len();
            let expected = HEAD as u64 + shard.sequences * index.record_bytes() as u64;
            if found != expected {
                return Err(fail(format!(
                    "{name} has {found} bytes, but {} sequences require {expected}: it was \
                        truncated or modified after packing",
                    shard.sequences
                )));
            }
            let mut head = [0u8; HEAD];
            file.read_exact_at(&mut head, 0).map_err(|e| fail(format!("{name}: {e}")))?;
            if head[..] != index.file_header(number) {
                return Err(fail(format!("{name}: its header does not match file {number} of the index")));
            }
            files.push((first, file, format!("{}/{name}", directory.display())));
            first += shard.sequences;
        }
        Ok(Self { index, files, digest: hex(&Sha256::digest(&text)), documents })
    }

    /// Returns the number of sequences.
    pub fn sequences(&self) -> u64 {
        self.index.sequences
    }

    /// SHA-256 of `index.json`, which contains the digests of the files.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns whether no label is excluded, so that a step's label count follows from its size.
    pub fn has_no_excluded_labels(&self) -> bool {
        !self.index.masked && self.documents == Documents::Joined
    }

    /// Reads every file and verifies its digest.
    pub fn verify(&mut self) -> Result<(), Failure> {
        for ((_, file, name), shard) in self.files.iter_mut().zip(&self.index.files) {
            let fail = |what: String| Failure::new(Code::Data, format!("data {name}: {what}"));
            let mut hash = Sha256::new();
            let mut buffer = vec![0u8; 1 << 20];
            loop {
                let n = file.read(&mut buffer).map_err(|e| fail(e.to_string()))?;
                if n == 0 {
                    break;
                }
                hash.update(&buffer[..n]);
            }
            let found = hex(&hash.finalize());
            if found != shard.sha256 {
                return Err(fail(format!("sha256 {found}, expected {}", shard.sha256)));
            }
        }
        Ok(())
    }

    /// Appends one sequence to `rows`.
    pub fn read(&self, sequence: u64, rows: &mut Rows) -> Result<(), Failure> {
        let slot = self.files.partition_point(|(first, _, _)| *first <= sequence).saturating_sub(1);
        let (first, file, name) = &self.files[slot];
        let fail = |what: String| {
            Failure::new(Code::Data, format!("data {name}: sequence {sequence} cannot be read: {what}"))
        };
        let (index, s) = (&self.index, self.index.sequence_length);
        let bytes = index.record_bytes();
        let mut record = vec![0u8; bytes];
        file.read_exact_at(&mut record, HEAD as u64 + (sequence - first) * bytes as u64).map_err(
            |error| {
                fail(if error.kind() == std::io::ErrorKind::UnexpectedEof {
                    "the file was truncated after the run began".to_owned()
                } else {
                    error.to_string()
                })
            },
        )?;
        let (body, sum) = record.split_at(bytes - 4);
        if crc32fast::hash(body).to_le_bytes() != sum {
            return Err(fail("checksum mismatch: the file was modified or damaged".to_owned()));
        }
        let (tokens, bits) = body.split_at((s + 1) * index.token_bytes());
        let (trained, starts) = bits.split_at(s.div_ceil(8));
        let tokens: Vec<u32> = match index.token_bytes() {
            2 => tokens.chunks_exact(2).map(|b| u32::from(u16::from_le_bytes([b[0], b[1]]))).collect(),
            _ => tokens.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        };
        if let Some(token) = tokens.iter().find(|t| **t as usize >= index.vocab_size) {
            return Err(fail(format!(
                "token {token} is outside the vocabulary of {} tokens",
                index.vocab_size
            )));
        }
        let bit = |bits: &[u8], at: usize| bits[at / 8] >> (at % 8) & 1 == 1;
        let apart = self.documents == Documents::Apart;
        rows.inputs.extend(&tokens[..s]);
        rows.labels.extend((0..s).map(|t| {
            let other = apart && bit(starts, t + 1);
            if bit(trained, t) && !other { tokens[t + 1] } else { IGNORED }
        }));
        if apart {
            let mut begin = 0;
            rows.begins.extend((0..s).map(|t| {
                if bit(starts, t) {
                    begin = t as u32;
                }
                begin
            }));
        }
        Ok(())
    }
}

/// Writes sequences of `sequence_length + 1` tokens as shards of at most `per_file` sequences without
/// excluded labels.
pub fn write(
    directory: &Path,
    sequence_length: usize,
    vocab: usize,
    tokens: &[u32],
    per_file: usize,
) -> std::io::Result<()> {
    write_masked(directory, sequence_length, vocab, tokens, per_file, &|_| true, &|_| false)
}

/// Like [`write`], with the positions in `tokens` that are trained on and that start a document.
pub fn write_masked(
    directory: &Path,
    sequence_length: usize,
    vocab: usize,
    tokens: &[u32],
    per_file: usize,
    trained: &dyn Fn(usize) -> bool,
    begins: &dyn Fn(usize) -> bool,
) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    let dtype = if vocab <= 1 << 16 { "u16" } else { "u32" }.to_owned();
    let mut index = Index {
        form: FORM.to_owned(),
        dtype,
        sequence_length,
        sequences: 0,
        vocab_size: vocab,
        masked: false,
        files: Vec::new(),
    };
    let (width, full) = (index.token_bytes(), sequence_length + 1);
    let sequences: Vec<usize> = (0..tokens.len() / full).map(|i| i * full).collect();
    for (number, chunk) in sequences.chunks(per_file).enumerate() {
        let mut bytes = index.file_header(number);
        for start in chunk {
            let from = bytes.len();
            for token in &tokens[*start..start + full] {
                bytes.extend(&token.to_le_bytes()[..width]);
            }
            let learnt: Vec<bool> = (1..full).map(|t| trained(start + t)).collect();
            let heads: Vec<bool> = (0..full).map(|t| begins(start + t)).collect();
            index.masked |= learnt.iter().any(|t| !t);
            for flags in [&learnt, &heads] {
                bytes.extend(flags.chunks(8).map(|byte| {
                    byte.iter().enumerate().fold(0u8, |sum, (at, flag)| sum | u8::from(*flag) << at)
                }));
            }
            bytes.extend(crc32fast::hash(&bytes[from..]).to_le_bytes());
        }
        let name = format!("tokens-{number:05}.bin");
        File::create(directory.join(&name))?.write_all(&bytes)?;
        let count = chunk.len() as u64;
        index.sequences += count;
        index.files.push(Shard { name, sequences: count, sha256: hex(&Sha256::digest(&bytes)) });
    }
    let text = serde_json::to_string_pretty(&index)?;
    fs::write(directory.join("index.json"), text + "\n")
}
