//! What a run goes on from: which checkpoint, that all ranks take the same, and how those get it that have no file of it.
//! The first copy's ranks read; the other copies get their shards from them, so a checkpoint has to lie only where the
//! first shard group is.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Selection, State, fail, file_name, layout_of, load, model_settings, newest, state};
use crate::comm::topology::{Kind, Step};
use crate::comm::{Groups, Wire};
use crate::config::{Config, differences};
use crate::exit::{Code, Failure};
use crate::fsdp::{Engine, topology};
use crate::model::layout::{Shape, Unit};

/// How long a file system may take to show one host what another has written.
const SHOWN: Duration = Duration::from_secs(2);

/// A checkpoint to go on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// Its directory.
    pub path: PathBuf,
    /// What it says of itself.
    pub state: State,
    /// It lies in `checkpoint.directory`: it need not be saved again.
    pub own: bool,
    /// What helps where it is damaged.
    pub(super) selection: Selection,
}

/// What a checkpoint says of itself, or which can be taken instead.
fn read_state(path: &Path, selection: Selection) -> Result<State, Failure> {
    state(path).map_err(|failure| {
        // Without its state, the name says where it stands among the others.
        let name = path.file_name().and_then(|name| name.to_str());
        let step = name.and_then(|name| name.strip_prefix("step-")?.parse().ok()).unwrap_or(0);
        Failure::new(failure.code, failure.message + &selection.help(path, step))
    })
}

/// What `checkpoint.resume` means here and now.
///
/// A path is where a run begins. Once the run has a checkpoint of its own that came from there, a restart goes on from
/// that: a run that is stopped every hour would otherwise never end.
pub fn choose_checkpoint(config: &Config) -> Result<Option<ResumePoint>, Failure> {
    let c = &config.checkpoint;
    let directory = Path::new(&c.directory);
    if c.resume == "never" {
        return Ok(None);
    }
    let found = newest(directory);
    if c.resume == "auto" {
        let Some(path) = found else { return Ok(None) };
        return Ok(Some(ResumePoint {
            state: read_state(&path, Selection::Latest)?,
            path,
            own: true,
            selection: Selection::Latest,
        }));
    }
    // One whose state cannot be read may be this run's: to begin at the path again would lose what it has done.
    if let Some(path) = found {
        let state = read_state(&path, Selection::Latest)?;
        if state.began.as_deref() == Some(c.resume.as_str()) && state.config == config.digest {
            return Ok(Some(ResumePoint { path, state, own: true, selection: Selection::Latest }));
        }
    }
    let path = PathBuf::from(&c.resume);
    let own = match (path.parent().map(fs::canonicalize), fs::canonicalize(directory)) {
        (Some(Ok(beside)), Ok(directory)) => beside == directory,
        _ => false,
    };
    Ok(Some(ResumePoint {
        state: read_state(&path, Selection::Resume)?,
        path,
        own,
        selection: Selection::Resume,
    }))
}

/// Whether a checkpoint is of this model: its tensors, and the function that they are part of.
pub fn check_model(config: &Config, path: &Path, state: &State) -> Result<(), Failure> {
    let units = Shape::from_model(&config.model).units();
    let units: Vec<&Unit> = units.iter().filter(|unit| unit.trained).collect();
    if state.layout != layout_of(units.iter().copied()) {
        let differs = units.iter().zip(&state.units).find(|(a, b)| (&a.name, a.len) != (&b.0, b.1));
        let what = differs.map_or_else(
            || "its tensors are not this model's".to_owned(),
            |(a, b)| format!("unit `{}` has {} elements, this model's `{}` {}", b.0, b.1, a.name, a.len),
        );
        return Err(fail(path, what));
    }
    // The same tensors compute another function with other heads, other positions or another adapter's alpha.
    if let Some(theirs) = &state.model {
        let differs: Vec<String> = differences("model", theirs, &model_settings(config))
            .into_iter()
            .map(|(at, was, is)| format!("`{at}` was {was}, is {is}"))
            .collect();
        if !differs.is_empty() {
            return Err(fail(path, format!("it is of another model: {}", differs.join(", "))));
        }
    }
    Ok(())
}

/// Whether the checkpoint is of this model, data and batch, and its files are there in their sizes.
pub fn fits(config: &Config, choice: &ResumePoint, data: &str) -> Result<(), Failure> {
    let (path, state) = (&choice.path, &choice.state);
    check_model(config, path, state)?;
    if state.data != data || state.seed != config.data.seed {
        return Err(fail(path, "it was trained on other data or with another seed"));
    }
    let global = config.batch.global_sequences as u64;
    if !state.sequences.is_multiple_of(global) || state.sequences / global != state.step as u64 {
        let (sequences, step) = (state.sequences, state.step);
        return Err(fail(
            path,
            format!(
                "it says {sequences} sequences in {step} steps, and `batch.global_sequences` is {global}: it was trained with \
                 another global batch"
            ),
        ));
    }
    for (shard, (_, bytes)) in state.files.iter().enumerate() {
        let name = file_name(shard, state.shards);
        let advice = choice.selection.help(path, state.step);
        let found =
            fs::metadata(path.join(&name)).map_err(|e| fail(path, format!("{name}: {e}{advice}")))?.len();
        if found != *bytes {
            return Err(fail(path, format!("{name} has {found} bytes, {bytes} were written{advice}")));
        }
    }
    Ok(())
}

/// What all ranks go on from: the step, and on the ranks that read, the checkpoint.
#[derive(Debug)]
pub struct Found {
    /// Optimizer steps done.
    pub step: usize,
    /// It is saved in `checkpoint.directory` already.
    pub own: bool,
    /// On the ranks that read.
    pub choice: Option<ResumePoint>,
}

/// Finds it; every rank calls it.
pub fn find(groups: &mut Groups, config: &Config, data: &str) -> Result<Option<Found>, Failure> {
    let rank = groups.world.rank();
    let choice = if groups.replica.rank() == 0 { choose_checkpoint(config)? } else { None };
    if let Some(choice) = &choice {
        fits(config, choice, data)?;
    }
    // Of each rank: steps done and one more, and whether it lies in the run's directory; zeros: there is none.
    let mut all = vec![0.0; 2 * groups.world.size()];
    if let Some(choice) = &choice {
        all[2 * rank] = choice.state.step as f64 + 1.0;
        all[2 * rank + 1] = f64::from(u8::from(choice.own));
    }
    groups.world.all_reduce_f64(&mut all)?;
    let (step, own) = (all[0], all[1] > 0.0);
    // The first copy's ranks are the first ones.
    if all[..2 * config.mesh.shard_degree].chunks_exact(2).any(|found| found[0] != step) {
        return Err(Failure::new(
            Code::Checkpoint,
            format!(
                "checkpoint {}: not all ranks that read find the same one: hosts need a directory that they share",
                config.checkpoint.directory
            ),
        ));
    }
    Ok((step > 0.0).then(|| Found { step: step as usize - 1, own, choice }))
}

/// Reads it, and hands the shards to the other copies; every rank calls it.
pub fn restore(engine: &mut Engine, found: &Found) -> Result<(), Failure> {
    if let Some(ResumePoint { path, state, selection, .. }) = &found.choice {
        load(engine, path, state, *selection)?;
    }
    let (groups, shards) = (&mut engine.groups, &mut engine.shards);
    if groups.replica.size() == 1 {
        return Ok(());
    }
    for shard in shards.iter_mut().filter(|shard| shard.unit.trained) {
        for values in [&mut shard.master, &mut shard.exp_avg, &mut shard.exp_avg_sq] {
            if found.choice.is_none() {
                // The one number that changes no other when it is added, not even the sign of 0.
                values.fill(-0.0);
            }
            groups.replica.all_reduce(values, Wire::F32)?;
        }
    }
    Ok(())
}

/// Whether all hosts see one directory; nothing where there is one host. Every rank calls it.
///
/// The first rank writes a file that nobody else can have written, and a rank of each host looks for it.
pub fn shared(groups: &mut Groups, config: &Config) -> Result<Option<bool>, Failure> {
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

/// Refuses what would save checkpoints that nobody can resume: shard groups that span hosts which do not share the
/// directory, so that each host would hold a part. Every rank calls it; gives what `shared` gives.
pub fn resumable(groups: &mut Groups, config: &Config) -> Result<Option<bool>, Failure> {
    let topology = topology(config);
    let shared = shared(groups, config)?;
    let hosts = topology.members(Kind::Shard, Step::Outer, 0).len();
    if shared == Some(false) && hosts > 1 {
        return Err(Failure::new(
            Code::Checkpoint,
            format!(
                "`checkpoint.directory` {}: hosts do not share it, and a shard group spans {hosts} of them, so no host would \
                 hold a whole checkpoint: use a directory that all hosts mount (FSx for Lustre), or at most {} shards, as \
                 many as a host has ranks",
                config.checkpoint.directory,
                topology.per_host()
            ),
        ));
    }
    Ok(shared)
}
