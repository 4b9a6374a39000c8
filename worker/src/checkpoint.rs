//! Checkpoints: `step-N/` with one file per shard and `state.json`, written beside as `step-N.partial`, synced, and only
//! then named. A directory without that name is never taken. Loading takes any number of shards.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::data::tokens::hex;
use crate::exit::{Code, Failure};
use crate::fsdp::{Engine, shard_len};
use crate::safetensors::{self, Reader};

/// The form that this binary reads.
const FORM: &str = "trainc.checkpoint/v1";

/// `state.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// `trainc.checkpoint/v1`.
    pub form: String,
    /// Optimizer steps done.
    pub step: usize,
    /// Sequences read, over all ranks.
    pub sequences: u64,
    /// Of the order and fresh weights.
    pub seed: u64,
    /// sha256 of the data's index.
    pub data: String,
    /// Files of one copy.
    pub shards: usize,
    /// Elements of each unit, in order.
    pub units: Vec<(String, usize)>,
    /// sha256 of the list of tensors.
    pub layout: String,
    /// sha256 and bytes of each shard's file.
    pub files: Vec<(String, u64)>,
}

fn fail(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Checkpoint, format!("checkpoint {}: {what}", path.display()))
}

fn file_name(shard: usize, of: usize) -> String {
    format!("shard-{shard:05}-of-{of:05}.safetensors")
}

/// Which tensors lie where: two runs with the same have interchangeable checkpoints.
fn layout(engine: &Engine) -> String {
    let mut hash = Sha256::new();
    for tensor in engine.shards.iter().flat_map(|s| &s.unit.tensors) {
        hash.update(format!("{} {} {} {}\n", tensor.name, tensor.rows, tensor.cols, tensor.offset));
    }
    hex(&hash.finalize())
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn steps(directory: &Path) -> Vec<(usize, PathBuf)> {
    let mut found: Vec<(usize, PathBuf)> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let step = entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok()?;
            entry.path().join("state.json").is_file().then(|| (step, entry.path()))
        })
        .collect();
    found.sort();
    found
}

/// The newest complete checkpoint.
pub fn newest(directory: &Path) -> Option<PathBuf> {
    steps(directory).pop().map(|(_, path)| path)
}

/// Reads `state.json`.
pub fn state(path: &Path) -> Result<State, Failure> {
    let text = fs::read(path.join("state.json")).map_err(|e| fail(path, format!("state.json: {e}")))?;
    let state: State = serde_json::from_slice(&text).map_err(|e| fail(path, format!("state.json: {e}")))?;
    if state.form != FORM || state.files.len() != state.shards {
        return Err(fail(
            path,
            format!("state.json: form `{}` with {} files is not read", state.form, state.files.len()),
        ));
    }
    Ok(state)
}

/// Saves; every rank calls it. Returns when the checkpoint is complete, and older ones beyond `keep` are gone.
pub fn save(
    engine: &mut Engine,
    directory: &Path,
    keep: usize,
    step: usize,
    sequences: u64,
    seed: u64,
    data: &str,
) -> Result<(), Failure> {
    let name = format!("step-{step:08}");
    let (partial, done) = (directory.join(format!("{name}.partial")), directory.join(&name));
    let me = engine.groups.shard.rank();
    let (shards, writes) = (engine.groups.shard.size(), engine.groups.replica.rank() == 0);
    let first = engine.groups.world.rank() == 0;
    let mut made = Ok(());
    if first {
        let _ = fs::remove_dir_all(&partial);
        made = fs::create_dir_all(&partial);
    }
    // A rank that fails still takes part, so that all end with the reason and none waits.
    engine.groups.world.barrier()?;
    let written = if writes && made.is_ok() {
        write_shard(engine, &partial.join(file_name(me, shards)), step)
    } else {
        Ok(None)
    };
    // Each file's digest as eight numbers of 32 bits, its bytes, and how many failed.
    let mut table = vec![0.0f64; shards * 9 + 1];
    if let Ok(Some((digest, bytes))) = &written {
        for (i, word) in digest.as_bytes().chunks(8).enumerate() {
            let word = std::str::from_utf8(word).ok().and_then(|w| u32::from_str_radix(w, 16).ok());
            table[me * 9 + i] = f64::from(word.unwrap_or(0));
        }
        table[me * 9 + 8] = *bytes as f64;
    }
    table[shards * 9] = f64::from(u8::from(written.is_err() || made.is_err()));
    engine.groups.world.all_reduce_f64(&mut table)?;
    made.map_err(|e| fail(&partial, e))?;
    written.map_err(|e| fail(&partial, format!("{}: {e}", file_name(me, shards))))?;
    if table[shards * 9] > 0.0 {
        return Err(fail(&partial, "another rank could not write its shard"));
    }
    let mut finished = Ok(());
    if first {
        let files = table[..shards * 9]
            .chunks(9)
            .map(|row| {
                let bytes: Vec<u8> = row[..8].iter().flat_map(|w| (*w as u32).to_be_bytes()).collect();
                (hex(&bytes), row[8] as u64)
            })
            .collect();
        let units = engine.shards.iter().map(|s| (s.unit.name.clone(), s.unit.len)).collect();
        let (form, layout, data) = (FORM.to_owned(), layout(engine), data.to_owned());
        let state = State { form, step, sequences, seed, data, shards, units, layout, files };
        finished = finish(directory, &partial, &done, &state, keep);
    }
    let mut bad = [f64::from(u8::from(finished.is_err()))];
    engine.groups.world.all_reduce_f64(&mut bad)?;
    finished.map_err(|e| fail(&partial, e))?;
    if bad[0] > 0.0 {
        return Err(fail(&partial, "rank 0 could not finish it"));
    }
    Ok(())
}

fn write_shard(engine: &Engine, path: &Path, step: usize) -> io::Result<Option<(String, u64)>> {
    let mut tensors = Vec::new();
    for s in &engine.shards {
        let name = &s.unit.name;
        for (kind, values) in [("master", &s.master), ("exp_avg", &s.exp_avg), ("exp_avg_sq", &s.exp_avg_sq)]
        {
            tensors.push((format!("{name}.{kind}"), vec![values.len()], values.as_slice()));
        }
    }
    let metadata = BTreeMap::from([("step".to_owned(), step.to_string())]);
    safetensors::write(path, &metadata, &tensors).map(Some)
}

fn finish(directory: &Path, partial: &Path, done: &Path, state: &State, keep: usize) -> io::Result<()> {
    let mut file = File::create(partial.join("state.json"))?;
    file.write_all(&serde_json::to_vec_pretty(state)?)?;
    file.sync_all()?;
    sync(partial)?;
    if done.exists() {
        fs::remove_dir_all(done)?;
    }
    fs::rename(partial, done)?;
    sync(directory)?;
    let complete = steps(directory);
    for (_, old) in &complete[..complete.len().saturating_sub(keep)] {
        fs::remove_dir_all(old)?;
    }
    Ok(())
}

/// Loads a checkpoint into an engine with any number of shards.
pub fn load(engine: &mut Engine, path: &Path) -> Result<State, Failure> {
    let state = state(path)?;
    if state.layout != layout(engine) {
        let units: Vec<(String, usize)> =
            engine.shards.iter().map(|s| (s.unit.name.clone(), s.unit.len)).collect();
        let differs = units.iter().zip(&state.units).find(|(a, b)| a != b);
        let what = differs.map_or_else(
            || "its tensors are not this model's".to_owned(),
            |(a, b)| format!("unit `{}` has {} elements, this model's `{}` {}", b.0, b.1, a.0, a.1),
        );
        return Err(fail(path, what));
    }
    // Old files that overlap this rank's shards are checked once, then read.
    let mut readers: BTreeMap<usize, Reader> = BTreeMap::new();
    for s in &mut engine.shards {
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
                slot.insert(open(path, &state, file)?);
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
    Ok(state)
}

fn open(path: &Path, state: &State, shard: usize) -> Result<Reader, Failure> {
    let name = file_name(shard, state.shards);
    let at = path.join(&name);
    let (digest, bytes) = &state.files[shard];
    let mut file = File::open(&at).map_err(|e| fail(path, format!("{name}: {e}")))?;
    let found = file.metadata().map_err(|e| fail(path, format!("{name}: {e}")))?.len();
    if found != *bytes {
        return Err(fail(path, format!("{name} has {found} bytes, {bytes} were written")));
    }
    let mut hash = Sha256::new();
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        let n = file.read(&mut buffer).map_err(|e| fail(path, format!("{name}: {e}")))?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
    }
    let found = hex(&hash.finalize());
    if found != *digest {
        return Err(fail(path, format!("{name} is damaged: sha256 {found}, {digest} was written")));
    }
    Reader::open(&at).map_err(|e| fail(path, format!("{name}: {e}")))
}
