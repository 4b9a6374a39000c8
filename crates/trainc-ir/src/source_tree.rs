//! The program's files, as packed into the source archive.

use super::digest::sha256_hex;
use std::borrow::Cow;
use std::sync::Arc;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path inside the archive, with `/`.
    pub path: String,
    /// Content.
    pub bytes: Arc<[u8]>,
    /// Whether it is executable.
    pub executable: bool,
    sha256: Arc<str>,
}

impl SourceFile {
    /// Creates a file and hashes its content once, since many jobs share one program.
    pub fn new(path: impl Into<String>, bytes: impl Into<Arc<[u8]>>, executable: bool) -> Self {
        let bytes = bytes.into();
        let sha256 = sha256_hex(&bytes).into();
        Self { path: path.into(), bytes, executable, sha256 }
    }

    /// Returns the content as text; bytes that are no UTF-8 are replaced.
    pub fn text(&self) -> Cow<'_, str> {
        // The check of valid text is faster than the search for what to replace.
        str::from_utf8(&self.bytes).map_or_else(|_| String::from_utf8_lossy(&self.bytes), Cow::Borrowed)
    }

    /// Returns the SHA-256 of the content in hexadecimal.
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
    /// Returns the SHA-256 of paths, modes and contents, which does not depend on the machine or the
    /// archiver.
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

    /// Returns the total size of all files in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes.len() as u64).sum()
    }

    /// Returns the file with that path.
    pub fn get(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }
}
