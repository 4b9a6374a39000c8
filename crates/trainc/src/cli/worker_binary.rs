//! The worker's binary: where it lies, and what it is.

use std::path::{Path, PathBuf};
use trainc_emit::WORKER_BINARY as NAME;
use trainc_ir::SourceFile;

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

/// The binary itself, under the name that the container looks for.
pub(super) fn read(named: Option<&Path>) -> Option<SourceFile> {
    let bytes = std::fs::read(find(named)?).ok()?;
    Some(SourceFile::new(NAME, bytes, true))
}
