//! Packed token shards as `trainc data pack` writes them (`src/data/shard.rs` there says the form): `index.json` and files
//! of records of one size, read by position, never mapped. The label of position t is token t + 1.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::exit::{Code, Failure};
use crate::kernels::rows::IGNORED;

/// The form that this binary reads.
pub const FORM: &str = "trainc.tokens/v1";

/// Bytes of a file's head.
const HEAD: usize = 64;

/// What the worker needs of `index.json`; it ignores the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Some label is not trained on.
    pub masked: bool,
    /// In order.
    pub files: Vec<Shard>,
}

/// One file of the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Name beside `index.json`.
    pub name: String,
    /// Its sequences.
    pub sequences: u64,
    /// sha256 of its bytes, hexadecimal.
    pub sha256: String,
}

/// Sequences of one pass, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Tokens.
    pub inputs: Vec<u32>,
    /// Of each position the next token, or [`IGNORED`].
    pub labels: Vec<u32>,
    /// Of each position where its document begins in the sequence; empty unless documents are kept apart.
    pub begins: Vec<u32>,
}

impl Rows {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.inputs.clear();
        self.labels.clear();
        self.begins.clear();
    }

    /// Labels that count.
    pub fn counted(&self) -> usize {
        self.labels.iter().filter(|label| **label != IGNORED).count()
    }
}

/// Whether documents of one sequence see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Documents {
    /// As one text.
    Joined,
    /// Attention and positions begin anew with each; the first token of a document is nobody's label.
    Apart,
}

impl Documents {
    /// From the config's `data.document_mask`.
    pub fn from_config(mask: bool) -> Self {
        if mask { Self::Apart } else { Self::Joined }
    }
}

/// An open set of shards.
#[derive(Debug)]
pub struct Tokens {
    index: Index,
    files: Vec<(u64, File, String)>,
    digest: String,
    documents: Documents,
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Index {
    fn width(&self) -> usize {
        if self.dtype == "u16" { 2 } else { 4 }
    }

    fn record_bytes(&self) -> usize {
        let s = self.sequence_length;
        (s + 1) * self.width() + s.div_ceil(8) + (s + 1).div_ceil(8) + 4
    }

    fn head(&self, number: usize) -> Vec<u8> {
        let mut out = FORM.as_bytes().to_vec();
        for value in [self.width(), self.sequence_length, self.record_bytes(), number] {
            out.extend((value as u32).to_le_bytes());
        }
        out.resize(HEAD - 4, 0);
        out.extend(crc32fast::hash(&out).to_le_bytes());
        out
    }

    /// The first thing that is wrong with it for this model.
    fn fault(&self, sequence_length: usize, vocab: usize) -> Option<String> {
        if self.form != FORM {
            return Some(format!("index.json: form `{}` is not `{FORM}`", self.form));
        }
        if self.dtype != "u16" && self.dtype != "u32" {
            return Some(format!("index.json: dtype `{}` is neither `u16` nor `u32`", self.dtype));
        }
        if self.sequence_length != sequence_length {
            return Some(format!(
                "sequences of {} tokens, and the config's `model.sequence_length` is {sequence_length}",
                self.sequence_length
            ));
        }
        if self.vocab_size > vocab {
            return Some(format!(
                "a vocabulary of {}, and the config's `model.vocab_size` is {vocab}",
                self.vocab_size
            ));
        }
        // Nobody has more, and no product of these sizes and bytes overflows.
        let most = 1 << 40;
        let sum = self.files.iter().fold(0u64, |sum, f| sum.saturating_add(f.sequences));
        if self.sequences == 0 || sum != self.sequences || sum > most {
            return Some(format!("index.json: {} sequences, and its files hold {sum}", self.sequences));
        }
        None
    }
}

impl Tokens {
    /// Opens a directory and checks it against what the model takes.
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
        if let Some(fault) = index.fault(sequence_length, vocab) {
            return Err(fail(fault));
        }
        let mut files = Vec::new();
        let mut first = 0;
        for (number, shard) in index.files.iter().enumerate() {
            let name = &shard.name;
            if Path::new(name).components().count() != 1 || name.starts_with('.') {
                return Err(fail(format!("index.json: `{name}` is no file beside it")));
            }
            let file = File::open(directory.join(name)).map_err(|e| fail(format!("{name}: {e}")))?;
            let found = file.metadata().map_err(|e| fail(format!("{name}: {e}")))?.len();
            let expected = HEAD as u64 + shard.sequences * index.record_bytes() as u64;
            if found != expected {
                return Err(fail(format!(
                    "{name} has {found} bytes, and {} sequences take {expected}: it was cut or changed after it was packed",
                    shard.sequences
                )));
            }
            let mut head = [0u8; HEAD];
            file.read_exact_at(&mut head, 0).map_err(|e| fail(format!("{name}: {e}")))?;
            if head[..] != index.head(number) {
                return Err(fail(format!("{name}: its head is not that of file {number} of this index")));
            }
            files.push((first, file, format!("{}/{name}", directory.display())));
            first += shard.sequences;
        }
        Ok(Self { index, files, digest: hex(&Sha256::digest(&text)), documents })
    }

    /// Sequences.
    pub fn sequences(&self) -> u64 {
        self.index.sequences
    }

    /// sha256 of `index.json`, which holds those of the files.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Every label counts: how many there are in a step follows from its size.
    pub fn all_count(&self) -> bool {
        !self.index.masked && self.documents == Documents::Joined
    }

    /// Reads every file whole and compares it with its digest.
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
                return Err(fail(format!("sha256 {found}, the index says {}", shard.sha256)));
            }
        }
        Ok(())
    }

    /// Appends one sequence.
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
                    "the file ends before it: it was cut after the run began".to_owned()
                } else {
                    error.to_string()
                })
            },
        )?;
        let (body, sum) = record.split_at(bytes - 4);
        if crc32fast::hash(body).to_le_bytes() != sum {
            return Err(fail("its checksum is wrong: the file was changed or damaged".to_owned()));
        }
        let (tokens, bits) = body.split_at((s + 1) * index.width());
        let (trained, starts) = bits.split_at(s.div_ceil(8));
        let tokens: Vec<u32> = match index.width() {
            2 => tokens.chunks_exact(2).map(|b| u32::from(u16::from_le_bytes([b[0], b[1]]))).collect(),
            _ => tokens.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        };
        if let Some(token) = tokens.iter().find(|t| **t as usize >= index.vocab_size) {
            return Err(fail(format!("it holds token {token} of a vocabulary of {}", index.vocab_size)));
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

/// Writes sequences of `sequence_length + 1` tokens as shards of at most `per_file` sequences, every label trained on.
pub fn write(
    directory: &Path,
    sequence_length: usize,
    vocab: usize,
    tokens: &[u32],
    per_file: usize,
) -> std::io::Result<()> {
    write_masked(directory, sequence_length, vocab, tokens, per_file, &|_| true, &|_| false)
}

/// The same, with which tokens are trained on and which begin a document, by their place in `tokens`.
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
    let (width, full) = (index.width(), sequence_length + 1);
    let sequences: Vec<usize> = (0..tokens.len() / full).map(|i| i * full).collect();
    for (number, chunk) in sequences.chunks(per_file).enumerate() {
        let mut bytes = index.head(number);
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
