//! Files of a launcher, a library or the program that the manifest names and trainc reads: an accelerate
//! YAML, a DeepSpeed config, the arguments of a Trainer.

use super::origin::Val;
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
    /// Its keys and values, those in maps with longer keys after that of the map.
    pub settings: Vec<FileSetting>,
    /// True if a layout is tried with other values than the file's, which would then be edited.
    pub is_replaced: bool,
}

impl ForeignFile {
    /// Returns its name in the archive, without directories.
    pub fn name(&self) -> &str {
        self.packed_as.rsplit('/').next().unwrap_or(&self.packed_as)
    }
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
    /// The key with those of the maps around it: `fsdp_config.fsdp_version`.
    pub key: String,
    /// The value.
    pub value: FileValue,
    /// Where the key is written.
    pub key_span: Span,
    /// Where the value is written.
    pub value_span: Span,
    /// Where the key is written before, with a value that this one replaces.
    pub replaced: Vec<Span>,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum FileValue {
    /// A single value; a date, and a number beyond 128 bits, is a text.
    Scalar(Scalar),
    /// The single values of a list.
    List(Vec<Scalar>),
    /// A map, whose keys are settings of their own.
    Map,
}

impl FileValue {
    /// Returns the single value, if it is one.
    pub fn scalar(&self) -> Option<&Scalar> {
        match self {
            Self::Scalar(value) => Some(value),
            Self::List(_) | Self::Map => None,
        }
    }
}

impl ForeignFile {
    /// Returns the first setting with this key.
    pub fn setting(&self, key: &str) -> Option<&FileSetting> {
        self.settings.iter().find(|setting| setting.key == key)
    }
}

/// A package that runs in the container, with the version by which its files are read and judged.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramVersion {
    /// Its name on PyPI.
    pub package: &'static str,
    /// The version, with its origin: pinned by the program, in the image, or the newest known.
    pub version: Val<String>,
    /// Whether the container has it: by the program's requirements or in the image; `None` if unknown.
    pub is_installed: Option<bool>,
}

/// Returns the version of a package among those that run in the container.
pub fn version_of<'a>(programs: &'a [ProgramVersion], package: &str) -> Option<&'a str> {
    let program = programs.iter().find(|program| program.package == package)?;
    Some(program.version.value.as_str())
}
