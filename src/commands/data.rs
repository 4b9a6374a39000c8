//! `trainc data`.

use crate::args::Global;
use crate::exit;
use crate::terminal::io::Io;
use crate::views::data::{print_problems, summary};
use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fs;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use trainc_data::document::TrainOn;
use trainc_data::packing::{Findings, Packing, Stop, pack};
use trainc_diag::text;

/// Prepare training data for engine `worker`
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc data pack --tokenizer tokenizer.json --sequence-length 2048 --out \
        packed corpus.jsonl"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Pack(Pack),
}

/// Turn text or JSON lines into packed token shards
///
/// Reads JSON lines (`text`; `prompt` and `completion`; `messages`; `question` and `answers`) or plain text,
/// one document per line or text file, appends the end-of-text token to each, and cuts the token stream into
/// sequences of equal length, without padding. Prompts are masked from the loss. Document boundaries are
/// kept, so that attention can be restricted to a document (`document-mask` of engine `worker`). Writes the
/// shards, and `index.json` with counts and digests.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc data pack --tokenizer tokenizer.json --sequence-length 2048 --out \
        packed corpus.jsonl\n  trainc data pack --tokenizer gpt-neox/tokenizer.json --sequence-length 2048 \
        --template eli5 --out packed eli5.jsonl\n  trainc data pack --tokenizer tokenizer.json \
        --sequence-length 2048 --validation 0.01 --out packed corpus.jsonl"
)]
struct Pack {
    /// Path of tokenizer.json; special tokens and the chat template are read from tokenizer_config.json next
    /// to it
    #[arg(long, value_name = "FILE")]
    tokenizer: PathBuf,
    /// Length of a sequence in tokens; must equal the manifest's sequence-length
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    sequence_length: u32,
    /// Output directory; an existing one is replaced only if `trainc data pack` wrote it
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Chat template (Hugging Face Jinja), or the built-in `eli5`
    #[arg(long, value_name = "FILE")]
    template: Option<String>,
    /// End-of-text token [default: that of the tokenizer]
    #[arg(long, value_name = "TOKEN")]
    eos: Option<String>,
    /// Vocabulary size of the model, which no token ID may exceed
    #[arg(long, value_name = "N")]
    vocab_size: Option<usize>,
    /// Tokens that contribute to the loss: only completions and answers, or all
    #[arg(long, value_enum, value_name = "WHAT", default_value = "answers")]
    train_on: Learnt,
    /// Shuffle the documents with this seed before packing; holds all tokens in memory
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Write a validation set to DIR-validation: a fraction of the documents, e.g. 0.05, selected by `--seed`
    /// (default 0), or files
    #[arg(long, value_name = "FRACTION|FILE", num_args = 1)]
    validation: Vec<String>,
    /// Number of threads (default: the number of processors); does not affect the result
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// JSON lines (.jsonl, .json, .ndjson) or plain text; `-` for standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Learnt {
    /// Completions and answers; of plain text everything.
    Answers,
    /// Every token.
    All,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let Verb::Pack(args) = &args.command;
    let packing = args.packing(&io.today);
    let bar = bar(args, global);
    let mut found = Findings::default();
    let packed = pack(&packing, &mut found, &|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    for (name, lines) in &found.hidden {
        io.note(&format!("{name}: {} more cannot be packed\n", text::count(*lines, "line")));
    }
    if packed.is_err() && !found.problems.is_empty() {
        print_problems(io, global, args.inputs.first(), found);
    }
    match packed {
        Ok(written) => {
            if !global.quiet {
                io.print(&written.iter().map(|(out, index)| summary(index, out)).collect::<String>());
            }
            exit::DONE
        }
        Err(Stop::Refused(why)) => {
            io.note(&format!("error: {why}\n"));
            exit::USAGE
        }
        Err(Stop::Faulty) => exit::MANIFEST,
    }
}

impl Pack {
    fn packing(&self, today: &str) -> Packing {
        Packing {
            tokenizer: self.tokenizer.clone(),
            sequence_length: self.sequence_length,
            out: self.out.clone(),
            template: self.template.clone(),
            eos: self.eos.clone(),
            vocab_size: self.vocab_size,
            train_on: match self.train_on {
                Learnt::Answers => TrainOn::Answers,
                Learnt::All => TrainOn::All,
            },
            seed: self.seed,
            validation: self.validation.clone(),
            threads: self.threads,
            inputs: self.inputs.clone(),
            today: today.to_owned(),
        }
    }
}

fn bar(args: &Pack, global: &Global) -> ProgressBar {
    let bytes: Option<u64> =
        args.inputs.iter().map(|input| fs::metadata(input).ok().map(|found| found.len())).sum();
    let bar = bytes.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    let hidden = global.quiet || !std::io::stderr().is_terminal();
    bar.set_draw_target(if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() });
    let style = "packing {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}
