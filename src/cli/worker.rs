//! The worker's binary: where it lies, and its digest.

use std::path::{Path, PathBuf};

/// Its file name.
const NAME: &str = "trainc-worker";

/// The binary that was named, else the one beside this program.
pub(super) fn find(named: Option<&Path>) -> Option<PathBuf> {
    let path = match named {
        Some(named) => named.to_path_buf(),
        None => std::env::current_exe().ok()?.parent()?.join(NAME),
    };
    path.is_file().then_some(path)
}

/// What to say where there is none.
pub(super) fn missing() -> String {
    format!(
        "error: there is no `{NAME}` beside trainc; build it with `cargo build --release -p {NAME}`, or name it with `--worker`\n"
    )
}

/// SHA-256 of the binary, in hexadecimal.
pub(super) fn sha256(named: Option<&Path>) -> Option<String> {
    let bytes = std::fs::read(find(named)?).ok()?;
    Some(crate::ir::digest::sha256_hex(&bytes))
}
