//! Packed token shards: `index.json` and files of fixed-length sequences. A sequence holds sequence_length + 1 tokens:
//! the label of position t is token t + 1.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::exit::{Code, Failure};

/// The form that this binary reads.
pub const FORM: &str = "trainc.tokens/v1";

/// `index.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// `trainc.tokens/v1`.
    pub form: String,
    /// `u16` or `u32`, little-endian.
    pub dtype: String,
    /// Labels of a sequence; it stores one token more.
    pub sequence_length: usize,
    /// Sequences of all files.
    pub sequences: u64,
    /// Tokens below this.
    pub vocab_size: usize,
    /// In order.
    pub files: Vec<Shard>,
}

/// One file of the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Name beside `index.json`.
    pub name: String,
    /// Its sequences.
    pub sequences: u64,
    /// sha256 of its bytes, hexadecimal.
    pub sha256: String,
}

/// An open set of shards.
#[derive(Debug)]
pub struct Tokens {
    index: Index,
    files: Vec<(u64, File, String)>,
    digest: String,
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Tokens {
    /// Opens a directory and checks it against what the model takes.
    pub fn open(directory: &Path, sequence_length: usize, vocab: usize) -> Result<Self, Failure> {
        let fail =
            |message: String| Failure::new(Code::Data, format!("data {}: {message}", directory.display()));
        let text = fs::read(directory.join("index.json")).map_err(|e| fail(format!("index.json: {e}")))?;
        let index: Index = serde_json::from_slice(&text).map_err(|e| fail(format!("index.json: {e}")))?;
        if index.form != FORM {
            return Err(fail(format!("index.json: form `{}` is not `{FORM}`", index.form)));
        }
        if index.dtype != "u16" && index.dtype != "u32" {
            return Err(fail(format!("index.json: dtype `{}` is neither `u16` nor `u32`", index.dtype)));
        }
        if index.sequence_length != sequence_length {
            return Err(fail(format!(
                "sequences of {} tokens, and the config's `model.sequence_length` is {sequence_length}",
                index.sequence_length
            )));
        }
        if index.vocab_size > vocab {
            return Err(fail(format!(
                "a vocabulary of {}, and the config's `model.vocab_size` is {vocab}",
                index.vocab_size
            )));
        }
        if index.sequences == 0 || index.files.iter().map(|f| f.sequences).sum::<u64>() != index.sequences {
            return Err(fail(format!(
                "index.json: {} sequences are not those of its files",
                index.sequences
            )));
        }
        let mut files = Vec::new();
        let mut first = 0;
        for shard in &index.files {
            let file =
                File::open(directory.join(&shard.name)).map_err(|e| fail(format!("{}: {e}", shard.name)))?;
            let found = file.metadata().map_err(|e| fail(format!("{}: {e}", shard.name)))?.len();
            let expected = shard.sequences * Self::bytes_of(&index) as u64;
            if found != expected {
                return Err(fail(format!("{}: {found} bytes, the index says {expected}", shard.name)));
            }
            files.push((first, file, shard.name.clone()));
            first += shard.sequences;
        }
        Ok(Self { index, files, digest: hex(&Sha256::digest(&text)) })
    }

    fn bytes_of(index: &Index) -> usize {
        (index.sequence_length + 1) * if index.dtype == "u16" { 2 } else { 4 }
    }

    /// Sequences.
    pub fn sequences(&self) -> u64 {
        self.index.sequences
    }

    /// sha256 of `index.json`, which holds those of the files.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Appends one sequence: inputs and labels.
    pub fn read(&self, sequence: u64, inputs: &mut Vec<u32>, labels: &mut Vec<u32>) -> Result<(), Failure> {
        let slot = self.files.partition_point(|(first, _, _)| *first <= sequence).saturating_sub(1);
        let (first, file, name) = &self.files[slot];
        let bytes = Self::bytes_of(&self.index);
        let mut buffer = vec![0u8; bytes];
        file.read_exact_at(&mut buffer, (sequence - first) * bytes as u64).map_err(|error| {
            Failure::new(Code::Data, format!("data {name}: sequence {sequence} cannot be read: {error}"))
        })?;
        let tokens: Vec<u32> = if self.index.dtype == "u16" {
            buffer.chunks_exact(2).map(|b| u32::from(u16::from_le_bytes([b[0], b[1]]))).collect()
        } else {
            buffer.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
        };
        if let Some(token) = tokens.iter().find(|t| **t as usize >= self.index.vocab_size) {
            return Err(Failure::new(
                Code::Data,
                format!(
                    "data {name}: sequence {sequence} holds token {token} of a vocabulary of {}",
                    self.index.vocab_size
                ),
            ));
        }
        inputs.extend(&tokens[..self.index.sequence_length]);
        labels.extend(&tokens[1..]);
        Ok(())
    }
}

/// Writes sequences of `sequence_length + 1` tokens as shards of at most `per_file` sequences.
pub fn write(
    directory: &Path,
    sequence_length: usize,
    vocab: usize,
    tokens: &[u32],
    per_file: usize,
) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    let narrow = vocab <= 1 << 16;
    let mut files = Vec::new();
    let mut sequences = 0;
    for (i, chunk) in tokens.chunks(per_file * (sequence_length + 1)).enumerate() {
        let bytes: Vec<u8> = if narrow {
            chunk.iter().flat_map(|t| (*t as u16).to_le_bytes()).collect()
        } else {
            chunk.iter().flat_map(|t| t.to_le_bytes()).collect()
        };
        let name = format!("tokens-{i:05}.bin");
        File::create(directory.join(&name))?.write_all(&bytes)?;
        let count = (chunk.len() / (sequence_length + 1)) as u64;
        sequences += count;
        files.push(Shard { name, sequences: count, sha256: hex(&Sha256::digest(&bytes)) });
    }
    let dtype = if narrow { "u16" } else { "u32" }.to_owned();
    let index = Index { form: FORM.to_owned(), dtype, sequence_length, sequences, vocab_size: vocab, files };
    let text = serde_json::to_string_pretty(&index)?;
    fs::write(directory.join("index.json"), text + "\n")
}
