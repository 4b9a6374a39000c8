//! `trainc data`.

mod document_reader;
mod fence;
mod reading_process;
mod shard_writer;
mod splits;

use super::args::{Global, problems};
use super::exit;
use super::files::{describe, open_named, read_named, read_named_text, read_regular_text};
use super::io::Io;
use super::manifests::{Manifest, Set};
use crate::data::fault::Fault;
use crate::data::message::Setup;
use crate::data::shard::{self, Index, Layout};
use crate::data::template::ELI5;
use crate::data::vocabulary;
use clap::{Subcommand, ValueEnum};
use document_reader::{ReadDocument, RejectedLine, hex};
use fence::{Fence, Inputs, Unread};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sha2::{Digest as _, Sha256};
use shard_writer::check_replaceable;
use splits::{HeldOut, SplitWriter, validation_dir};
use std::fs;
use std::io::{BufRead, BufReader, IsTerminal as _};
use std::path::{Path, PathBuf};
use trainc_diag::source::SourceMap;
use trainc_diag::text;
use trainc_diag::{Format, Problems};
use trainc_plan::Compiled;

pub(super) use reading_process::{ARGUMENT as READING_PROCESS, run as run_reading_process};

/// Prepare training data for engine `worker`
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc data pack --tokenizer tokenizer.json --sequence-length 2048 --out packed corpus.jsonl"
)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Pack(Pack),
}

/// Turn text or JSON lines into packed token shards
///
/// Reads JSON lines (`text`; `prompt` and `completion`; `messages`; `question` and `answers`) or plain text, one
/// document per line or text file, appends the end-of-text token to each, and cuts the token stream into sequences of
/// equal length, without padding. Prompts are masked from the loss. Document boundaries are kept, so that attention can
/// be restricted to a document (`document-mask` of engine `worker`). Writes the shards, and `index.json` with counts and
/// digests.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc data pack --tokenizer tokenizer.json --sequence-length 2048 --out packed corpus.jsonl\n  trainc data pack --tokenizer gpt-neox/tokenizer.json --sequence-length 2048 --template eli5 --out packed eli5.jsonl\n  trainc data pack --tokenizer tokenizer.json --sequence-length 2048 --validation 0.01 --out packed corpus.jsonl"
)]
struct Pack {
    /// Path of tokenizer.json; special tokens and the chat template are read from tokenizer_config.json next to it
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
    /// Write a validation set to DIR-validation: a fraction of the documents, e.g. 0.05, selected by `--seed` (default 0),
    /// or files
    #[arg(long, value_name = "FRACTION|FILE", num_args = 1)]
    validation: Vec<String>,
    /// Number of threads; does not affect the result
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

/// Maximum size of a tokenizer in bytes.
const MOST_TOKENIZER_BYTES: u64 = 512 << 20;
/// Maximum size of a chat template, or of the file that contains it, in bytes.
const MOST_TEMPLATE_BYTES: u64 = 64 << 20;

/// Maximum number of problems shown per file.
const SHOWN: usize = 20;

/// An early end of a command: the exit code, and the text to print.
pub(super) struct Stop(pub(super) u8, pub(super) String);

/// Returns the error for a file that cannot be read or written; `verb` is `read` or `written`.
pub(super) fn file_error(path: &str, verb: &str, error: &std::io::Error) -> Stop {
    Stop(exit::USAGE, format!("error: `{path}` cannot be {verb}: {}\n", describe(error)))
}

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let Verb::Pack(args) = &args.command;
    let mut found = Findings::default();
    match pack(io, global, args, &mut found) {
        Ok(said) => {
            if !global.quiet {
                io.print(&said);
            }
            exit::DONE
        }
        Err(Stop(code, said)) => {
            if !found.problems.is_empty() {
                let compiled = Compiled::unreadable_file(found.problems);
                let path = args.inputs.first().cloned().unwrap_or_default();
                let manifest = Manifest::new(&path, String::new(), compiled);
                let root = PathBuf::new();
                let set = Set {
                    sources: found.sources,
                    manifests: vec![manifest],
                    many: false,
                    root,
                    constants: None,
                };
                let shown = problems(&set, Format::Human, io, io.color, global);
                io.note_colored(&shown);
            }
            io.note(&said);
            code
        }
    }
}

/// Problems of the inputs, each at its line.
#[derive(Default)]
struct Findings {
    sources: SourceMap,
    problems: Problems,
}

impl Findings {
    fn add_fault(&mut self, name: &str, content: &str, fault: Fault) -> Stop {
        let source = self.sources.add(name, content);
        self.problems.push(fault.diagnostic(source, 0));
        Stop(exit::MANIFEST, String::new())
    }

    /// Adds the problems of lines. Their source contains only these lines, at their line numbers, since the file may be
    /// larger than memory.
    fn add_rejected_lines(&mut self, name: &str, refused: Vec<RejectedLine>) {
        let mut content = String::new();
        let mut placed = Vec::new();
        let mut line = 0;
        for one in refused {
            content.extend(std::iter::repeat_n('\n', one.line.saturating_sub(line)));
            line = one.line;
            content.push_str(&one.text);
            placed.push((content.len() - one.text.len(), one.fault));
        }
        let source = self.sources.add(name, content);
        for (start, fault) in placed {
            self.problems.push(fault.diagnostic(source, start));
        }
    }
}

fn pack(io: &mut Io, global: &Global, args: &Pack, found: &mut Findings) -> Result<String, Stop> {
    let held_out = HeldOut::read(&args.validation)?;
    check_replaceable(&args.out)?;
    let (fence, index) = start_fence(io, args, found)?;
    let threads = args
        .threads
        .map_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get), usize::from);
    let layout = Layout::new(index.sequence_length, fence.tokens.size);
    let discard = |parts: &[SplitWriter]| parts.iter().for_each(SplitWriter::discard);
    let mut parts = vec![SplitWriter::new(&args.out, layout, args.seed)?];
    if held_out.is_some() {
        // The order of evaluation data does not matter, so it is not shuffled.
        let part =
            SplitWriter::new(&validation_dir(&args.out), layout, None).inspect_err(|_| discard(&parts))?;
        parts.push(part);
    }
    let bar = bar(args, global);
    let (mut failed, mut place, seed) = (0_u64, 0_u64, args.seed.unwrap_or(0));
    let named = args.inputs.iter().map(|input| (input, false));
    for (input, apart) in named.chain(held_out.files().iter().map(|input| (input, true))) {
        let mut reader = open(input).inspect_err(|_| discard(&parts))?;
        let mut refused: Vec<RejectedLine> = Vec::new();
        let (mut wrong, mut documents) = (0_u64, 0_u64);
        let mut take = |made: Vec<ReadDocument>, bytes: u64| {
            for one in made {
                match one {
                    Ok(document) => {
                        let at = usize::from(apart || held_out.is_held_out(seed, place));
                        documents += 1;
                        place += 1;
                        if let Some(part) = parts.get_mut(at).filter(|_| failed + wrong == 0) {
                            part.take(document);
                        }
                    }
                    Err(one) => {
                        wrong += 1;
                        if refused.len() < SHOWN {
                            refused.push(*one);
                        }
                    }
                }
            }
            bar.inc(bytes);
        };
        let shown = if input == "-" { "<stdin>" } else { input.as_str() };
        let seen = document_reader::read_documents(&fence, input, &mut reader, threads, &mut take)
            .map_err(|error| file_error(shown, "read", &error))
            .inspect_err(|_| discard(&parts))?;
        if !refused.is_empty() {
            found.add_rejected_lines(shown, refused);
            if wrong > SHOWN as u64 {
                let more = text::count(wrong - SHOWN as u64, "line");
                bar.suspend(|| io.note(&format!("{shown}: {more} more cannot be packed\n")));
            }
        }
        failed += wrong;
        let name = Path::new(shown).file_name().map_or(shown.into(), |name| name.to_string_lossy());
        let (name, bytes, sha256) = (name.into_owned(), seen.bytes, seen.sha256);
        let input = shard::Input { name, bytes, documents, sha256 };
        // With separate validation files, each split lists only its own inputs.
        let mine = matches!(held_out, HeldOut::Files(_)).then_some(usize::from(apart));
        for (_, part) in parts.iter_mut().enumerate().filter(|(at, _)| mine.is_none_or(|mine| mine == *at)) {
            part.inputs.push(input.clone());
        }
    }
    bar.finish_and_clear();
    let mut dropped = Vec::new();
    if failed == 0 {
        for at in 0..parts.len() {
            let Some(closed) = parts.get_mut(at).map(SplitWriter::close) else { continue };
            match closed.inspect_err(|_| discard(&parts))? {
                Ok(tokens) => dropped.push(tokens),
                Err(fault) => {
                    discard(&parts);
                    let first = if at == 0 {
                        args.inputs.first()
                    } else {
                        held_out.files().first().or(args.inputs.first())
                    };
                    let fault = if at == 1 && matches!(held_out, HeldOut::Fraction(_)) {
                        fault.help("a larger `--validation`; a text file is one document: name another with `--validation FILE`")
                    } else {
                        fault
                    };
                    return Err(found.add_fault(first.map_or("", String::as_str), "", fault));
                }
            }
        }
    }
    if failed > 0 {
        discard(&parts);
        return Err(Stop(exit::MANIFEST, String::new()));
    }
    let mut said = String::new();
    for ((part, dropped), name) in parts.into_iter().zip(dropped).zip(["train", "validation"]) {
        let out = part.out.clone();
        let index = part.publish(&index, dropped, held_out.split(name, seed))?;
        said.push_str(&summary(&index, &out));
    }
    Ok(said)
}

/// Has the tokenizer and its template read; returns the processes that do so, and the index without data.
fn start_fence(io: &Io, args: &Pack, found: &mut Findings) -> Result<(Fence, Index), Stop> {
    let shown = args.tokenizer.display().to_string();
    let json = read_named(&args.tokenizer, MOST_TOKENIZER_BYTES)
        .map_err(|error| file_error(&shown, "read", &error))?;
    let beside = args.tokenizer.with_file_name("tokenizer_config.json");
    let config = match read_regular_text(&beside, MOST_TEMPLATE_BYTES) {
        Ok(config) => Some(config),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(file_error(&beside.display().to_string(), "read", &error)),
    };
    let mut unread = |name: &str, content: &str, unread: Unread| match unread {
        Unread::Fault(fault) => found.add_fault(name, content, fault),
        Unread::Process(error) => {
            let why = describe(&error);
            Stop(exit::USAGE, format!("error: the process that reads `{name}` cannot be used: {why}\n"))
        }
    };
    let setup = Setup {
        eos: args.eos.clone(),
        width: args.vocab_size,
        all: args.train_on == Learnt::All,
        today: io.today.clone(),
        memory: Inputs::memory(&json),
    };
    let tokenizer = hex(&Sha256::digest(&json));
    let inputs = Inputs { setup, config: config.clone(), tokenizer: json, template: None };
    let mut fence = Fence::start(inputs).map_err(|error| unread(&shown, "", error))?;
    let (name, template) = match &args.template {
        Some(name) if name == "eli5" && !Path::new(name).exists() => (name.clone(), Some(ELI5.to_owned())),
        Some(path) => {
            let text = read_named_text(Path::new(path), MOST_TEMPLATE_BYTES)
                .map_err(|error| file_error(path, "read", &error))?;
            // It may be a tokenizer_config.json, which contains the template.
            (path.clone(), Some(vocabulary::template_of(&text).unwrap_or(text)))
        }
        None => {
            let beside_template = args.tokenizer.with_file_name("chat_template.jinja");
            let own = read_regular_text(&beside_template, MOST_TEMPLATE_BYTES).ok();
            let inside = || config.as_deref().and_then(vocabulary::template_of);
            (beside_template.display().to_string(), own.or_else(inside))
        }
    };
    if let Some(text) = &template {
        fence.set_template(text).map_err(|error| unread(&name, text, error))?;
    }
    let tokens = fence.tokens.clone();
    let layout = Layout::new(args.sequence_length.try_into().unwrap_or(usize::MAX), tokens.size);
    let index = Index {
        form: shard::FORM,
        dtype: layout.dtype(),
        sequence_length: layout.sequence_length,
        sequences: 0,
        vocab_size: tokens.size,
        masked: false,
        documents: 0,
        tokens: 0,
        trained_labels: 0,
        dropped_tokens: 0,
        eos: shard::Token { token: tokens.eos, id: tokens.eos_id },
        train_on: match args.train_on {
            Learnt::Answers => "answers",
            Learnt::All => "all",
        },
        seed: args.seed,
        tokenizer,
        template: template.map(|text| hex(&Sha256::digest(text.as_bytes()))),
        inputs: Vec::new(),
        files: Vec::new(),
        digest: String::new(),
        split: None,
    };
    Ok((fence, index))
}

fn open(input: &str) -> Result<Box<dyn BufRead + Send>, Stop> {
    match open_named(Path::new(input)) {
        Ok(file) => Ok(Box::new(BufReader::with_capacity(1 << 20, file))),
        Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => {
            Err(Stop(exit::USAGE, format!("error: `{input}` is a directory; name its files\n")))
        }
        Err(error) => Err(file_error(input, "read", &error)),
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

fn summary(index: &Index, out: &Path) -> String {
    let labels = index.sequences * index.sequence_length as u64;
    let mut said = format!(
        "{}: {} of {} tokens, from {} with {}\n",
        out.display(),
        text::count(index.sequences, "sequence"),
        text::group_digits(index.sequence_length as u64),
        text::count(index.documents, "document"),
        text::count(index.tokens, "token"),
    );
    if index.masked {
        let share = index.trained_labels as f64 / labels.max(1) as f64 * 100.0;
        said.push_str(&format!(
            "{} of {} labels are trained on ({share:.0} %)\n",
            text::group_digits(index.trained_labels),
            text::group_digits(labels)
        ));
    }
    if index.dropped_tokens > 0 {
        said.push_str(&format!(
            "{} at the end did not fill a sequence\n",
            text::count(index.dropped_tokens, "token")
        ));
    }
    said.push_str(&format!("digest {}\n", index.digest));
    said
}
