//! Packing of files: a tokenizer, a template and lines of data in, directories of shards out.

use crate::document::TrainOn;
use crate::document_reader::{ReadDocument, RejectedLine, hex, read_documents};
use crate::fault::Fault;
use crate::fence::{Fence, Inputs, Unread};
use crate::message::Setup;
use crate::shard::{self, Index, Layout};
use crate::shard_writer::check_replaceable;
use crate::splits::{HeldOut, SplitWriter, validation_dir};
use crate::template::ELI5;
use crate::vocabulary;
use sha2::{Digest as _, Sha256};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use trainc_diag::Problems;
use trainc_diag::source::SourceMap;
use trainc_project::files::{describe, open_named, read_named, read_named_text, read_regular_text};

/// What is packed, and how.
#[derive(Clone, Debug)]
pub struct Packing {
    /// Path of tokenizer.json.
    pub tokenizer: PathBuf,
    /// Length of a sequence in tokens.
    pub sequence_length: u32,
    /// Output directory.
    pub out: PathBuf,
    /// Path of a chat template, or `eli5`.
    pub template: Option<String>,
    /// End-of-text token; that of the tokenizer if `None`.
    pub eos: Option<String>,
    /// Vocabulary size of the model.
    pub vocab_size: Option<usize>,
    /// Tokens that contribute to the loss.
    pub train_on: TrainOn,
    /// Seed with which the documents are shuffled.
    pub seed: Option<u64>,
    /// A fraction of the documents, or files, as written: the validation set.
    pub validation: Vec<String>,
    /// Number of threads; that of the processors if `None`.
    pub threads: Option<u16>,
    /// Paths of the data; `-` is standard input.
    pub inputs: Vec<String>,
    /// Today, as an ISO date, for templates that ask for it.
    pub today: String,
}

/// Maximum size of a tokenizer in bytes.
const MOST_TOKENIZER_BYTES: u64 = 512 << 20;
/// Maximum size of a chat template, or of the file that contains it, in bytes.
const MOST_TEMPLATE_BYTES: u64 = 64 << 20;

/// Maximum number of problems shown per file.
const SHOWN: usize = 20;

/// Why nothing was written.
#[derive(Debug)]
pub enum Stop {
    /// An argument, a file or a directory cannot be used; the reason.
    Refused(String),
    /// The inputs have the problems that were found.
    Faulty,
}

/// Returns the reason for a file that cannot be read or written; `verb` is `read` or `written`.
pub(crate) fn file_error(path: &str, verb: &str, error: &std::io::Error) -> Stop {
    Stop::Refused(format!("`{path}` cannot be {verb}: {}", describe(error)))
}

/// Problems of the inputs, each at its line.
#[derive(Default)]
pub struct Findings {
    /// Texts of the lines with problems.
    pub sources: SourceMap,
    /// The problems.
    pub problems: Problems,
    /// Files with more lines that cannot be packed than are shown, and the number of these lines.
    pub hidden: Vec<(String, u64)>,
}

impl Findings {
    fn add_fault(&mut self, name: &str, content: &str, fault: Fault) -> Stop {
        let source = self.sources.add(name, content);
        self.problems.push(fault.diagnostic(source, 0));
        Stop::Faulty
    }

    /// Adds the problems of lines. Their source contains only these lines, at their line numbers, since the
    /// file may be larger than memory.
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

/// Packs files. Returns the directories with their indices; `advance` is called with the bytes that were
/// read.
pub fn pack(
    args: &Packing,
    found: &mut Findings,
    advance: &dyn Fn(u64),
) -> Result<Vec<(PathBuf, Index)>, Stop> {
    let held_out = HeldOut::read(&args.validation)?;
    check_replaceable(&args.out)?;
    let (fence, index) = start_fence(args, found)?;
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
            advance(bytes);
        };
        let shown = if input == "-" { "<stdin>" } else { input.as_str() };
        let seen = read_documents(&fence, input, &mut reader, threads, &mut take)
            .map_err(|error| file_error(shown, "read", &error))
            .inspect_err(|_| discard(&parts))?;
        if !refused.is_empty() {
            found.add_rejected_lines(shown, refused);
            if wrong > SHOWN as u64 {
                found.hidden.push((shown.to_owned(), wrong - SHOWN as u64));
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
                        fault.help(
                            "a larger `--validation`; a text file is one document: name another with \
                            `--validation FILE`",
                        )
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
        return Err(Stop::Faulty);
    }
    let mut written = Vec::new();
    for ((part, dropped), name) in parts.into_iter().zip(dropped).zip(["train", "validation"]) {
        let out = part.out.clone();
        let index = part.publish(&index, dropped, held_out.split(name, seed))?;
        written.push((out, index));
    }
    Ok(written)
}

/// Has the tokenizer and its template read; returns the processes that do so, and the index without data.
fn start_fence(args: &Packing, found: &mut Findings) -> Result<(Fence, Index), Stop> {
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
            Stop::Refused(format!("the process that reads `{name}` cannot be used: {why}"))
        }
    };
    let setup = Setup {
        eos: args.eos.clone(),
        width: args.vocab_size,
        all: args.train_on == TrainOn::All,
        today: args.today.clone(),
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
            TrainOn::Answers => "answers",
            TrainOn::All => "all",
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
            Err(Stop::Refused(format!("`{input}` is a directory; name its files")))
        }
        Err(error) => Err(file_error(input, "read", &error)),
    }
}
