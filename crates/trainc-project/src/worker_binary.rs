//! The `trainc-worker` binary.

use crate::files::{MOST_SOURCE_BYTES, read_regular};
use std::path::{Path, PathBuf};
use trainc_emit::WORKER_BINARY as NAME;
use trainc_ir::SourceFile;

/// Returns the path of the binary: the one named, or the one next to this program.
pub fn find(named: Option<&Path>) -> Option<PathBuf> {
    let path = match named {
        Some(named) => named.to_path_buf(),
        None => std::env::current_exe().ok()?.parent()?.join(NAME),
    };
    path.is_file().then_some(path)
}

/// Returns the error for a missing binary.
pub fn describe_missing() -> String {
    format!(
        "error: `{NAME}` not found next to trainc; build it with `cargo build --release -p \
            {NAME}`, or pass its path with `--worker`\n"
    )
}

/// Reads the binary, under the name that the container expects.
pub fn read(named: Option<&Path>) -> Option<SourceFile> {
    let bytes = read_regular(&find(named)?, MOST_SOURCE_BYTES).ok()?;
    Some(SourceFile::new(NAME, bytes, true))
}
