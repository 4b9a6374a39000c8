//! Selection and restoring of the checkpoint to resume from. All ranks agree on one. The ranks of the first replica
//! read it and send their shards to the other replicas, so only the hosts of the first shard group need access to it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{
    Selection, State, fail, file_name, layout_digest_of_units, load, load_state, model_settings, newest,
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
    /// Whether it is in `checkpoint.directory` and need not be saved again.
    pub own: bool,
    /// How it was selected.
    pub(super) selection: Selection,
}

/// Reads a checkpoint's state. A failure suggests the checkpoint to use instead.
fn read_state_or_suggest_earlier(path: &Path, selection: Selection) -> Result<State, Failure> {
    load_state(path).map_err(|failure| {
        // Without the state, the step is taken from the directory's name.
        let name = path.file_name().and_then(|name| name.to_str());
        let step = name.and_then(|name| name.strip_prefix("step-")?.parse().ok()).unwrap_or(0);
        Failure::new(failure.code, failure.message + &selection.help_earlier_checkpoint(path, step))
    })
}

/// Selects the checkpoint to resume from, according to `checkpoint.resume`.
///
/// A path is only the starting point. Once the run has a checkpoint of its own that started from there, a restart
/// resumes from that one; otherwise a run that is stopped every hour would never end.
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
            state: read_state_or_suggest_earlier(&path, Selection::Latest)?,
            path,
            own: true,
            selection: Selection::Latest,
        }));
    }
    // A checkpoint with an unreadable state may be this run's: starting from the path again would lose its progress.
    if let Some(path) = found {
        let state = read_state_or_suggest_earlier(&path, Selection::Latest)?;
        if state.began.as_deref() == Some(c.resume.as_str()) && state.config == config.digest {
            return Ok(Some(ResumePoint { path, state, own: true, selection: Selection::Latest }));
        }
    }
    let path = PathBuf::from(&c.resume);
    let own = match (path.parent().map(fs::canonicalize), fs::canonicalize(directory)) {
        (Some(Ok(parent)), Ok(directory)) => parent == directory,
        _ => false,
    };
    Ok(Some(ResumePoint {
        state: read_state_or_suggest_earlier(&path, Selection::Resume)?,
        path,
        own,
        selection: Selection::Resume,
    }))
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
    // The same tensors compute a different function with other heads, other positions or another adapter alpha.
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

/// Checks that the checkpoint fits this model, data and batch, and that its files have the recorded sizes.
pub fn check_fits(config: &Config, choice: &ResumePoint, data: &str) -> Result<(), Failure> {
    let (path, state) = (&choice.path, &choice.state);
    check_model(config, path, state)?;
    if state.data != data || state.seed != config.data.seed {
        return Err(fail(path, "it was trained on different data or with a different seed"));
    }
    let global = config.batch.global_sequences as u64;
    if !state.sequences.is_multiple_of(global) || state.sequences / global != state.step as u64 {
        let (sequences, step) = (state.sequences, state.step);
        return Err(fail(
            path,
            format!(
                "it records {sequences} sequences in {step} steps, but `batch.global_sequences` is {global}: it was trained with \
                 a different global batch size"
            ),
        ));
    }
    for (shard, (_, bytes)) in state.files.iter().enumerate() {
        let name = file_name(shard, state.shards);
        let advice = choice.selection.help_earlier_checkpoint(path, state.step);
        let found =
            fs::metadata(path.join(&name)).map_err(|e| fail(path, format!("{name}: {e}{advice}")))?.len();
        if found != *bytes {
            return Err(fail(path, format!("{name} has {found} bytes, expected {bytes} bytes{advice}")));
        }
    }
    Ok(())
}

/// The agreed checkpoint: its step, and the checkpoint itself on the ranks that read it.
#[derive(Debug)]
pub struct Found {
    /// Completed optimizer steps.
    pub step: usize,
    /// Whether it is already in `checkpoint.directory`.
    pub own: bool,
    /// Only on the ranks that read it.
    pub choice: Option<ResumePoint>,
}

/// Finds the checkpoint to resume from. Every rank must call it.
pub fn find_on_all_ranks(groups: &mut Groups, config: &Config, data: &str) -> Result<Option<Found>, Failure> {
    let rank = groups.world.rank();
    let choice = if groups.replica.rank() == 0 { choose_checkpoint(config)? } else { None };
    if let Some(choice) = &choice {
        check_fits(config, choice, data)?;
    }
    // For each rank: step + 1, and whether the checkpoint is in the run's own directory; zeros if there is none.
    let mut all = vec![0.0; 2 * groups.world.size()];
    if let Some(choice) = &choice {
        all[2 * rank] = choice.state.step as f64 + 1.0;
        all[2 * rank + 1] = f64::from(u8::from(choice.own));
    }
    groups.world.all_reduce_f64(&mut all)?;
    let (step, own) = (all[0], all[1] > 0.0);
    // The ranks of the first replica come first.
    if all[..2 * config.mesh.shard_degree].chunks_exact(2).any(|found| found[0] != step) {
        return Err(Failure::new(
            Code::Checkpoint,
            format!(
                "checkpoint {}: ranks found different checkpoints: hosts require a shared directory",
                config.checkpoint.directory
            ),
        ));
    }
    Ok((step > 0.0).then(|| Found { step: step as usize - 1, own, choice }))
}

/// Reads the checkpoint and sends the shards to the other replicas. Every rank must call it.
pub fn restore(engine: &mut dyn Engine, found: &Found) -> Result<(), Failure> {
    if let Some(ResumePoint { path, state, selection, .. }) = &found.choice {
        load(engine, path, state, *selection)?;
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

/// Fails if shard groups span hosts that do not share the checkpoint directory, since no host would then hold a
/// complete checkpoint. Every rank must call it. Returns the result of `shared`.
pub fn check_resumable(groups: &mut Groups, config: &Config) -> Result<Option<bool>, Failure> {
    let topology = topology(config);
    let shared = is_directory_shared(groups, config)?;
    let hosts = topology.members(Kind::Shard, Step::Outer, 0).len();
    if shared == Some(false) && hosts > 1 {
        return Err(Failure::new(
            Code::Checkpoint,
            format!(
                "`checkpoint.directory` {}: hosts do not share it, and a shard group spans {hosts} of them, so no host would \
                 hold a complete checkpoint: use a directory that all hosts mount (FSx for Lustre), or at most {} shards, the \
                 number of ranks per host",
                config.checkpoint.directory,
                topology.per_host()
            ),
        ));
    }
    Ok(shared)
}
