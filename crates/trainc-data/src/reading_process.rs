//! The process in which tokenizers, templates and documents are read for `trainc data pack`: trainc itself,
//! started with one argument that no user types. It has no environment, opens no file, and ends when its
//! input does.

use crate::document::{Maker, TrainOn};
use crate::fault::Fault;
use crate::message::{self, Kind, LineResult, Setup, Tokens};
use crate::record::{self, Record};
use crate::template::Template;
use crate::vocabulary::{MOST_LINE_BYTES, Vocabulary, check_size};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, BufReader, BufWriter, Write};
use std::process::ExitCode;

/// The argument with which trainc becomes this process.
pub const ARGUMENT: &str = "read-training-data";

/// Stack of the thread that reads: the values of a template nest, and are dropped, recursively. Only what is
/// used takes memory.
const STACK_BYTES: usize = 128 << 20;
/// Maximum length of a printed panic in characters.
const MOST_PANIC_CHARS: usize = 300;

/// Processor time in seconds for a message of this many bytes.
pub(crate) fn seconds_for(bytes: usize) -> u64 {
    const LEAST: u64 = 2;
    const MOST: u64 = 300;
    const BYTES_PER_SECOND: u64 = 16 << 10;
    (LEAST + bytes as u64 / BYTES_PER_SECOND).min(MOST)
}

/// Runs the process.
pub fn run() -> ExitCode {
    // The text may be that of a hostile file.
    std::panic::set_hook(Box::new(|panic| {
        let text: String = panic.to_string().chars().take(MOST_PANIC_CHARS).collect();
        let _ = io::stderr().write_all(text.as_bytes());
    }));
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(serve);
    let ended = thread.map(std::thread::JoinHandle::join);
    ExitCode::from(u8::from(!matches!(ended, Ok(Ok(Ok(()))))))
}

/// Answers messages until the input ends.
fn serve() -> io::Result<()> {
    let (mut input, mut output) = (BufReader::new(io::stdin()), BufWriter::new(io::stdout()));
    let mut reader = None;
    while let Some((kind, content)) = message::read(&mut input)? {
        limit_time(seconds_for(content.len()))?;
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        if kind == Kind::Setup {
            let setup: Setup = serde_json::from_slice(&content)?;
            limit_memory(setup.memory)?;
            reader = Some(Reader { setup, config: None, maker: None });
            continue;
        }
        let reader = reader.as_mut().ok_or_else(invalid)?;
        let answer = match kind {
            Kind::Config => {
                reader.config = Some(String::from_utf8(content).map_err(|_| invalid())?);
                continue;
            }
            Kind::Tokenizer => message::encode_result(&reader.read_tokenizer(&content)),
            Kind::Template => {
                let text = String::from_utf8(content).map_err(|_| invalid())?;
                message::encode_result(&reader.read_template(&text))
            }
            Kind::Lines => {
                let lines = message::decode_parts(&content)?;
                let maker = reader.maker.as_ref().ok_or_else(invalid)?;
                let documents = match lines.as_slice() {
                    [line] => vec![read_alone(maker, read_record(line), &mut output)?],
                    _ => lines.iter().map(|line| read_line(maker, line)).collect(),
                };
                message::encode_documents(&documents)
            }
            Kind::Text => {
                let text = String::from_utf8(content).map_err(|_| invalid())?;
                let maker = reader.maker.as_ref().ok_or_else(invalid)?;
                let record = Ok(Some(Record::Text(text)));
                message::encode_documents(&[read_alone(maker, record, &mut output)?])
            }
            Kind::Setup | Kind::Rendered | Kind::Answer => return Err(invalid()),
        };
        message::write(&mut output, Kind::Answer, &answer)?;
    }
    Ok(())
}

/// What has been read.
struct Reader {
    setup: Setup,
    config: Option<String>,
    maker: Option<Maker>,
}

impl Reader {
    fn read_tokenizer(&mut self, json: &[u8]) -> Result<Tokens, Fault> {
        let Setup { eos, width, all, .. } = &self.setup;
        let vocabulary = Vocabulary::new(json, self.config.as_deref(), eos.as_deref(), *width)?;
        let eos = vocabulary.tokens.get("eos_token").cloned().unwrap_or_default();
        let tokens = Tokens { eos, eos_id: vocabulary.eos, size: vocabulary.size };
        let train_on = if *all { TrainOn::All } else { TrainOn::Answers };
        self.maker = Some(Maker { vocabulary, template: None, train_on });
        Ok(tokens)
    }

    fn read_template(&mut self, text: &str) -> Result<(), Fault> {
        let Some(maker) = &mut self.maker else { return Ok(()) };
        let template = Template::new(text, maker.vocabulary.tokens.clone(), &self.setup.today)?;
        maker.template = Some(template);
        Ok(())
    }
}

fn read_record(line: &[u8]) -> Result<Option<Record>, Fault> {
    if line.len() > MOST_LINE_BYTES { check_size(line.len()).map(|()| None) } else { record::read(line) }
}

fn read_line(maker: &Maker, line: &[u8]) -> LineResult {
    read_record(line)?.map(|record| maker.make(&record)).transpose()
}

/// Reads one document, and says when the template has been rendered.
fn read_alone(
    maker: &Maker,
    record: Result<Option<Record>, Fault>,
    output: &mut impl Write,
) -> io::Result<LineResult> {
    let text = record.and_then(|record| record.map(|record| maker.text_of(&record)).transpose());
    message::write(output, Kind::Rendered, &[])?;
    Ok(text.and_then(|text| text.map(|text| maker.tokenize(text)).transpose()))
}

/// Bounds the memory of the process, and writes no image of it where it is killed.
fn limit_memory(bytes: u64) -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // Not enforced by macOS, whose users have the limit of time.
    setrlimit(Resource::As, Rlimit { current: Some(bytes), maximum: Some(bytes) })
        .or_else(|error| if cfg!(target_os = "macos") { Ok(()) } else { Err(error.into()) })
}

/// Ends the process when it has used this many more seconds of processor time.
fn limit_time(seconds: u64) -> io::Result<()> {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).tv_sec;
    let current = u64::try_from(used).unwrap_or(0) + 1 + seconds;
    let maximum = getrlimit(Resource::Cpu).maximum;
    let current = maximum.map_or(current, |maximum| current.min(maximum));
    Ok(setrlimit(Resource::Cpu, Rlimit { current: Some(current), maximum })?)
}
