//! Saves checkpoints while training continues: a save copies the shards, and a thread of each rank writes the copy.
//! Between steps an all-reduce tells the ranks when all have written; then a thread of the first rank publishes the
//! checkpoint. At most one save is in progress.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{
    FORM, LATEST, State, fail, file_name, layout_digest, list_checkpoints, sync, text_with_digest, units,
};
use crate::data::tokens::hex;
use crate::exit::{Code, Failure};
use crate::fault_injection;
use crate::fsdp::{Engine, StateKind};
use crate::kernels::with_simd;
use crate::model::init::mix;
use crate::safetensors;

/// Numbers per file in the table that ranks sum: eight 32-bit words of its SHA-256, and its length.
const COLUMNS: usize = 9;

/// Properties of the run that a checkpoint records.
#[derive(Clone, Debug)]
pub struct Run {
    /// Digest of the config.
    pub config: String,
    /// Seed of the data order and of fresh weights.
    pub seed: u64,
    /// SHA-256 of the data's index.
    pub data: String,
    /// Sequences per step, over all ranks.
    pub global_sequences: u64,
    /// Path in `checkpoint.resume` that the run started from.
    pub began: Option<String>,
    /// The config's `model`, as recorded in the checkpoint.
    pub model: serde_json::Value,
    /// Training settings of the config.
    pub settings: serde_json::Value,
    /// Checkpoint that is never removed, regardless of `keep`.
    pub stays: Option<PathBuf>,
}

/// Copy of one rank's shards: names and values in file order.
type Copied = Vec<(String, Vec<f32>)>;
/// Name and values of a tensor in a file.
type Named<'a> = (String, Cow<'a, [f32]>);
type Written = io::Result<(String, u64)>;

#[derive(Debug)]
enum Phase {
    Idle,
    /// Ranks write their files; ranks of further replicas write none.
    Writing {
        step: usize,
        task: Option<JoinHandle<(Copied, Written)>>,
    },
    /// The first rank publishes the checkpoint.
    Naming {
        step: usize,
        task: Option<JoinHandle<io::Result<()>>>,
    },
}

/// Checkpoint writer of one rank.
#[derive(Debug)]
pub struct Saver {
    directory: PathBuf,
    keep: usize,
    run: Run,
    layout: String,
    units: Vec<(String, usize)>,
    phase: Phase,
    /// Buffers of the previous copy, reused by the next save.
    spare: Option<Copied>,
    shard: usize,
    shards: usize,
    writes: bool,
    first: bool,
}

impl Saver {
    /// Creates a saver and removes incomplete files of killed runs. Every rank must call it.
    pub fn new(engine: &mut dyn Engine, directory: &Path, keep: usize, run: Run) -> Result<Self, Failure> {
        let groups = engine.groups();
        let (shard, shards) = (groups.shard.rank(), groups.shard.size());
        let (writes, first) = (groups.replica.rank() == 0, groups.world.rank() == 0);
        if first {
            remove_leftovers(directory);
        }
        groups.world.barrier()?;
        let (layout, units) = (layout_digest(engine), units(engine));
        let directory = directory.to_owned();
        Ok(Self {
            directory,
            keep,
            run,
            layout,
            units,
            phase: Phase::Idle,
            spare: None,
            shard,
            shards,
            writes,
            first,
        })
    }

    /// Returns whether a save is in progress and this rank has finished its current phase.
    pub fn is_ready(&self) -> bool {
        match &self.phase {
            Phase::Idle => false,
            Phase::Writing { task, .. } => task.as_ref().is_none_or(JoinHandle::is_finished),
            Phase::Naming { task, .. } => task.as_ref().is_none_or(JoinHandle::is_finished),
        }
    }

    /// Starts a save and returns when the shards are copied. Every rank must call it.
    pub fn begin(&mut self, engine: &mut dyn Engine, step: usize) -> Result<(), Failure> {
        self.drain(engine)?;
        compare_replicas(engine)?;
        let mut task = None;
        if self.writes {
            let copied = copy(engine, self.spare.take())?;
            let partial = self.partial(step);
            let name = file_name(self.shard, self.shards);
            task = Some(std::thread::spawn(move || {
                let tensors: Vec<_> =
                    copied.iter().map(|(name, v)| (name.clone(), vec![v.len()], v.as_slice())).collect();
                let written = write(&partial, &name, step, &tensors);
                drop(tensors);
                (copied, written)
            }));
        }
        self.phase = Phase::Writing { step, task };
        Ok(())
    }

    /// Saves without a copy and returns when the checkpoint is complete. Every rank must call it.
    pub fn save_now(&mut self, engine: &mut dyn Engine, step: usize) -> Result<(), Failure> {
        self.drain(engine)?;
        compare_replicas(engine)?;
        let mut written = None;
        if self.writes {
            let values = named_tensors(engine)?;
            let tensors: Vec<_> =
                values.iter().map(|(name, v)| (name.clone(), vec![v.len()], v.as_ref())).collect();
            written = Some(write(&self.partial(step), &file_name(self.shard, self.shards), step, &tensors));
        }
        self.share_digests(engine, step, written)?;
        self.drain(engine)
    }

    /// Ends the current phase after all ranks are `ready`. Returns the step if this completed a checkpoint. Every rank
    /// must call it.
    pub fn advance(&mut self, engine: &mut dyn Engine) -> Result<Option<usize>, Failure> {
        let lost = |_| Failure::new(Code::Bug, "a checkpoint thread panicked");
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => Ok(None),
            Phase::Writing { step, task } => {
                let written = task.map(|task| task.join().map_err(lost)).transpose()?;
                let written = written.map(|(copied, written)| {
                    self.spare = Some(copied);
                    written
                });
                self.share_digests(engine, step, written)?;
                Ok(None)
            }
            Phase::Naming { step, task } => {
                let named = task.map(|task| task.join().map_err(lost)).transpose()?.unwrap_or(Ok(()));
                let partial = self.partial(step);
                fail_on_every_rank(engine, named.map_err(|e| fail(&partial, e)), &partial)?;
                Ok(Some(step))
            }
        }
    }

    /// Completes the save in progress, if any. Every rank must call it.
    pub fn drain(&mut self, engine: &mut dyn Engine) -> Result<(), Failure> {
        while !matches!(self.phase, Phase::Idle) {
            self.advance(engine)?;
        }
        Ok(())
    }

    fn partial(&self, step: usize) -> PathBuf {
        self.directory.join(format!("step-{step:08}.partial"))
    }

    /// Shares the digests of all files, or the failure of any rank to write one.
    fn share_digests(
        &mut self,
        engine: &mut dyn Engine,
        step: usize,
        written: Option<Written>,
    ) -> Result<(), Failure> {
        let partial = self.partial(step);
        let mut table = vec![0.0f64; self.shards * COLUMNS];
        let mut mine = Ok(());
        match written {
            Some(Ok((digest, bytes))) => {
                let row = &mut table[self.shard * COLUMNS..(self.shard + 1) * COLUMNS];
                for (to, word) in row.iter_mut().zip(digest.as_bytes().chunks(8)) {
                    let word = std::str::from_utf8(word).ok().and_then(|w| u32::from_str_radix(w, 16).ok());
                    *to = f64::from(word.unwrap_or(0));
                }
                row[COLUMNS - 1] = bytes as f64;
            }
            Some(Err(error)) => {
                mine = Err(fail(&partial, format!("{}: {error}", file_name(self.shard, self.shards))));
            }
            None => {}
        }
        let agreed = fail_on_every_rank(engine, mine, &partial);
        if agreed.is_err() && self.first {
            // Frees space for the next attempt. Earlier complete checkpoints are not affected.
            let _ = fs::remove_dir_all(&partial);
        }
        agreed?;
        engine.groups().world.all_reduce_f64(&mut table)?;
        let mut task = None;
        if self.first {
            let files = table
                .chunks(COLUMNS)
                .map(|row| {
                    let words = &row[..COLUMNS - 1];
                    let bytes: Vec<u8> = words.iter().flat_map(|w| (*w as u32).to_be_bytes()).collect();
                    (hex(&bytes), row[COLUMNS - 1] as u64)
                })
                .collect();
            let state = State {
                form: FORM.to_owned(),
                config: self.run.config.clone(),
                step,
                sequences: step as u64 * self.run.global_sequences,
                seed: self.run.seed,
                data: self.run.data.clone(),
                shards: self.shards,
                units: self.units.clone(),
                layout: self.layout.clone(),
                files,
                began: self.run.began.clone(),
                model: Some(self.run.model.clone()),
                settings: Some(self.run.settings.clone()),
                digest: None,
            };
            let (directory, keep, stays) = (self.directory.clone(), self.keep, self.run.stays.clone());
            let name = move || publish_checkpoint(&directory, &partial, &state, keep, stays.as_deref());
            task = Some(std::thread::spawn(name));
        }
        self.phase = Phase::Naming { step, task };
        Ok(())
    }
}

/// Fails on every rank if one failed: that rank reports its own error, the others refer to it.
fn fail_on_every_rank(
    engine: &mut dyn Engine,
    mine: Result<(), Failure>,
    partial: &Path,
) -> Result<(), Failure> {
    let mut failed = [f64::from(u8::from(mine.is_err()))];
    engine.groups().world.all_reduce_f64(&mut failed)?;
    mine?;
    if failed[0] > 0.0 {
        let message = format!("checkpoint {}: another rank failed to write", partial.display());
        return Err(Failure::new(Code::Peer, message));
    }
    Ok(())
}

/// Returns a checksum that changes with any bit.
fn checksum_bits(values: &[f32]) -> u64 {
    with_simd(
        #[inline(always)]
        || {
            values.iter().fold(0u64, |sum, v| {
                let spread = u64::from(v.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                sum.wrapping_add(spread ^ (spread >> 29))
            })
        },
    )
}

/// Checks that replicas hold identical bits, since any of them may write the checkpoint.
fn compare_replicas(engine: &mut dyn Engine) -> Result<(), Failure> {
    let mut sum = 0u64;
    for at in engine.trained() {
        for kind in StateKind::ALL {
            sum = mix(sum ^ checksum_bits(&engine.read_shard(at, kind)?));
        }
    }
    // In halves: sums of 32-bit numbers are exact.
    let mine = [(sum >> 32) as u32, sum as u32].map(f64::from);
    let mut all = mine;
    engine.groups().replica.all_reduce_f64(&mut all)?;
    let replicas = engine.groups().replica.size() as f64;
    let mut differ = [f64::from(u8::from(all != mine.map(|half| half * replicas)))];
    engine.groups().world.all_reduce_f64(&mut differ)?;
    if differ[0] > 0.0 {
        return Err(Failure::new(Code::Bug, "replicas hold different parameters or optimizer states"));
    }
    Ok(())
}

/// Returns names and values of a rank's file, in file order.
fn named_tensors(engine: &dyn Engine) -> Result<Vec<Named<'_>>, Failure> {
    let mut all = Vec::new();
    for at in engine.trained() {
        for kind in StateKind::ALL {
            let name = format!("{}.{}", engine.shards()[at].unit.name, kind.name());
            all.push((name, engine.read_shard(at, kind)?));
        }
    }
    Ok(all)
}

fn copy(engine: &dyn Engine, spare: Option<Copied>) -> Result<Copied, Failure> {
    let all = named_tensors(engine)?;
    let Some(mut spare) = spare else {
        return Ok(all.into_iter().map(|(name, values)| (name, values.into_owned())).collect());
    };
    for ((_, to), (_, from)) in spare.iter_mut().zip(all) {
        to.copy_from_slice(&from);
    }
    Ok(spare)
}

fn write(partial: &Path, name: &str, step: usize, tensors: &[(String, Vec<usize>, &[f32])]) -> Written {
    fs::create_dir_all(partial)?;
    let metadata = BTreeMap::from([("step".to_owned(), step.to_string())]);
    let written = safetensors::write(&partial.join(name), &metadata, tensors)?;
    fault_injection::kill("shard");
    Ok(written)
}

/// Publishes a checkpoint: writes its state, renames it, updates `latest` and removes checkpoints beyond `keep`.
fn publish_checkpoint(
    directory: &Path,
    partial: &Path,
    state: &State,
    keep: usize,
    stays: Option<&Path>,
) -> io::Result<()> {
    let file = format!("step-{:08}", state.step);
    let done = directory.join(&file);
    replace(&partial.join("state.json"), text_with_digest(state)?.as_bytes())?;
    fault_injection::kill("state");
    if done.exists() {
        // A checkpoint of an abandoned run has this name: exchanging the two leaves a complete one there at any time.
        let exchanged = renameat_with(CWD, partial, CWD, &done, RenameFlags::EXCHANGE);
        if exchanged.is_err() {
            fs::remove_dir_all(&done)?;
            fs::rename(partial, &done)?;
        } else {
            fs::remove_dir_all(partial)?;
        }
    } else {
        fs::rename(partial, &done)?;
    }
    sync(directory)?;
    fault_injection::kill("name");
    replace(&directory.join(LATEST), format!("{file}\n").as_bytes())?;
    fault_injection::kill("latest");
    // Checkpoints of a longer, abandoned run are not removed.
    let mut mine = list_checkpoints(directory);
    let stays = stays.and_then(|path| fs::canonicalize(path).ok());
    mine.retain(|(step, path)| *step <= state.step && stays != fs::canonicalize(path).ok());
    for (_, old) in &mine[..mine.len().saturating_sub(keep)] {
        // Renamed first: an interrupted removal must not leave a directory that looks like a complete checkpoint.
        let going = old.with_extension("partial");
        fs::rename(old, &going)?;
        fs::remove_dir_all(going)?;
    }
    Ok(())
}

/// Replaces a file atomically.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let mut file = File::create(&partial)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    path.parent().map_or(Ok(()), sync)
}

fn remove_leftovers(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if !name.ends_with(".partial") {
            continue;
        }
        if name.starts_with("step-") {
            let _ = fs::remove_dir_all(entry.path());
        } else if ["preflight-", "shared-"].iter().any(|probe| name.starts_with(probe)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
