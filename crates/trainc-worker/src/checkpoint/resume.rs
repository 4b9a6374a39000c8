//! Selection and restoring of the checkpoint to resume from. All ranks agree on one. The ranks of the first
//! replica read it and send their shards to the other replicas, so only the hosts of the first shard group
//! need access to it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::load::verify_part;
use super::{
    Compared, OrderStart, Selection, State, fail, is_complete, layout_digest_of_units, list_directories,
    load, load_state, model_settings, training_settings,
};
use crate::comm::topology::{Kind, Step};
use crate::comm::{Groups, Wire};
use crate::config::{Config, differences};
use crate::exit::{Code, Failure};
use crate::fsdp::{Engine, StateKind, topology};
use crate::model::layout::{Shape, Unit};

/// Time that a file system may take to show one host what another has written.
const SHOWN: Duration = Duration::from_secs(2);

/// A checkpoint to resume from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// Its directory.
    pub path: PathBuf,
    /// Its `state.json`.
    pub state: State,
}

/// A checkpoint that a run may resume from.
#[derive(Clone, Debug)]
struct Candidate {
    path: PathBuf,
    /// How it was selected.
    selection: Selection,
    /// Whether it is in `checkpoint.directory` and need not be saved again.
    own: bool,
}

impl Candidate {
    /// Reads the checkpoint's state and verifies its files. A failure suggests the checkpoint to use instead.
    fn examine(&self, part: (usize, usize), until: Option<Instant>) -> Result<(State, Compared), Failure> {
        let path = &self.path;
        let state = load_state(path).map_err(|failure| {
            let help = self.selection.help_earlier_checkpoint(path, self.step());
            Failure::new(failure.code, failure.message + &help)
        })?;
        let compared = verify_part(path, &state, self.selection, part, until)?;
        Ok((state, compared))
    }

    /// Returns the step in the directory's name.
    fn step(&self) -> usize {
        let name = self.path.file_name().and_then(|name| name.to_str());
        name.and_then(|name| name.strip_prefix("step-")?.parse().ok()).unwrap_or(0)
    }
}

/// Returns the checkpoints that a run may resume from, the preferred one first: those of its own directory up
/// to the one that `latest` names, or the path in `checkpoint.resume`.
///
/// A path is only the starting point. Once the run has a checkpoint of its own that started from there, a
/// restart resumes from that one; otherwise a run that is stopped every hour would never end.
fn candidates(config: &Config) -> Vec<Candidate> {
    let c = &config.checkpoint;
    let directory = Path::new(&c.directory);
    if c.resume == "never" {
        return Vec::new();
    }
    let mut own = list_directories(directory);
    let latest = fs::read_to_string(directory.join(super::LATEST)).unwrap_or_default();
    if is_complete(&directory.join(latest.trim()))
        && let Some(at) = own.iter().position(|(_, path)| path.file_name() == Some(latest.trim().as_ref()))
    {
        own.truncate(at + 1);
    }
    let own = own.into_iter().rev().map(|(_, path)| Candidate { path, selection: Selection::Own, own: true });
    if c.resume == "auto" {
        return own.collect();
    }
    let started_here = |candidate: &Candidate| {
        let state = load_state(&candidate.path);
        state.is_ok_and(|s| s.began.as_deref() == Some(c.resume.as_str()) && s.config == config.digest)
    };
    let mut all: Vec<Candidate> = own.collect();
    // Those from before the newest one that started from the path are not this run's. A state that cannot be
    // read may be this run's: starting from the path again would lose its progress.
    let ours = all.iter().position(started_here);
    let unreadable =
        all.iter().take_while(|other| is_complete(&other.path) && load_state(&other.path).is_err());
    let unreadable = unreadable.count();
    match ours {
        Some(first) => {
            let others = all.split_off(first);
            all.retain(|candidate| load_state(&candidate.path).is_err());
            all.extend(others.into_iter().take_while(started_here));
            return all;
        }
        None if unreadable > 0 => {
            all.truncate(unreadable);
            return all;
        }
        None => {}
    }
    let path = PathBuf::from(&c.resume);
    let own = match (path.parent().map(fs::canonicalize), fs::canonicalize(directory)) {
        (Some(Ok(parent)), Ok(directory)) => parent == directory,
        _ => false,
    };
    vec![Candidate { path, selection: Selection::Resume, own }]
}

/// Checks that a checkpoint has this model's tensors and computes the same function.
pub fn check_model(config: &Config, path: &Path, state: &State) -> Result<(), Failure> {
    let units = Shape::from_model(&config.model).units();
    let units: Vec<&Unit> = units.iter().filter(|unit| unit.trained).collect();
    if state.layout != layout_digest_of_units(units.iter().copied()) {
        let differs = units.iter().zip(&state.units).find(|(a, b)| (&a.name, a.len) != (&b.0, b.1));
        let what = differs.map_or_else(
            || "its tensors do not match this model".to_owned(),
            |(a, b)| {
                format!(
                    "unit `{}` has {} elements, but unit `{}` of this model has {}",
                    b.0, b.1, a.name, a.len
                )
            },
        );
        return Err(fail(path, what));
    }
    // The same tensors compute a different function with other heads, other positions or another adapter
    // alpha.
    if let Some(theirs) = &state.model {
        let differs: Vec<String> = differences("model", theirs, &model_settings(config))
            .into_iter()
            .map(|(at, was, is)| format!("`{at}` was {was}, is {is}"))
            .collect();
        if !differs.is_empty() {
            return Err(fail(path, format!("it belongs to a different model: {}", differs.join(", "))));
        }
    }
    Ok(())
}

/// Returns where the order of the data begins, and a warning if it is another order than the checkpoint's.
///
/// Other data, another seed, batch or schedule are refused unless `checkpoint.accept_changes` is true; then
/// weights and moments are kept.
fn order_after(
    config: &Config,
    path: &Path,
    state: &State,
    data: &str,
) -> Result<(OrderStart, Option<String>), Failure> {
    let mut changes = Vec::new();
    if state.data != data {
        changes.push("`data.train` has other contents".to_owned());
    }
    if state.seed != config.data.seed {
        changes.push(format!("`data.seed` was {}, is {}", state.seed, config.data.seed));
    }
    let global = config.batch.global_sequences as u64;
    let steps = state.step.saturating_sub(state.order.step) as u64;
    let sequences = state.sequences.saturating_sub(state.order.sequences);
    if steps.checked_mul(global) != Some(sequences) {
        changes.push(format!(
            "`batch.global_sequences` is {global}, but {steps} steps have read {sequences} \
                sequences: they had a different global batch size"
        ));
    }
    let was = state.settings.clone().unwrap_or_else(|| training_settings(config));
    let changed: Vec<_> = differences("", &was, &training_settings(config));
    let shuffled = changed.iter().find(|(at, ..)| at.ends_with("data.shuffle"));
    changes.extend(shuffled.map(|(_, was, is)| format!("`data.shuffle` was {was}, is {is}")));
    let reordered = !changes.is_empty();
    let constant = config.schedule.kind == crate::config::ScheduleKind::Constant;
    // More steps at a constant rate are the same schedule.
    let schedule =
        changed.iter().filter(|(at, ..)| at.contains("schedule.") && !(constant && at.ends_with("steps")));
    changes
        .extend(schedule.map(|(at, was, is)| format!("`{}` was {was}, is {is}", at.trim_start_matches('.'))));
    if changes.is_empty() {
        return Ok((state.order, None));
    }
    let changes = changes.join("; ");
    if !config.checkpoint.accept_changes {
        return Err(fail(
            path,
            format!(
                "it was trained with other settings: {changes}; set `checkpoint.accept_changes` \
                    to true to resume with its weights and moments, and to read the data from the beginning \
                    if its order changes"
            ),
        ));
    }
    let order =
        if reordered { OrderStart { step: state.step, sequences: state.sequences } } else { state.order };
    Ok((order, Some(format!("accepted at step {}: {changes}", state.step))))
}

/// The agreed checkpoint: its step, and the checkpoint itself on the ranks that read it.
#[derive(Debug)]
pub struct Found {
    /// Completed optimizer steps.
    pub step: usize,
    /// Whether it is already in `checkpoint.directory`.
    pub own: bool,
    /// Where the order of the data begins.
    pub order: OrderStart,
    /// Only on the ranks that read it.
    pub choice: Option<ResumePoint>,
    /// Files of it that this rank has verified.
    pub compared: Compared,
    /// Damaged checkpoints that were passed over.
    pub passed_over: Vec<PathBuf>,
    /// What the user should know, on the first rank.
    pub warnings: Vec<String>,
}

/// Columns of the table in which ranks compare a candidate.
const COLUMNS: usize = 6;

/// Finds the checkpoint to resume from: the newest that is complete, with the files as recorded. The ranks
/// that will read it share its files, and verify them until the time is up. Every rank must call it.
pub fn find_on_all_ranks(
    groups: &mut Groups,
    config: &Config,
    data: &str,
    until: Option<Instant>,
) -> Result<Option<Found>, Failure> {
    let rank = groups.world.rank();
    let part = (groups.shard.rank(), groups.shard.size());
    let mut list = if groups.replica.rank() == 0 { candidates(config) } else { Vec::new() }.into_iter();
    let (mut passed_over, mut warnings, mut first) = (Vec::new(), Vec::new(), None);
    loop {
        let candidate = list.next();
        let examined = candidate.as_ref().map(|candidate| candidate.examine(part, until));
        // Whether there is a candidate, whether it is damaged, whether it was named; its step, whether it is
        // in the run's own directory, and the sequences before its order.
        let mut all = vec![0.0; COLUMNS * groups.world.size()];
        let mut fits = None;
        if let (Some(candidate), Some(examined)) = (&candidate, &examined) {
            let mine = &mut all[COLUMNS * rank..][..COLUMNS];
            mine[0] = 1.0;
            mine[2] = f64::from(u8::from(candidate.selection == Selection::Resume));
            mine[3] = candidate.step() as f64;
            mine[4] = f64::from(u8::from(candidate.own));
            match examined {
                Ok((state, _)) => {
                    check_model(config, &candidate.path, state)?;
                    let order = order_after(config, &candidate.path, state, data)?;
                    mine[3] = state.step as f64;
                    mine[5] = order.0.step as f64;
                    fits = Some(order);
                }
                // Without its state it is what an interrupted save left.
                Err(_) => mine[1] = if is_complete(&candidate.path) { 2.0 } else { 1.0 },
            }
        }
        groups.world.all_reduce_f64(&mut all)?;
        let readers = all[..COLUMNS * config.mesh.shard_degree].chunks_exact(COLUMNS);
        let any = |column: usize| all.chunks_exact(COLUMNS).any(|row| row[column] > 0.0);
        if !any(0) {
            // Never from the start where there was a checkpoint.
            return first.map_or(Ok(None), Err);
        }
        let damaged = any(1);
        // The ranks of the first replica come first.
        if !damaged && readers.clone().any(|row| row[0] != all[0] || row[3] != all[3]) {
            return Err(Failure::new(
                Code::Checkpoint,
                format!(
                    "checkpoint {}: ranks found different checkpoints: hosts require a shared directory",
                    config.checkpoint.directory
                ),
            ));
        }
        if damaged {
            let path = candidate.as_ref().map(|candidate| candidate.path.clone());
            let other = || {
                let path = path.as_deref().unwrap_or(Path::new(&config.checkpoint.directory));
                Failure::new(
                    Code::Peer,
                    format!("checkpoint {}: another rank found it damaged", path.display()),
                )
            };
            let failure = examined.and_then(Result::err).unwrap_or_else(other);
            if any(2) {
                return Err(failure);
            }
            if rank == 0 {
                warnings.push(format!("{}: passed over", failure.message));
            } else if failure.code != Code::Peer && all[1] == 0.0 {
                crate::console::print_stderr(format_args!("warning: rank {rank}: {failure}"));
            }
            if all.chunks_exact(COLUMNS).any(|row| row[1] > 1.0) {
                first.get_or_insert(failure);
            }
            passed_over.extend(path);
            continue;
        }
        let (mut choice, mut compared, mut order) = (None, Compared::default(), OrderStart::default());
        if let (Some(candidate), Some(Ok((state, found)))) = (candidate, examined) {
            compared = found;
            if let Some((start, warning)) = fits {
                order = start;
                warnings.extend(warning);
            }
            choice = Some(ResumePoint { path: candidate.path, state });
        }
        order.step = all[5] as usize;
        return Ok(Some(Found {
            step: all[3] as usize,
            own: all[4] > 0.0,
            order,
            choice,
            compared,
            passed_over,
            warnings,
        }));
    }
}

/// Reads the checkpoint and sends the shards to the other replicas. Every rank must call it.
pub fn restore(engine: &mut dyn Engine, found: &Found) -> Result<(), Failure> {
    if let Some(ResumePoint { path, state }) = &found.choice {
        load(engine, path, state)?;
    }
    if engine.groups().replica.size() == 1 {
        return Ok(());
    }
    for at in engine.trained() {
        for kind in StateKind::ALL {
            // -0.0 is the additive identity: it preserves even the sign of 0.
            let mut values = match found.choice {
                Some(_) => engine.read_shard(at, kind)?.into_owned(),
                None => vec![-0.0; engine.shards()[at].len],
            };
            engine.groups().replica.all_reduce(&mut values, Wire::F32)?;
            engine.write_shard(at, kind, &values)?;
        }
    }
    Ok(())
}

/// Returns whether all hosts share the checkpoint directory; none for a single host. Every rank must call it.
///
/// The first rank writes a file with a unique name, and one rank of each host looks for it.
pub fn is_directory_shared(groups: &mut Groups, config: &Config) -> Result<Option<bool>, Failure> {
    let topology = topology(config);
    if topology.hosts == 1 {
        return Ok(None);
    }
    let directory = Path::new(&config.checkpoint.directory);
    let rank = groups.world.rank();
    let mut number = [0.0];
    if rank == 0 {
        let time = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
        number[0] = f64::from(time.map_or(0, |t| t.subsec_nanos()) ^ std::process::id());
    }
    groups.world.all_reduce_f64(&mut number)?;
    let marker = directory.join(format!("shared-{}.partial", number[0]));
    if rank == 0 {
        let written = fs::create_dir_all(directory).and_then(|()| File::create(&marker)?.sync_all());
        written.map_err(|e| {
            Failure::new(Code::Checkpoint, format!("`checkpoint.directory` {}: {e}", directory.display()))
        })?;
    }
    groups.world.barrier()?;
    let mut missing = [0.0];
    if rank.is_multiple_of(topology.per_host()) {
        let until = Instant::now() + SHOWN;
        while !marker.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        missing[0] = f64::from(u8::from(!marker.exists()));
    }
    groups.world.all_reduce_f64(&mut missing)?;
    if rank == 0 {
        let _ = fs::remove_file(&marker);
    }
    Ok(Some(missing[0] == 0.0))
}

/// Fails if shard groups span hosts that do not share the checkpoint directory, since no host would then hold
/// a complete checkpoint. Every rank must call it. Returns the result of `shared`.
pub fn check_resumable(groups: &mut Groups, config: &Config) -> Result<Option<bool>, Failure> {
    let topology = topology(config);
    let shared = is_directory_shared(groups, config)?;
    let hosts = topology.members(Kind::Shard, Step::Outer, 0).len();
    if shared == Some(false) && hosts > 1 {
        return Err(Failure::new(
            Code::Checkpoint,
            format!(
                "`checkpoint.directory` {}: hosts do not share it, and a shard group spans \
                    {hosts} of them, so no host would hold a complete checkpoint: use a directory that all \
                    hosts mount (FSx for Lustre), or at most {} shards, the number of ranks per host",
                config.checkpoint.directory,
                topology.per_host()
            ),
        ));
    }
    Ok(shared)
}
