//! From files to shards, whatever their numbers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sha2::{Digest, Sha256};

use super::{State, fail, file_name, steps};
use crate::data::tokens::hex;
use crate::exit::Failure;
use crate::fsdp::{Engine, shard_len};
use crate::safetensors::Reader;

/// What helps where a checkpoint is damaged: how it was chosen says how another is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// `latest` named it.
    Latest,
    /// `checkpoint.resume` named it.
    Resume,
    /// `--checkpoint` names it.
    Flag,
}

impl Selection {
    /// How to take the one before `path`, where there is one.
    pub(super) fn help(self, path: &Path, step: usize) -> String {
        let Some(before) = before(path, step) else { return String::new() };
        let latest = before.with_file_name(super::LATEST);
        let name = before.file_name().unwrap_or_default().display();
        match self {
            Self::Latest => {
                format!("; to go on from the one before it: `echo {name} > '{}'`", latest.display())
            }
            Self::Resume => {
                format!("; `checkpoint.resume` can name the one before it, {}", before.display())
            }
            Self::Flag => format!("; `--checkpoint '{}'` takes the one before it", before.display()),
        }
    }
}

/// Reads a checkpoint that fits the engine's model into it; its number of shards may be another.
pub fn load(engine: &mut Engine, path: &Path, state: &State, selection: Selection) -> Result<(), Failure> {
    // Old files that overlap this rank's shards are checked once, then read.
    let mut readers: BTreeMap<usize, Reader> = BTreeMap::new();
    for s in engine.shards.iter_mut().filter(|s| s.unit.trained) {
        let old = shard_len(s.unit.len, state.shards);
        let n = s.master.len();
        let end = (s.start + n).min(s.unit.len);
        for values in [&mut s.master, &mut s.exp_avg, &mut s.exp_avg_sq] {
            values.fill(0.0);
        }
        if s.start >= end {
            continue;
        }
        for file in s.start / old..=(end - 1) / old {
            if let std::collections::btree_map::Entry::Vacant(slot) = readers.entry(file) {
                slot.insert(open(path, state, file, selection)?);
            }
            let (from, to) = (s.start.max(file * old), end.min((file + 1) * old));
            for (kind, values) in
                [("master", &mut s.master), ("exp_avg", &mut s.exp_avg), ("exp_avg_sq", &mut s.exp_avg_sq)]
            {
                let name = format!("{}.{kind}", s.unit.name);
                let read = readers[&file].read(&name).map_err(|e| fail(path, e))?;
                if read.len() != old {
                    return Err(fail(
                        path,
                        format!("`{name}` has {} elements, {old} are expected", read.len()),
                    ));
                }
                values[from - s.start..to - s.start]
                    .copy_from_slice(&read[from - file * old..to - file * old]);
            }
        }
    }
    Ok(())
}

/// The whole master weights of one unit, from whatever shards.
pub fn unit(path: &Path, state: &State, name: &str) -> Result<Vec<f32>, Failure> {
    let found = state.units.iter().find(|(other, _)| other == name);
    let (_, len) = found.ok_or_else(|| fail(path, format!("there is no unit `{name}`")))?;
    let mut out = Vec::with_capacity(*len);
    for shard in 0..state.shards {
        let file = file_name(shard, state.shards);
        let io = |e: std::io::Error| fail(path, format!("{file}: {e}"));
        let reader = Reader::open(&path.join(&file)).map_err(io)?;
        out.extend(reader.read(&format!("{name}.master")).map_err(io)?);
    }
    if out.len() < *len {
        return Err(fail(path, format!("unit `{name}` has {} elements, {len} were written", out.len())));
    }
    out.truncate(*len);
    Ok(out)
}

/// How much of a checkpoint was compared with its digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Whole files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Compares the `part`th of `parts` of the files with their digests, until there is no more time; what is not begun or
/// not whole by then does not count.
pub fn compare(
    choice: &super::ResumePoint,
    part: usize,
    parts: usize,
    until: Instant,
) -> Result<Compared, Failure> {
    let (path, state) = (&choice.path, &choice.state);
    let mut compared = Compared::default();
    for shard in (part..state.shards).step_by(parts.max(1)) {
        if !matches(path, state, shard, choice.selection, Some(until))? {
            break;
        }
        compared.files += 1;
        compared.bytes += state.files[shard].1;
    }
    Ok(compared)
}

/// Compares every file with its digest.
pub fn verify(path: &Path, state: &State) -> Result<(), Failure> {
    (0..state.shards).try_for_each(|shard| open(path, state, shard, Selection::Flag).map(|_| ()))
}

/// A file whose bytes are those that were written; otherwise the failure says which checkpoint can be taken instead.
fn open(path: &Path, state: &State, shard: usize, selection: Selection) -> Result<Reader, Failure> {
    matches(path, state, shard, selection, None)?;
    let name = file_name(shard, state.shards);
    Reader::open(&path.join(&name)).map_err(|e| fail(path, format!("{name}: {e}")))
}

/// Whether a file was compared and is what was written; false: the time was over before its end.
fn matches(
    path: &Path,
    state: &State,
    shard: usize,
    selection: Selection,
    until: Option<Instant>,
) -> Result<bool, Failure> {
    let name = file_name(shard, state.shards);
    let at = path.join(&name);
    let (digest, bytes) = &state.files[shard];
    let unusable = |what: String| fail(path, what + &selection.help(path, state.step));
    let mut file = File::open(&at).map_err(|e| unusable(format!("{name}: {e}")))?;
    let found = file.metadata().map_err(|e| unusable(format!("{name}: {e}")))?.len();
    if found != *bytes {
        return Err(unusable(format!("{name} has {found} bytes, {bytes} were written")));
    }
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
        return Err(unusable(format!("{name} is damaged: sha256 {found}, {digest} was written")));
    }
    Ok(true)
}

fn before(path: &Path, step: usize) -> Option<PathBuf> {
    steps(path.parent()?).into_iter().rev().find(|(other, _)| *other < step).map(|(_, path)| path)
}
