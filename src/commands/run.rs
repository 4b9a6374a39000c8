//! `trainc run`: engine `worker` on this machine.

use crate::args::{Global, Input, problems};
use crate::exit;
use crate::terminal::io::Io;
use serde_json::{Value, json};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use trainc_diag::Format;
use trainc_emit::{self as emit, canonical_json};
use trainc_ir::Plan;
use trainc_ops::local_run::refuse_engine;
use trainc_project::manifests::{Manifest, compile_all};
use trainc_project::worker_binary;

mod child;
mod screen;

/// Train on this machine with engine `worker`, one process per rank
///
/// Compiles the manifest, starts the ranks as processes and shows the loss. Ctrl-C, or closing the terminal,
/// saves a checkpoint and stops; the same command resumes from it.
#[derive(clap::Args, Debug)]
#[command(
    // No effect here.
    mut_arg("runs", |arg| arg.hide(true)),
    after_help = "Examples:\n  trainc run job.kdl\n  trainc run job.kdl --ranks 4 --data packed/\n\nExit \
        codes: 0 success, 3 errors in the manifest or the worker's config, 8 run failed or stopped."
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Number of processes, one rank each; accumulation is adjusted to keep the global batch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    ranks: Option<u64>,
    /// Directory of packed tokens, instead of channel `train`
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Output directory for checkpoints, model, metrics and log [default: runs/JOB]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Output format: human, or json (one line per step)
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let paths = match args.input.named.paths("run") {
        Ok(paths) => paths,
        Err(usage) => {
            io.note(&usage);
            return exit::USAGE;
        }
    };
    let mut set = compile_all(&paths, &args.input.overlay.options(io, false));
    if set.manifests.len() != 1 {
        io.note("error: `run` takes one manifest: a machine trains one job at a time\n");
        return exit::USAGE;
    }
    for manifest in &mut set.manifests {
        refuse_engine(manifest);
    }
    let code = args.input.exit_code(&set);
    let shown = problems(&set, Format::Human, io, io.color, global);
    let errors: usize = set.manifests.iter().map(|manifest| manifest.compiled.problems.errors()).sum();
    if errors > 0 || code != exit::DONE {
        io.note_colored(&shown);
        return exit::MANIFEST;
    }
    let Some((manifest, plan)) =
        set.manifests.first().and_then(|m| Some((m, m.compiled.plan_without_errors()?)))
    else {
        return exit::MANIFEST;
    };
    let Some(binary) = worker_binary::find(args.input.overlay.worker.as_deref()) else {
        io.note(&worker_binary::describe_missing());
        return exit::USAGE;
    };
    match write_local_config(args, manifest, plan) {
        Ok(place) => child::run(io, global, args, plan, &binary, &place),
        Err(fault) => {
            io.note(&format!("error: {fault}\n"));
            exit::USAGE
        }
    }
}

/// Location of a run on this machine.
struct Place {
    /// Lock on the directory, released when the process ends.
    _lock: Option<File>,
    /// Output directory.
    out: PathBuf,
    /// Config file for the worker.
    config: PathBuf,
    /// Checkpoint directory.
    checkpoints: PathBuf,
}

/// Writes the config with this machine's paths.
fn write_local_config(args: &Args, manifest: &Manifest, plan: &Plan) -> Result<Place, String> {
    let identity = emit::identity(plan);
    let job = plan.job.name.value().map_or("job", String::as_str);
    let mut config =
        emit::worker_config(plan, &identity.digest).ok_or("the manifest gives no config for the worker")?;
    let out = absolute(&args.out.clone().unwrap_or_else(|| Path::new("runs").join(job)))?;
    let beside = Path::new(&manifest.path).parent().unwrap_or_else(|| Path::new(""));
    let here = |written: &str| absolute(&beside.join(written));
    let local = manifest.compiled.sagemaker_plan().is_none();
    let data = match &args.data {
        Some(data) => absolute(data)?,
        None => here(config.pointer("/data/train").and_then(Value::as_str).unwrap_or_default())?,
    };
    if !data.join("index.json").is_file() {
        return Err(format!(
            "`{}` holds no packed tokens; make them with `trainc data pack`{}",
            display_path(&data),
            if local || args.data.is_some() { "" } else { " and name them with `--data`" }
        ));
    }
    let checkpoints = match config.pointer("/checkpoint/directory").and_then(Value::as_str) {
        Some(written) if local && plan.job.checkpoint.as_ref().is_some_and(|c| !c.local.is_absent()) => {
            here(written)?
        }
        _ => out.join("checkpoints"),
    };
    set_json_value(&mut config, "/data/train", path_value(&data));
    for (pointer, channel) in [("/data/validation", "validation"), ("/model/weights", "model")] {
        if let Some(written) = config.pointer(pointer).and_then(Value::as_str) {
            let found = here(written)?;
            if !found.is_dir() {
                return Err(format!(
                    "channel `{channel}`: `{}` is not a directory of this machine",
                    display_path(&found)
                ));
            }
            set_json_value(&mut config, pointer, path_value(&found));
        }
    }
    set_json_value(&mut config, "/checkpoint/directory", path_value(&checkpoints));
    set_json_value(&mut config, "/output/model", path_value(&out.join("model")));
    set_json_value(&mut config, "/output/data", path_value(&out.join("output")));
    set_json_value(&mut config, "/output/failure", path_value(&out.join("failure")));
    set_json_value(&mut config, "/log/every_steps", json!(1));
    // On this machine no container limits the run time.
    set_json_value(&mut config, "/limits/max_seconds", Value::Null);
    if args.ranks.is_none() && config.pointer("/cluster/gpus_per_node").and_then(Value::as_u64) != Some(0) {
        return Err(format!(
            "the job's ranks are the GPUs of `{}`; name the processes of this machine with \
                `--ranks`, as `--ranks 2`",
            plan.job
                .cluster
                .as_ref()
                .and_then(|cluster| cluster.instance.value())
                .map_or("?", String::as_str)
        ));
    }
    let fault = |error: std::io::Error| {
        format!("`{}` cannot be written: {}", display_path(&out), trainc_project::files::describe(&error))
    };
    fs::create_dir_all(&out).map_err(fault)?;
    let place = Place { _lock: lock(&out)?, config: out.join("worker.json"), checkpoints, out: out.clone() };
    fs::write(&place.config, canonical_json::pretty(&config)).map_err(fault)?;
    let _ = fs::remove_file(place.out.join("failure"));
    Ok(place)
}

/// Locks the directory against concurrent runs. A file system without locks is used without.
fn lock(out: &Path) -> Result<Option<File>, String> {
    let Ok(directory) = File::open(out) else { return Ok(None) };
    match directory.try_lock() {
        Ok(()) => Ok(Some(directory)),
        Err(TryLockError::Error(_)) => Ok(None),
        Err(TryLockError::WouldBlock) => Err(format!(
            "another `trainc run` is using `{}`; wait for its end, or give this one a directory with `--out`",
            display_path(out)
        )),
    }
}

fn set_json_value(config: &mut Value, pointer: &str, value: Value) {
    if let Some(place) = config.pointer_mut(pointer) {
        *place = value;
    }
}

fn path_value(path: &Path) -> Value {
    Value::from(path.to_string_lossy().into_owned())
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("`{}`: {error}", path.display()))
}

fn display_path(path: &Path) -> String {
    trainc_project::files::display_path(path)
}
