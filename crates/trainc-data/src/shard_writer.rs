//! Writes a directory of packed shards: next to its final place, into which it is moved at the end.

use crate::document_reader::hex;
use crate::packing::{Stop, file_error};
use crate::shard::{self, Index, Layout};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use trainc_project::files::read_regular_text;

/// Maximum size of a file's sequences in bytes.
const FILE_BYTES: usize = 256 << 20;

/// Maximum size of the `index.json` of an earlier run.
const MOST_INDEX_BYTES: u64 = 64 << 20;

/// Checks that the directory may be replaced: it does not exist, is empty, or was written by this command.
pub(crate) fn check_replaceable(out: &Path) -> Result<(), Stop> {
    let names = list_own_files(out)?;
    if let Some(first) = names.first() {
        let index = read_regular_text(&out.join("index.json"), MOST_INDEX_BYTES).unwrap_or_default();
        if !index.contains(shard::FORM) {
            return Err(foreign_file(out, first));
        }
    }
    Ok(())
}

/// Lists the files of a directory; fails for a file name that this command does not write.
fn list_own_files(out: &Path) -> Result<Vec<String>, Stop> {
    let entries = match fs::read_dir(out) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(file_error(&out.display().to_string(), "written", &error)),
    };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let ours = |name: &String| {
        name == "index.json"
            || (name.starts_with("tokens-") && Path::new(name).extension().is_some_and(|e| e == "bin"))
    };
    match names.iter().find(|name| !ours(name)) {
        Some(name) => Err(foreign_file(out, name)),
        None => Ok(names),
    }
}

fn foreign_file(out: &Path, name: &str) -> Stop {
    let shown = out.display();
    let why =
        format!("`{shown}` holds `{name}`, which `trainc data pack` did not write; nothing was written");
    Stop::Refused(why)
}

/// Writes into a sibling directory, which finally replaces the output directory.
pub(crate) struct Writer {
    out: PathBuf,
    partial: PathBuf,
    layout: Layout,
    file: Option<(fs::File, Sha256, u64)>,
    files: Vec<shard::File>,
}

impl Writer {
    /// Creates the sibling directory.
    pub(crate) fn new(out: &Path, layout: Layout) -> Result<Self, Stop> {
        let mut name = out.file_name().unwrap_or_default().to_os_string();
        name.push(".partial");
        let partial = out.with_file_name(name);
        // Left by an interrupted run.
        list_own_files(&partial)?;
        let _ = fs::remove_dir_all(&partial);
        fs::create_dir_all(&partial)
            .map_err(|error| file_error(&partial.display().to_string(), "written", &error))?;
        Ok(Self { out: out.to_path_buf(), partial, layout, file: None, files: Vec::new() })
    }

    fn discard_on_error(&self, error: &std::io::Error) -> Stop {
        self.discard();
        file_error(&self.out.display().to_string(), "written", error)
    }

    /// Removes all partial output.
    pub(crate) fn discard(&self) {
        let _ = fs::remove_dir_all(&self.partial);
    }

    /// Adds records; `records` contains only complete ones.
    pub(crate) fn put(&mut self, records: &[u8]) -> Result<(), Stop> {
        let per_file = (FILE_BYTES / self.layout.record_bytes()).max(1) as u64;
        for record in records.chunks_exact(self.layout.record_bytes()) {
            if self.file.as_ref().is_some_and(|(_, _, count)| *count >= per_file) {
                self.close_file()?;
            }
            let written = match &mut self.file {
                Some((file, hash, count)) => {
                    hash.update(record);
                    *count += 1;
                    file.write_all(record)
                }
                None => self.begin_file(record),
            };
            written.map_err(|error| self.discard_on_error(&error))?;
        }
        Ok(())
    }

    fn begin_file(&mut self, record: &[u8]) -> std::io::Result<()> {
        let number = self.files.len();
        let mut file = fs::File::create(self.partial.join(format!("tokens-{number:05}.bin")))?;
        let head = self.layout.file_header(u32::try_from(number).unwrap_or(u32::MAX));
        let mut hash = Sha256::new();
        hash.update(&head);
        hash.update(record);
        file.write_all(&head)?;
        file.write_all(record)?;
        self.file = Some((file, hash, 1));
        Ok(())
    }

    fn close_file(&mut self) -> Result<(), Stop> {
        if let Some((file, hash, sequences)) = self.file.take() {
            file.sync_all().map_err(|error| self.discard_on_error(&error))?;
            let name = format!("tokens-{:05}.bin", self.files.len());
            self.files.push(shard::File { name, sequences, sha256: hex(&hash.finalize()) });
        }
        Ok(())
    }

    /// Closes the last file and returns all files.
    pub(crate) fn finish(&mut self) -> Result<Vec<shard::File>, Stop> {
        self.close_file()?;
        Ok(self.files.clone())
    }

    /// Writes the index and moves the complete directory into its place.
    pub(crate) fn publish(&self, index: &Index) -> Result<(), Stop> {
        let publish = || -> std::io::Result<()> {
            let text = serde_json::to_string_pretty(index).map_err(std::io::Error::other)?;
            fs::write(self.partial.join("index.json"), text + "\n")?;
            fs::File::open(self.partial.join("index.json"))?.sync_all()?;
            if fs::symlink_metadata(&self.out).is_ok() {
                fs::remove_dir_all(&self.out)?;
            }
            fs::rename(&self.partial, &self.out)
        };
        publish().map_err(|error| self.discard_on_error(&error))
    }
}
