//! Reads checkpoints with any number of shards into this run's shards.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sha2::{Digest, Sha256};

use super::{State, fail, file_name, list_checkpoints};
use crate::data::tokens::hex;
use crate::exit::Failure;
use crate::fsdp::{Engine, StateKind, shard_len};
use crate::safetensors::Reader;

/// Selection of a checkpoint, which determines the advice given when it is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Found in the run's own directory.
    Own,
    /// Named by `checkpoint.resume`.
    Resume,
    /// Named by `--checkpoint`.
    Flag,
}

impl Selection {
    /// Returns advice on how to use the checkpoint before `path`; empty if there is none.
    pub(super) fn help_earlier_checkpoint(self, path: &Path, step: usize) -> String {
        let Some(before) = previous_checkpoint(path, step) else { return String::new() };
        match self {
            Self::Own => String::new(),
            Self::Resume => {
                format!("; to resume from the previous one, set `checkpoint.resume` to {}", before.display())
            }
            Self::Flag => format!("; to export the previous one: `--checkpoint '{}'`", before.display()),
        }
    }
}

/// Reads a verified checkpoint of the same model into the engine. The number of shards may differ.
pub fn load(engine: &mut dyn Engine, path: &Path, state: &State) -> Result<(), Failure> {
    let mut readers: BTreeMap<usize, Reader> = BTreeMap::new();
    for at in engine.trained() {
        let s = engine.shards()[at].clone();
        let old = shard_len(s.unit.len, state.shards);
        let end = (s.start + s.len).min(s.unit.len);
        for kind in StateKind::ALL {
            let mut values = vec![0.0; s.len];
            for file in (s.start / old..).take_while(|file| (file * old).max(s.start) < end) {
                if let std::collections::btree_map::Entry::Vacant(slot) = readers.entry(file) {
                    let name = file_name(file, state.shards);
                    let reader = Reader::open(&path.join(&name));
                    slot.insert(reader.map_err(|e| fail(path, format!("{name}: {e}")))?);
                }
                let (from, to) = (s.start.max(file * old), end.min((file + 1) * old));
                let name = format!("{}.{}", s.unit.name, kind.name());
                let read = readers[&file].read(&name).map_err(|e| fail(path, e))?;
                if read.len() != old {
                    return Err(fail(path, format!("`{name}` has {} elements, expected {old}", read.len())));
                }
                values[from - s.start..to - s.start]
                    .copy_from_slice(&read[from - file * old..to - file * old]);
            }
            engine.write_shard(at, kind, &values)?;
        }
    }
    Ok(())
}

/// Returns the full master weights of one unit, from any number of shards.
pub fn read_unit_weights(path: &Path, state: &State, name: &str) -> Result<Vec<f32>, Failure> {
    let found = state.units.iter().find(|(other, _)| other == name);
    let (_, len) = found.ok_or_else(|| fail(path, format!("unit `{name}` not found")))?;
    let mut out = Vec::with_capacity(*len);
    for shard in 0..state.shards {
        let file = file_name(shard, state.shards);
        let io = |e: std::io::Error| fail(path, format!("{file}: {e}"));
        let reader = Reader::open(&path.join(&file)).map_err(io)?;
        out.extend(reader.read(&format!("{name}.master")).map_err(io)?);
    }
    if out.len() < *len {
        return Err(fail(path, format!("unit `{name}` has {} elements, expected {len}", out.len())));
    }
    out.truncate(*len);
    Ok(out)
}

/// Number of checkpoint files and bytes verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Files verified completely.
    pub files: usize,
    /// Their size in bytes.
    pub bytes: u64,
}

/// Verifies the sizes of all files, and the digests of part `part` of `parts` of them until the time is up. A
/// file that is not fully read by then does not count.
pub(super) fn verify_part(
    path: &Path,
    state: &State,
    selection: Selection,
    (part, parts): (usize, usize),
    until: Option<Instant>,
) -> Result<Compared, Failure> {
    for shard in 0..state.shards {
        open_of_size(path, state, shard, selection)?;
    }
    let mut compared = Compared::default();
    for shard in (part..state.shards).step_by(parts.max(1)) {
        if !verify_shard_file(path, state, shard, selection, until)? {
            break;
        }
        compared.files += 1;
        compared.bytes += state.files[shard].1;
    }
    Ok(compared)
}

/// Verifies every file against its digest.
pub fn verify(path: &Path, state: &State) -> Result<(), Failure> {
    verify_part(path, state, Selection::Flag, (0, 1), None).map(drop)
}

/// Opens a file that has its recorded size. A failure suggests the checkpoint to use instead.
fn open_of_size(path: &Path, state: &State, shard: usize, selection: Selection) -> Result<File, Failure> {
    let name = file_name(shard, state.shards);
    let unusable = |what: String| fail(path, what + &selection.help_earlier_checkpoint(path, state.step));
    let file = File::open(path.join(&name)).map_err(|e| unusable(format!("{name}: {e}")))?;
    let found = file.metadata().map_err(|e| unusable(format!("{name}: {e}")))?.len();
    let bytes = state.files[shard].1;
    if found != bytes {
        return Err(unusable(format!("{name} has {found} bytes, expected {bytes} bytes")));
    }
    Ok(file)
}

/// Verifies one file. Returns false if the time was up before its end.
fn verify_shard_file(
    path: &Path,
    state: &State,
    shard: usize,
    selection: Selection,
    until: Option<Instant>,
) -> Result<bool, Failure> {
    let name = file_name(shard, state.shards);
    let digest = &state.files[shard].0;
    let unusable = |what: String| fail(path, what + &selection.help_earlier_checkpoint(path, state.step));
    let mut file = open_of_size(path, state, shard, selection)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        if until.is_some_and(|until| Instant::now() > until) {
            return Ok(false);
        }
        let n = file.read(&mut buffer).map_err(|e| unusable(format!("{name}: {e}")))?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
    }
    let found = hex(&hash.finalize());
    if found != *digest {
        return Err(unusable(format!("{name} is damaged: sha256 {found}, expected {digest}")));
    }
    Ok(true)
}

fn previous_checkpoint(path: &Path, step: usize) -> Option<PathBuf> {
    list_checkpoints(path.parent()?).into_iter().rev().find(|(other, _)| *other < step).map(|(_, path)| path)
}
