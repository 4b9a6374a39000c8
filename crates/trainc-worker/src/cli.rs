//! The command line.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::process::Signal;

use crate::bench;
use crate::checkpoint;
use crate::checkpoint_lock::CheckpointLock;
use crate::config::Config;
use crate::console;
use crate::exit::{Code, Failure, TABLE};
use crate::fsdp::MemoryParts;
use crate::launch::{self, Purpose};
use crate::model::layout::Shape;
use crate::placement;
use crate::signals;
use crate::simulate;
use crate::train::Outcome;

/// Trains decoder-only transformers with fully sharded data parallelism.
#[derive(Debug, Parser)]
#[command(name = "trainc-worker", version)]
struct App {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Start all ranks of a config on this host and see them through
    Launch {
        /// worker.json
        config: PathBuf,
        /// CPU ranks instead of the config's cluster; the global batch stays
        #[arg(long)]
        ranks: Option<usize>,
        /// Stop with a checkpoint, as at SIGTERM, when this process, which started this one, dies
        #[arg(long, hide = true)]
        parent: Option<u32>,
    },
    /// Find out whether a run will work, in a minute once all ranks are there: links, data, weights, checkpoints, clocks
    Preflight {
        /// worker.json
        config: PathBuf,
        /// As for `launch`
        #[arg(long)]
        ranks: Option<usize>,
    },
    /// One rank; started by `launch`
    #[command(hide = true)]
    Rank {
        config: PathBuf,
        #[arg(long)]
        rank: usize,
        #[arg(long)]
        memory: String,
        /// The launcher
        #[arg(long)]
        parent: Option<u32>,
        #[arg(long)]
        ranks: Option<usize>,
        /// Where the first host's launcher listens
        #[arg(long)]
        rendezvous: Option<String>,
        #[arg(long)]
        preflight: bool,
    },
    /// Check a config and say what a rank will hold, touching nothing
    Check {
        /// worker.json
        config: PathBuf,
        /// As for `launch`
        #[arg(long)]
        ranks: Option<usize>,
    },
    /// One step without training: what each rank reads, says and holds, on a cluster of any size
    Simulate {
        /// worker.json
        config: PathBuf,
        /// Ranks instead of the config's; the global batch stays
        #[arg(long)]
        world: Option<usize>,
        /// Which optimizer step, from 0
        #[arg(long, default_value_t = 0)]
        step: u64,
    },
    /// Write the model of a checkpoint as `transformers` reads it, or its adapters as `peft` does
    Export {
        /// worker.json that it was trained with
        config: PathBuf,
        /// A checkpoint's directory; without it the newest of the config's
        #[arg(long)]
        checkpoint: Option<PathBuf>,
        /// Directory to write
        #[arg(long)]
        out: PathBuf,
        /// f32, bf16 or f16; f32 unless it is said. Adapters alone are written in f32
        #[arg(long, value_parser = ["f32", "bf16", "f16"])]
        dtype: Option<String>,
        /// Add adapters to the weights that they were trained on
        #[arg(long)]
        merge: bool,
    },
    /// Time the matrix products of a training pass, alone on one thread
    Bench {
        /// Instead, write random tokens for a comparison of trainings into this directory
        #[arg(long, hide = true)]
        tokens: Option<PathBuf>,
        #[arg(long, hide = true, default_value_t = 256)]
        sequence_length: usize,
        #[arg(long, hide = true, default_value_t = 64)]
        sequences: usize,
        #[arg(long, hide = true, default_value_t = 8192)]
        vocab: usize,
    },
    /// Say what a checkpoint is
    Inspect {
        /// Its directory
        checkpoint: PathBuf,
    },
}

fn read(path: &Path, ranks: Option<usize>) -> Result<Config, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::new(Code::Config, format!("config {}: {e}", path.display())))?;
    let config = Config::parse(&text)?;
    ranks.map_or(Ok(config.clone()), |ranks| config.on_ranks(ranks))
}

fn outcome(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Done => 0,
        Outcome::Saved => Code::Saved as u8,
    }
}

/// Launches; a failure is also written where SageMaker looks for it.
fn launch_and_record(path: &Path, ranks: Option<usize>, purpose: Purpose) -> Result<u8, Failure> {
    let config = read(path, ranks);
    let file = if let Ok(config) = &config {
        Some(PathBuf::from(&config.output.failure))
    } else {
        // Without a config, SageMaker's own place, where there is one.
        let output = placement::sagemaker_directory(&std::env::vars().collect()).join("output");
        output.is_dir().then(|| output.join("failure"))
    };
    let placed =
        config.and_then(|config| launch::detect_placement(&config, ranks).map(|place| (config, place)));
    // One launcher of a run writes checkpoints: that of the first host. Files of the run that has the lock stay as they
    // are, its reason of failure too.
    let first = placed.as_ref().ok().filter(|(_, place)| (place.host, place.local) == (0, 0));
    let _lock = first
        .map(|(config, _)| CheckpointLock::acquire(Path::new(&config.checkpoint.directory)))
        .transpose()?;
    if let Some(file) = &file {
        // That of an earlier run.
        let _ = std::fs::remove_file(file);
    }
    let result = placed.and_then(|(config, place)| launch::launch(&config, &place, path, ranks, purpose));
    if let (Err(failure), Some(file)) = (&result, file) {
        if let Some(parent) = file.parent() {
            let _ = std::fs::create_dir_all(parent);
        }
        // The first 1,024 characters become the job's failure reason.
        let reason: String = failure.message.chars().take(1000).collect();
        let _ = std::fs::write(file, format!("{reason}\n"));
    }
    result.map(outcome)
}

fn run(command: Subcommands) -> Result<u8, Failure> {
    match command {
        Subcommands::Launch { config, ranks, parent } => {
            if let Some(parent) = parent {
                signals::send_on_parent_death(parent, Signal::TERM)?;
            }
            launch_and_record(&config, ranks, Purpose::Train)
        }
        Subcommands::Preflight { config, ranks } => launch_and_record(&config, ranks, Purpose::Preflight),
        Subcommands::Rank { config, rank, memory, parent, ranks, rendezvous, preflight } => {
            // A rank does not outlive its launcher, however that ends.
            if let Some(parent) = parent {
                signals::send_on_parent_death(parent, Signal::KILL)?;
            }
            let purpose = if preflight { Purpose::Preflight } else { Purpose::Train };
            launch::rank(&read(&config, ranks)?, rank, &memory, rendezvous.as_deref(), purpose).map(outcome)
        }
        Subcommands::Check { config, ranks } => {
            let config = read(&config, ranks)?;
            let shape = Shape::from_model(&config.model);
            let bytes = MemoryParts::from_config(&config);
            console::result(serde_json::json!({
                "job": config.job, "ranks": config.ranks(), "shard_degree": config.mesh.shard_degree,
                "data_parallel_replicas": config.mesh.data_parallel_replicas,
                "accumulation": config.batch.accumulation, "parameters": shape.parameters(),
                "bytes_per_rank": bytes, "total_bytes_per_rank": bytes.total(),
            }))?;
            Ok(0)
        }
        Subcommands::Simulate { config, world, step } => {
            for line in simulate::lines(&read(&config, world)?, step)? {
                if !console::result(line)? {
                    break;
                }
            }
            Ok(0)
        }
        Subcommands::Export { config, checkpoint: path, out, dtype, merge } => {
            let config = read(&config, None)?;
            let usage = |message: &str| Err(Failure::new(Code::Usage, message));
            match (&config.model.adapter, merge, &dtype) {
                (None, true, _) => return usage("`--merge` adds adapters, and `model.adapter` is null"),
                (Some(_), false, Some(_)) => {
                    return usage(
                        "`--dtype` is for whole models: adapters are written in f32; `--merge` writes the model",
                    );
                }
                _ => {}
            }
            let directory = Path::new(&config.checkpoint.directory);
            let path = path.or_else(|| checkpoint::newest(directory)).ok_or_else(|| {
                let shown = directory.display();
                Failure::new(Code::Checkpoint, format!("checkpoint {shown}: there is none that is complete"))
            })?;
            if std::fs::read_dir(&out).is_ok_and(|mut entries| entries.next().is_some()) {
                let shown = out.display();
                return Err(Failure::new(Code::Usage, format!("{shown} is not empty; nothing was written")));
            }
            let dtype = match dtype.as_deref() {
                Some("bf16") => "BF16",
                Some("f16") => "F16",
                _ => "F32",
            };
            crate::hf::from_checkpoint(&config, &path, &out, dtype, merge).inspect_err(|_| {
                // It was empty: what lies there is half a model.
                for entry in std::fs::read_dir(&out).into_iter().flatten().flatten() {
                    let _ = std::fs::remove_file(entry.path());
                }
            })?;
            console::result(format_args!("wrote {} from {}", out.display(), path.display()))?;
            Ok(0)
        }
        Subcommands::Bench { tokens: Some(directory), sequence_length, sequences, vocab } => {
            bench::write_tokens(&directory, sequence_length, sequences, vocab)
                .map_err(|e| Failure::new(Code::Usage, format!("{}: {e}", directory.display())))?;
            Ok(0)
        }
        Subcommands::Bench { tokens: None, .. } => {
            for (product, gflops) in bench::products() {
                console::result(
                    serde_json::json!({"product": product, "gflops": (gflops * 100.0).round() / 100.0}),
                )?;
            }
            Ok(0)
        }
        Subcommands::Inspect { checkpoint: path } => {
            let state = checkpoint::state(&path)?;
            let text = serde_json::to_string_pretty(&state)
                .map_err(|e| Failure::new(Code::Bug, format!("cannot print: {e}")))?;
            console::result(text)?;
            Ok(0)
        }
    }
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let mut codes = "Exit codes: 0 done".to_owned();
    for (code, meaning) in TABLE {
        let _ = write!(codes, "\n  {:>2} {meaning}", code as u8);
    }
    let matches = <App as clap::CommandFactory>::command().after_help(codes).get_matches();
    let app = match <App as clap::FromArgMatches>::from_arg_matches(&matches) {
        Ok(app) => app,
        Err(error) => error.exit(),
    };
    signals::catch_file_size_signal();
    match run(app.command) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            console::stderr(format_args!("error: {failure}"));
            ExitCode::from(failure.code as u8)
        }
    }
}
