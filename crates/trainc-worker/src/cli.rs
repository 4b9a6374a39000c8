//! Command line interface.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::process::Signal;

use crate::authentication::Key;
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
    /// Start all ranks of a config on this host and wait for them
    Launch {
        /// Config file (worker.json)
        config: PathBuf,
        /// Train on this many CPU ranks instead of the config's cluster; the global batch size is unchanged
        #[arg(long)]
        ranks: Option<usize>,
        /// Stop with a checkpoint, as on SIGTERM, when this parent process dies
        #[arg(long, hide = true)]
        parent: Option<u32>,
        /// Read the job's key from stdin instead of the file next to the config
        #[arg(long, hide = true)]
        key_stdin: bool,
    },
    /// Check within about a minute whether a run will work: links, data, weights, checkpoints, clocks
    Preflight {
        /// Config file (worker.json)
        config: PathBuf,
        /// Same as for `launch`
        #[arg(long)]
        ranks: Option<usize>,
    },
    /// Check that the GPUs compute what CPUs do and that collectives are right
    Selfcheck {
        /// Config file (worker.json)
        config: PathBuf,
    },
    /// Run one rank; started by `launch`
    #[command(hide = true)]
    Rank {
        config: PathBuf,
        #[arg(long)]
        rank: usize,
        #[arg(long)]
        memory: String,
        /// Process ID of the launcher
        #[arg(long)]
        parent: Option<u32>,
        #[arg(long)]
        ranks: Option<usize>,
        /// Address of the first host's launcher
        #[arg(long)]
        rendezvous: Option<String>,
        #[arg(long)]
        preflight: bool,
        #[arg(long)]
        selfcheck: bool,
    },
    /// Check a config and print the memory of a rank by part, without side effects
    Check {
        /// Config file (worker.json)
        config: PathBuf,
        /// Same as for `launch`
        #[arg(long)]
        ranks: Option<usize>,
    },
    /// Simulate one step without training: data read, collectives and memory of each rank, for any cluster
    /// size
    Simulate {
        /// Config file (worker.json)
        config: PathBuf,
        /// Number of ranks instead of the config's; the global batch size is unchanged
        #[arg(long)]
        world: Option<usize>,
        /// Optimizer step, counted from 0
        #[arg(long, default_value_t = 0)]
        step: u64,
    },
    /// Export the model of a checkpoint for `transformers`, or its adapters for `peft`
    Export {
        /// worker.json that the checkpoint was trained with
        config: PathBuf,
        /// Checkpoint directory [default: the newest checkpoint of the config]
        #[arg(long)]
        checkpoint: Option<PathBuf>,
        /// Output directory
        #[arg(long)]
        out: PathBuf,
        /// Data type of an exported model: f32, bf16 or f16 [default: f32]; adapters are always written in
        /// f32
        #[arg(long, value_parser = ["f32", "bf16", "f16"])]
        dtype: Option<String>,
        /// Merge the adapters into the weights that they were trained on
        #[arg(long)]
        merge: bool,
    },
    /// Benchmark the matrix multiplications of a training pass on one thread
    Bench {
        /// Write random tokens for a benchmark to this directory instead
        #[arg(long, hide = true)]
        tokens: Option<PathBuf>,
        #[arg(long, hide = true, default_value_t = 256)]
        sequence_length: usize,
        #[arg(long, hide = true, default_value_t = 64)]
        sequences: usize,
        #[arg(long, hide = true, default_value_t = 8192)]
        vocab: usize,
    },
    /// Print the state of a checkpoint
    Inspect {
        /// Checkpoint directory
        checkpoint: PathBuf,
    },
}

fn read(path: &Path, ranks: Option<usize>) -> Result<Config, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::new(Code::Config, format!("config {}: {e}", path.display())))?;
    let config = Config::parse(&text)?;
    ranks.map_or(Ok(config.clone()), |ranks| config.on_ranks(ranks))
}

fn outcome_exit_code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Done => 0,
        Outcome::Saved => Code::Saved as u8,
    }
}

/// Launches a run and writes a failure to the file that SageMaker reads.
fn launch_and_record(
    path: &Path,
    ranks: Option<usize>,
    key: Option<Key>,
    purpose: Purpose,
) -> Result<u8, Failure> {
    let config = read(path, ranks);
    let file = if let Ok(config) = &config {
        Some(PathBuf::from(&config.output.failure))
    } else {
        // Without a config, the failure goes to SageMaker's default path, if it exists.
        let output = placement::sagemaker_directory(&std::env::vars().collect()).join("output");
        output.is_dir().then(|| output.join("failure"))
    };
    let placed =
        config.and_then(|config| launch::detect_placement(&config, ranks).map(|place| (config, place)));
    // Only the first host's launcher locks the checkpoint directory. If another run holds the lock, its
    // files, including its failure reason, are left unchanged.
    let first = placed.as_ref().ok().filter(|(_, place)| (place.host, place.local_rank) == (0, 0));
    let _lock = first
        .map(|(config, _)| CheckpointLock::acquire(Path::new(&config.checkpoint.directory)))
        .transpose()?;
    if let Some(file) = &file {
        // The reason of an earlier run.
        let _ = std::fs::remove_file(file);
    }
    let result =
        placed.and_then(|(config, place)| launch::launch(&config, &place, path, key, ranks, purpose));
    if let (Err(failure), Some(file)) = (&result, file) {
        if let Some(parent) = file.parent() {
            let _ = std::fs::create_dir_all(parent);
        }
        // SageMaker shows the first 1,024 characters as the job's failure reason.
        let reason: String = failure.message.chars().take(1000).collect();
        let _ = std::fs::write(file, format!("{reason}\n"));
    }
    result.map(outcome_exit_code)
}

fn run(command: Subcommands) -> Result<u8, Failure> {
    match command {
        Subcommands::Launch { config, ranks, parent, key_stdin } => {
            if let Some(parent) = parent {
                signals::send_on_parent_death(parent, Signal::TERM)?;
            }
            let key = key_stdin.then(launch::read_inherited_key).transpose()?;
            launch_and_record(&config, ranks, key, Purpose::Train)
        }
        Subcommands::Preflight { config, ranks } => {
            launch_and_record(&config, ranks, None, Purpose::Preflight)
        }
        Subcommands::Selfcheck { config } => launch_and_record(&config, None, None, Purpose::SelfCheck),
        Subcommands::Rank { config, rank, memory, parent, ranks, rendezvous, preflight, selfcheck } => {
            // A rank must not outlive its launcher.
            if let Some(parent) = parent {
                signals::send_on_parent_death(parent, Signal::KILL)?;
            }
            let purpose = match (preflight, selfcheck) {
                (true, _) => Purpose::Preflight,
                (_, true) => Purpose::SelfCheck,
                _ => Purpose::Train,
            };
            launch::run_rank(&read(&config, ranks)?, rank, &memory, rendezvous.as_deref(), purpose)
                .map(outcome_exit_code)
        }
        Subcommands::Check { config, ranks } => {
            let config = read(&config, ranks)?;
            config.check_gpus()?;
            let shape = Shape::from_model(&config.model);
            let bytes = MemoryParts::from_config(&config);
            console::print_result(serde_json::json!({
                "job": config.job, "ranks": config.ranks(), "shard_degree": config.mesh.shard_degree,
                "data_parallel_replicas": config.mesh.data_parallel_replicas,
                "accumulation": config.batch.accumulation, "parameters": shape.parameters(),
                "bytes_per_rank": bytes, "total_bytes_per_rank": bytes.total(),
            }))?;
            Ok(0)
        }
        Subcommands::Simulate { config, world, step } => {
            for line in simulate::step_lines(&read(&config, world)?, step)? {
                if !console::print_result(line)? {
                    break;
                }
            }
            Ok(0)
        }
        Subcommands::Export { config, checkpoint: path, out, dtype, merge } => {
            let config = read(&config, None)?;
            let usage = |message: &str| Err(Failure::new(Code::Usage, message));
            match (&config.model.adapter, merge, &dtype) {
                (None, true, _) => return usage("`--merge` requires `model.adapter`, which is null"),
                (Some(_), false, Some(_)) => {
                    return usage(
                        "`--dtype` is only valid for whole models: adapters are written in f32; \
                            `--merge` writes the merged model",
                    );
                }
                _ => {}
            }
            let directory = Path::new(&config.checkpoint.directory);
            let path = path.or_else(|| checkpoint::newest(directory)).ok_or_else(|| {
                let shown = directory.display();
                Failure::new(Code::Checkpoint, format!("checkpoint {shown}: no complete checkpoint found"))
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
            crate::hf::export_checkpoint(&config, &path, &out, dtype, merge).inspect_err(|_| {
                // The directory was empty, so all its files belong to the incomplete model.
                for entry in std::fs::read_dir(&out).into_iter().flatten().flatten() {
                    let _ = std::fs::remove_file(entry.path());
                }
            })?;
            console::print_result(format_args!("wrote {} from {}", out.display(), path.display()))?;
            Ok(0)
        }
        Subcommands::Bench { tokens: Some(directory), sequence_length, sequences, vocab } => {
            bench::write_tokens(&directory, sequence_length, sequences, vocab)
                .map_err(|e| Failure::new(Code::Usage, format!("{}: {e}", directory.display())))?;
            Ok(0)
        }
        Subcommands::Bench { tokens: None, .. } => {
            for (product, gflops) in bench::benchmark_products() {
                console::print_result(
                    serde_json::json!({"product": product, "gflops": (gflops * 100.0).round() / 100.0}),
                )?;
            }
            Ok(0)
        }
        Subcommands::Inspect { checkpoint: path } => {
            let state = checkpoint::load_state(&path)?;
            let text = serde_json::to_string_pretty(&state)
                .map_err(|e| Failure::new(Code::Bug, format!("cannot print: {e}")))?;
            console::print_result(text)?;
            Ok(0)
        }
    }
}

/// Runs the command line interface.
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
            console::print_stderr(format_args!("error: {failure}"));
            ExitCode::from(failure.code as u8)
        }
    }
}
