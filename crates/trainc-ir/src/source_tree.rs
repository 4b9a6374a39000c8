//! The program's files, as they go into the source archive.

use super::digest::sha256_hex;
use std::sync::Arc;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path inside the archive, with `/`.
    pub path: String,
    /// Content.
    pub bytes: Arc<[u8]>,
    /// Whether it may be executed.
    pub executable: bool,
    sha256: Arc<str>,
}

impl SourceFile {
    /// A file with its content, which is hashed once: many jobs share one program.
    pub fn new(path: impl Into<String>, bytes: impl Into<Arc<[u8]>>, executable: bool) -> Self {
        let bytes = bytes.into();
        let sha256 = sha256_hex(&bytes).into();
        Self { path: path.into(), bytes, executable, sha256 }
    }

    /// SHA-256 of the content, in hexadecimal digits.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

/// A directory's files, sorted by path.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SourceTree {
    /// The directory as written.
    pub dir: String,
    /// Its files, sorted by path.
    pub files: Vec<SourceFile>,
}

impl SourceTree {
    /// SHA-256 over paths, modes and contents: the same on every machine, whatever packs the archive.
    pub fn digest(&self) -> String {
        let mut text = String::new();
        for file in &self.files {
            text.push_str(if file.executable { "x " } else { "- " });
            text.push_str(file.sha256());
            text.push(' ');
            text.push_str(&file.path);
            text.push('\n');
        }
        sha256_hex(text.as_bytes())
    }

    /// Bytes of all files.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes.len() as u64).sum()
    }

    /// The file of that path.
    pub fn get(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }
}
