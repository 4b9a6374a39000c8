//! Processes that read tokenizers, templates and documents, with limits of time and memory: a hostile or
//! broken file ends its process, and is reported as a fault.

use crate::fault::{Fault, T0522, T0523, T0770};
use crate::message::{self, HEAD, Kind, LineResult, Setup, Tokens};
use crate::reading_process::{ARGUMENT, seconds_for};
use std::io::{self, BufWriter, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use trainc_diag::text;

/// Memory of a process in bytes, in addition to that for its tokenizer: the largest document takes 100 times
/// its size.
const MEMORY_BYTES: u64 = 3 << 30;
/// Memory for each byte of a tokenizer.
const MEMORY_PER_TOKENIZER_BYTE: u64 = 16;
/// Size in bytes of a line over which no other process reads at the same time.
const LARGE_LINE_BYTES: usize = 1 << 20;
/// Maximum bytes of what a process says on standard error that are read.
const MOST_ERROR_BYTES: u64 = 4 << 10;

/// What every process reads first.
pub(crate) struct Inputs {
    /// How documents are read.
    pub(crate) setup: Setup,
    /// `tokenizer_config.json`.
    pub(crate) config: Option<String>,
    /// `tokenizer.json`.
    pub(crate) tokenizer: Vec<u8>,
    /// The chat template.
    pub(crate) template: Option<String>,
}

/// The processes of a command.
pub(crate) struct Fence {
    inputs: Inputs,
    /// The tokens of the tokenizer.
    pub(crate) tokens: Tokens,
    /// Processes that are ready.
    idle: Mutex<Vec<Process>>,
    /// A process has ended or cannot be used: the command fails, and no further document is read.
    is_broken: AtomicBool,
}

/// Why a process did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    reason: Reason,
    /// The template had been rendered.
    is_rendered: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    /// It used this many seconds of processor time.
    Time(u64),
    /// It used too much memory.
    Memory,
    /// It nested too deeply.
    Stack,
    /// It failed, with what it said.
    Failure(String),
}

/// Why something cannot be read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It has a fault.
    Fault(Fault),
    /// The process cannot be used.
    Process(io::Error),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Process(error)
    }
}

/// An answer, or the end of its process.
type Answered<T> = io::Result<Result<T, End>>;

impl Inputs {
    /// Returns the memory of a process in bytes.
    pub(crate) fn memory(tokenizer: &[u8]) -> u64 {
        MEMORY_BYTES + MEMORY_PER_TOKENIZER_BYTE * tokenizer.len() as u64
    }

    /// Describes why a process ended.
    fn describe(&self, end: &End) -> String {
        match &end.reason {
            Reason::Time(seconds) => format!("it takes more than {seconds} s of processor time"),
            Reason::Memory => format!("it takes more than {} of memory", text::bytes(self.setup.memory)),
            Reason::Stack => "it nests too deeply".to_owned(),
            Reason::Failure(said) => format!("the library that reads it failed: {said}"),
        }
    }
}

impl Fence {
    /// Starts a process, in which the tokenizer is read.
    pub(crate) fn start(inputs: Inputs) -> Result<Self, Unread> {
        let mut process = Process::start()?;
        let tokens = match process.read_tokenizer(&inputs)? {
            Ok(tokens) => tokens.map_err(Unread::Fault)?,
            Err(end) => {
                let message = format!("the tokenizer cannot be read: {}", inputs.describe(&end));
                return Err(Unread::Fault(Fault::new(&T0523, message)));
            }
        };
        Ok(Self { inputs, tokens, idle: Mutex::new(vec![process]), is_broken: AtomicBool::new(false) })
    }

    /// Reads the template.
    pub(crate) fn set_template(&mut self, template: &str) -> Result<(), Unread> {
        self.inputs.template = Some(template.to_owned());
        let idle = self.idle.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(process) = idle.last_mut() else { return Ok(()) };
        match process.read_template(template)? {
            Ok(read) => read.map_err(Unread::Fault),
            Err(end) => {
                let message = format!("the template cannot be read: {}", self.inputs.describe(&end));
                Err(Unread::Fault(Fault::new(&T0522, message)))
            }
        }
    }

    /// Reads lines of JSON: a document, nothing or a fault for each. Once a line has ended its process, there
    /// is no result for it and for those that follow, but the fault of that line.
    pub(crate) fn read_lines(&self, lines: &[&[u8]]) -> io::Result<Vec<LineResult>> {
        let encode = |lines: &[&[u8]]| message::encode_parts(lines.iter().copied());
        let is_large = lines.iter().any(|line| line.len() > LARGE_LINE_BYTES);
        self.read(is_large, |fence, process| {
            let together = fence.ask(process, Kind::Lines, &encode(lines))?;
            let end = match together {
                Ok(documents) if documents.len() == lines.len() => return Ok(documents),
                Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
                Err(end) => end,
            };
            if lines.len() == 1 {
                return Ok(vec![Err(fence.fault_of(&end))]);
            }
            // One of them did it; each alone has the time of its own.
            let mut out = Vec::with_capacity(lines.len());
            for line in lines {
                match fence.ask(process, Kind::Lines, &encode(&[line]))? {
                    Ok(documents) => out.extend(documents),
                    Err(end) => {
                        out.push(Err(fence.fault_of(&end)));
                        break;
                    }
                }
            }
            Ok(out)
        })
    }

    /// Reads a text, which is one document.
    pub(crate) fn read_text(&self, text: &str) -> io::Result<Vec<LineResult>> {
        self.read(false, |fence, process| {
            let documents = fence.ask(process, Kind::Text, text.as_bytes())?;
            Ok(documents.unwrap_or_else(|end| vec![Err(fence.fault_of(&end))]))
        })
    }

    /// Calls `read` with a process, unless the command has failed already.
    fn read(
        &self,
        is_large: bool,
        read: impl FnOnce(&Self, &mut Option<Process>) -> io::Result<Vec<LineResult>>,
    ) -> io::Result<Vec<LineResult>> {
        static LARGE: Mutex<()> = Mutex::new(());
        let _turn = is_large.then(|| LARGE.lock().unwrap_or_else(PoisonError::into_inner));
        if self.is_broken.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let mut process = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let documents =
            read(self, &mut process).inspect_err(|_| self.is_broken.store(true, Ordering::Relaxed))?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(process);
        Ok(documents)
    }

    /// Asks for documents, in another process if there is none.
    fn ask(&self, process: &mut Option<Process>, kind: Kind, content: &[u8]) -> Answered<Vec<LineResult>> {
        let mut asked = match process.take() {
            Some(process) => process,
            None => match self.start_another()? {
                Ok(process) => process,
                Err(end) => return Ok(Err(end)),
            },
        };
        match asked.ask(kind, content)? {
            Ok(answer) => {
                *process = Some(asked);
                message::decode_documents(&answer).map(Ok)
            }
            Err(end) => Ok(Err(end)),
        }
    }

    /// Starts another process. Its inputs have been read before, so that they have no faults.
    fn start_another(&self) -> Answered<Process> {
        let mut process = Process::start()?;
        if let Err(end) = process.read_tokenizer(&self.inputs)? {
            return Ok(Err(end));
        }
        if let Some(template) = &self.inputs.template
            && let Err(end) = process.read_template(template)?
        {
            return Ok(Err(end));
        }
        Ok(Ok(process))
    }

    /// Returns the fault of a document that ended its process.
    fn fault_of(&self, end: &End) -> Fault {
        self.is_broken.store(true, Ordering::Relaxed);
        let why = self.inputs.describe(end);
        if self.inputs.template.is_some() && !end.is_rendered {
            Fault::new(&T0522, format!("the template cannot be rendered: {why}"))
        } else {
            Fault::new(&T0770, format!("the document cannot be tokenized: {why}"))
        }
    }
}

/// A process that reads.
struct Process {
    child: Child,
    input: Option<BufWriter<ChildStdin>>,
    output: ChildStdout,
}

impl Process {
    fn start() -> io::Result<Self> {
        // Also where the file has been replaced or deleted since this process started.
        let running = Path::new("/proc/self/exe");
        let program = if running.exists() { PathBuf::from(running) } else { std::env::current_exe()? };
        let mut child = Command::new(program)
            .arg(ARGUMENT)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(Self { child, input: Some(BufWriter::new(input)), output })
    }

    fn read_tokenizer(&mut self, inputs: &Inputs) -> Answered<Result<Tokens, Fault>> {
        let setup = serde_json::to_vec(&inputs.setup)?;
        let config = inputs.config.as_ref().map(|config| (Kind::Config, config.as_bytes()));
        for (kind, content) in [(Kind::Setup, setup.as_slice())].into_iter().chain(config) {
            if !self.send(kind, content) {
                return Ok(Err(self.end(false, 0)));
            }
        }
        decoded(self.ask(Kind::Tokenizer, &inputs.tokenizer)?)
    }

    fn read_template(&mut self, template: &str) -> Answered<Result<(), Fault>> {
        decoded(self.ask(Kind::Template, template.as_bytes())?)
    }

    /// Sends a message; returns false if the process has ended.
    fn send(&mut self, kind: Kind, content: &[u8]) -> bool {
        self.input.as_mut().is_some_and(|input| message::write(input, kind, content).is_ok())
    }

    /// Sends a message and waits for its answer.
    fn ask(&mut self, kind: Kind, content: &[u8]) -> Answered<Vec<u8>> {
        // The limit of processor time ends what computes; this one, what waits. A busy machine has time.
        const WALL_FACTOR: u32 = 10;
        const WALL_LEAST: Duration = Duration::from_mins(1);
        let seconds = seconds_for(content.len());
        let deadline = Instant::now() + WALL_LEAST + Duration::from_secs(seconds) * WALL_FACTOR;
        let mut is_rendered = false;
        if !self.send(kind, content) {
            return Ok(Err(self.end(is_rendered, seconds)));
        }
        loop {
            let mut head = [0; HEAD];
            if !self.receive(&mut head, deadline)? {
                return Ok(Err(self.end(is_rendered, seconds)));
            }
            let (kind, length) = message::parse_head(head)?;
            let mut answer = vec![0; length];
            if !self.receive(&mut answer, deadline)? {
                return Ok(Err(self.end(is_rendered, seconds)));
            }
            if kind == Kind::Answer {
                return Ok(Ok(answer));
            }
            is_rendered = true;
        }
    }

    /// Fills bytes from the process; returns false if it has ended, or not answered in time.
    fn receive(&mut self, mut bytes: &mut [u8], deadline: Instant) -> io::Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        while !bytes.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let limit = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut wanted = [PollFd::new(&self.output, PollFlags::IN)];
            match poll(&mut wanted, Some(&limit)) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            match self.output.read(bytes) {
                Ok(0) => return Ok(false),
                Ok(read) => bytes = bytes.get_mut(read..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Ends the process, and returns why it did not answer.
    fn end(&mut self, is_rendered: bool, seconds: u64) -> End {
        // One that has ended by itself keeps its own status.
        let _ = self.child.kill();
        let status = self.child.wait().ok();
        let mut said = Vec::new();
        if let Some(errors) = self.child.stderr.take() {
            let _ = errors.take(MOST_ERROR_BYTES).read_to_end(&mut said);
        }
        let signal = status.and_then(|status| status.signal());
        let reason = reason(signal, &String::from_utf8_lossy(&said), seconds);
        End { reason, is_rendered }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the answer of a tokenizer or a template.
fn decoded<T: for<'a> serde::Deserialize<'a>>(answer: Result<Vec<u8>, End>) -> Answered<Result<T, Fault>> {
    match answer {
        Ok(answer) => message::decode_result(&answer).map(Ok),
        Err(end) => Ok(Err(end)),
    }
}

/// Returns why a process ended, by its signal and what it said last.
fn reason(signal: Option<i32>, said: &str, seconds: u64) -> Reason {
    use rustix::process::Signal;
    let is = |wanted: Signal| signal == Some(wanted.as_raw());
    if said.contains("memory allocation of") || said.contains("capacity overflow") {
        return Reason::Memory;
    }
    if said.contains("overflowed its stack") || is(Signal::SEGV) {
        return Reason::Stack;
    }
    // The wall clock of the caller kills, too.
    if is(Signal::XCPU) || is(Signal::KILL) {
        return Reason::Time(seconds);
    }
    let line = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    Reason::Failure(line.unwrap_or("it ended without an answer").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_that_of_the_process() {
        for (signal, said, expected) in [
            (Some(24), "", Reason::Time(5)),
            (Some(9), "", Reason::Time(5)),
            (Some(6), "memory allocation of 8589934592 bytes failed\n", Reason::Memory),
            (
                Some(6),
                "\nthread '<unnamed>' (7) has overflowed its stack\nfatal runtime error\n",
                Reason::Stack,
            ),
            (Some(11), "", Reason::Stack),
            (None, "panicked at a.rs:1:2:\ncapacity overflow", Reason::Memory),
            (None, "panicked at a.rs:1:2:\nno `decoder`\n", Reason::Failure("no `decoder`".to_owned())),
            (None, "", Reason::Failure("it ended without an answer".to_owned())),
        ] {
            assert_eq!(reason(signal, said, 5), expected, "{signal:?} {said}");
        }
    }
}
