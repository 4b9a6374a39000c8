//! Files of a launcher, a library or the program that the manifest names and trainc reads: an accelerate YAML,
//! a DeepSpeed config, the arguments of a Trainer.

use super::scalar::Scalar;
use std::sync::Arc;
use trainc_diag::source::Span;

/// A file of another program, as read. It stays the user's: trainc takes values from it and packs it.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignFile {
    /// Who reads it in the job.
    pub reader: FileReader,
    /// The catalogue's table of its keys: `accelerate`, `deepspeed`, `training-arguments`.
    pub table: &'static str,
    /// Its path as written.
    pub path: String,
    /// Its path in the source archive.
    pub packed_as: String,
    /// Whether the program's directory has it already, at `packed_as`.
    pub is_in_source: bool,
    /// Its content.
    pub text: Arc<str>,
    /// The start of its text, for problems of the file as a whole.
    pub span: Span,
    /// Its keys and values; maps and lists are members with longer keys.
    pub settings: Vec<FileSetting>,
}

/// The program that reads a foreign file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileReader {
    /// The launcher or the library of the engine: `parallel file=`.
    Engine,
    /// The same, by the name of the file in another one: `deepspeed_config_file`.
    OtherFile,
    /// The program: `train file=`.
    Program,
}

/// A key of a foreign file and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSetting {
    /// The key with those of the maps around it: `fsdp_config.fsdp_version`. An item of a list has the list's.
    pub key: String,
    /// The value; a date, and a number beyond 128 bits, is a text.
    pub value: Scalar,
    /// Where the key is written.
    pub key_span: Span,
    /// Where the value is written.
    pub value_span: Span,
}

impl ForeignFile {
    /// Returns the first setting with this key.
    pub fn setting(&self, key: &str) -> Option<&FileSetting> {
        self.settings.iter().find(|setting| setting.key == key)
    }
}
