//! Saves checkpoints while training continues: a save copies the shards, and a thread of each rank writes the
//! copy. Between steps an all-reduce tells the ranks when all have written; then a thread of the first rank
//! publishes the checkpoint. At most one save is in progress.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use super::{
    FORM, LATEST, OrderStart, State, file_name, is_complete, layout_digest, list_checkpoints,
    list_directories, sync, text_with_digest, units,
};
use crate::console;
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
    /// Where the order of the data began.
    pub order: OrderStart,
    /// Path in `checkpoint.resume` that the run started from.
    pub began: Option<String>,
    /// The config's `model`, as recorded in the checkpoint.
    pub model: serde_json::Value,
    /// Training settings of the config.
    pub settings: serde_json::Value,
    /// Checkpoint that is never removed, regardless of `keep`.
    pub stays: Option<PathBuf>,
    /// Damaged checkpoints, which do not count as kept ones.
    pub passed_over: Vec<PathBuf>,
    /// Whether there are saves during training, for which memory is reserved.
    pub periodic: bool,
}

/// State of a save.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// It continues, or there is none.
    Pending,
    /// The checkpoint of this step is complete.
    Complete(usize),
    /// It was given up, with the reason; earlier checkpoints are not affected.
    Failed(String),
}

/// Copy of one rank's shards: names and values in file order. The memory is never freed, since a GPU may copy
/// into it.
type Copied = Vec<(String, &'static mut [f32])>;
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
    /// The first rank publishes the checkpoint. The result has what could not be removed.
    Naming {
        step: usize,
        task: Option<JoinHandle<io::Result<Vec<String>>>>,
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
        // Reserved before training: the first save would otherwise also wait for the memory.
        let spare = if run.periodic && writes { Some(reserve(engine)) } else { None };
        Ok(Self {
            directory,
            keep,
            run,
            layout,
            units,
            phase: Phase::Idle,
            spare,
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
        let cleared = self.prepare(engine, step)?;
        let mut task = None;
        if self.writes {
            let mut copied = self.spare.take().unwrap_or_else(|| reserve(engine));
            copy(engine, &mut copied)?;
            let (place, name) = (self.place(step), file_name(self.shard, self.shards));
            task = Some(std::thread::spawn(move || {
                let tensors: Vec<_> =
                    copied.iter().map(|(name, v)| (name.clone(), vec![v.len()], &**v)).collect();
                let written = cleared.and_then(|()| write(&place, &name, step, &tensors));
                drop(tensors);
                (copied, written)
            }));
        }
        self.phase = Phase::Writing { step, task };
        Ok(())
    }

    /// Saves without a copy and returns when the checkpoint is complete. Every rank must call it.
    pub fn save_now(&mut self, engine: &mut dyn Engine, step: usize) -> Result<Progress, Failure> {
        self.drain(engine)?;
        let cleared = self.prepare(engine, step)?;
        let mut written = None;
        if self.writes {
            let values = named_tensors(engine)?;
            let tensors: Vec<_> =
                values.iter().map(|(name, v)| (name.clone(), vec![v.len()], v.as_ref())).collect();
            let name = file_name(self.shard, self.shards);
            written = Some(cleared.and_then(|()| write(&self.place(step), &name, step, &tensors)));
        }
        match self.share_digests(engine, step, written)? {
            Progress::Pending => self.drain(engine),
            failed @ (Progress::Complete(_) | Progress::Failed(_)) => Ok(failed),
        }
    }

    /// Compares replicas, and removes what an abandoned run or a failed save left under the name of this
    /// step.
    fn prepare(&mut self, engine: &mut dyn Engine, step: usize) -> Result<io::Result<()>, Failure> {
        if engine.groups().replica.size() > 1 {
            compare_replicas(engine)?;
        }
        let place = self.place(step);
        let mut left = [f64::from(u8::from(self.first && place.exists()))];
        engine.groups().world.all_reduce_f64(&mut left)?;
        if left[0] == 0.0 {
            return Ok(Ok(()));
        }
        let cleared = if self.first { make_incomplete(&place) } else { Ok(()) };
        if cleared.is_ok() && self.first {
            // What remains is overwritten.
            let _ = fs::remove_dir_all(&place);
        }
        engine.groups().world.barrier()?;
        Ok(cleared)
    }

    /// Ends the current phase after all ranks are `ready`. Every rank must call it.
    pub fn advance(&mut self, engine: &mut dyn Engine) -> Result<Progress, Failure> {
        let lost = |_| Failure::new(Code::Bug, "a checkpoint thread panicked");
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => Ok(Progress::Pending),
            Phase::Writing { step, task } => {
                let written = task.map(|task| task.join().map_err(lost)).transpose()?;
                let written = written.map(|(copied, written)| {
                    self.spare = Some(copied);
                    written
                });
                self.share_digests(engine, step, written)
            }
            Phase::Naming { step, task } => {
                let named = task.map(|task| task.join().map_err(lost)).transpose()?;
                let named = named.unwrap_or_else(|| Ok(Vec::new())).map(|left| {
                    for what in left {
                        console::print_stderr(format_args!("{what}: removed after the next save"));
                    }
                });
                let failed = self.agree(engine, named, step)?;
                Ok(failed.map_or(Progress::Complete(step), Progress::Failed))
            }
        }
    }

    /// Completes the save in progress, if any. Every rank must call it.
    pub fn drain(&mut self, engine: &mut dyn Engine) -> Result<Progress, Failure> {
        let mut last = Progress::Pending;
        while !matches!(self.phase, Phase::Idle) {
            last = self.advance(engine)?;
        }
        Ok(last)
    }

    fn place(&self, step: usize) -> PathBuf {
        self.directory.join(format!("step-{step:08}"))
    }

    /// Returns why the save failed on any rank; then what it wrote is removed.
    fn agree(
        &self,
        engine: &mut dyn Engine,
        mine: io::Result<()>,
        step: usize,
    ) -> Result<Option<String>, Failure> {
        let mut failed = [f64::from(u8::from(mine.is_err()))];
        engine.groups().world.all_reduce_f64(&mut failed)?;
        if failed[0] == 0.0 {
            return Ok(None);
        }
        let (place, rank) = (self.place(step), engine.groups().world.rank());
        let why = match mine {
            Err(error) => format!("checkpoint {}: {error}", place.display()),
            Ok(()) => format!("checkpoint {}: another rank failed to write", place.display()),
        };
        if failed[0] > 0.0 && rank > 0 && !why.ends_with("failed to write") {
            console::print_stderr(format_args!("warning: rank {rank}: {why}"));
        }
        if self.first {
            // Frees space for the next attempt.
            let _ = make_incomplete(&place).and_then(|()| fs::remove_dir_all(&place));
        }
        Ok(Some(why))
    }

    /// Shares the digests of all files, or the failure of any rank to write one.
    fn share_digests(
        &mut self,
        engine: &mut dyn Engine,
        step: usize,
        written: Option<Written>,
    ) -> Result<Progress, Failure> {
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
                let name = file_name(self.shard, self.shards);
                mine = Err(io::Error::new(error.kind(), format!("{name}: {error}")));
            }
            None => {}
        }
        if let Some(why) = self.agree(engine, mine, step)? {
            return Ok(Progress::Failed(why));
        }
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
            let run = self.run.clone();
            let trained = (step - run.order.step) as u64 * run.global_sequences;
            let state = State {
                form: FORM.to_owned(),
                config: run.config.clone(),
                step,
                sequences: run.order.sequences + trained,
                seed: run.seed,
                data: run.data.clone(),
                shards: self.shards,
                units: self.units.clone(),
                layout: self.layout.clone(),
                files,
                began: run.began.clone(),
                order: run.order,
                model: Some(run.model.clone()),
                settings: Some(run.settings.clone()),
                digest: None,
            };
            let (directory, keep) = (self.directory.clone(), self.keep);
            task = Some(std::thread::spawn(move || {
                publish_checkpoint(&directory, &state)?;
                Ok(remove_old_checkpoints(&directory, step, keep, &run))
            }));
        }
        self.phase = Phase::Naming { step, task };
        Ok(Progress::Pending)
    }
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

/// Reserves memory for a copy of a rank's shards, and touches it.
fn reserve(engine: &dyn Engine) -> Copied {
    let mut all = Vec::new();
    for at in engine.trained() {
        let shard = &engine.shards()[at];
        for kind in StateKind::ALL {
            // Pages of zeros would be allocated by the first copy.
            let mut values: &'static mut [f32] = vec![f32::MIN_POSITIVE; shard.len].leak();
            engine.pin(&mut values);
            all.push((format!("{}.{}", shard.unit.name, kind.name()), values));
        }
    }
    all
}

fn copy(engine: &dyn Engine, to: &mut Copied) -> Result<(), Failure> {
    let mut to = to.iter_mut();
    for at in engine.trained() {
        for kind in StateKind::ALL {
            if let Some((_, to)) = to.next() {
                engine.copy_shard(at, kind, to)?;
            }
        }
    }
    Ok(())
}

fn write(place: &Path, name: &str, step: usize, tensors: &[(String, Vec<usize>, &[f32])]) -> Written {
    fs::create_dir_all(place)?;
    let metadata = BTreeMap::from([("step".to_owned(), step.to_string())]);
    let written = safetensors::write(&place.join(name), &metadata, tensors)?;
    fault_injection::kill("shard");
    Ok(written)
}

/// Writes a file under its name and syncs it. Where it is cut, readers find it damaged.
fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create(true).truncate(false).open(path)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()?;
    path.parent().map_or(Ok(()), sync)
}

/// Completes a checkpoint, whose shards are written, by its state, and updates `latest`.
fn publish_checkpoint(directory: &Path, state: &State) -> io::Result<()> {
    let name = format!("step-{:08}", state.step);
    let place = directory.join(&name);
    fault_injection::kill("state");
    write_synced(&place.join("state.json"), text_with_digest(state)?.as_bytes())?;
    sync(directory)?;
    fault_injection::kill("name");
    write_synced(&directory.join(LATEST), format!("{name}\n").as_bytes())?;
    fault_injection::kill("latest");
    Ok(())
}

/// Removes checkpoints beyond `keep` and incomplete ones. Returns what could not be removed: whatever else
/// writes to these directories, such as SageMaker's upload of checkpoints, which leaves a marker beside each
/// file, never ends a run.
fn remove_old_checkpoints(directory: &Path, step: usize, keep: usize, run: &Run) -> Vec<String> {
    // Checkpoints of a longer, abandoned run are not removed.
    let mut mine = list_checkpoints(directory);
    let stays = run.stays.as_deref().and_then(|path| fs::canonicalize(path).ok());
    mine.retain(|(other, path)| {
        *other <= step && stays != fs::canonicalize(path).ok() && !run.passed_over.contains(path)
    });
    let beyond = mine.len().saturating_sub(keep);
    let mut left = Vec::new();
    for (_, old) in mine.into_iter().take(beyond) {
        // First of all it is no longer complete.
        if let Err(error) = make_incomplete(&old) {
            left.push(format!("{}: {error}", old.display()));
        }
    }
    for (_, old) in list_directories(directory).into_iter().filter(|(_, path)| !is_complete(path)) {
        if let Err(error) = remove_directory(&old) {
            left.push(format!("{}: {error}", old.display()));
        }
    }
    left
}

/// Removes a directory into which others may write at the same time.
fn remove_directory(path: &Path) -> io::Result<()> {
    const TRIES: usize = 3;
    let mut result = Ok(());
    for _ in 0..TRIES {
        result = match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Removes the state of a checkpoint, so that what is left of it is never loaded.
fn make_incomplete(place: &Path) -> io::Result<()> {
    match fs::remove_file(place.join("state.json")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync(place),
    }
}

/// Removes what killed runs and older versions left.
fn remove_leftovers(directory: &Path) {
    for (_, path) in list_directories(directory).into_iter().filter(|(_, path)| !is_complete(path)) {
        let _ = remove_directory(&path);
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".partial")) else { continue };
        if name.starts_with("step-") {
            let _ = fs::remove_dir_all(entry.path());
        } else if ["preflight-", "shared-"].iter().any(|probe| name.starts_with(probe)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
