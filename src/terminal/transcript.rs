//! Output of concurrent jobs: buffered per job, and printed in the order of their manifests.

use crate::terminal::io::Io;
use std::cell::{Cell, RefCell};
use std::io::Write;

/// Output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Out,
    Err,
}

/// Buffered output and exit code of one job.
#[derive(Debug, Default)]
struct JobTranscript {
    parts: RefCell<Vec<(Stream, Vec<u8>)>>,
    code: Cell<Option<u8>>,
}

/// Outputs of all jobs of one command, in order.
#[derive(Debug)]
pub(crate) struct Transcript {
    jobs: Vec<JobTranscript>,
    /// Index of the first job that was not printed.
    next: Cell<usize>,
}

/// Writer to one stream of one job.
pub(crate) struct Writer<'a> {
    said: Option<&'a JobTranscript>,
    stream: Stream,
}

impl Transcript {
    /// Creates empty outputs for this many jobs.
    pub(crate) fn new(jobs: usize) -> Self {
        Self { jobs: (0..jobs).map(|_| JobTranscript::default()).collect(), next: Cell::new(0) }
    }

    /// Returns the writers for standard output and standard error of a job.
    pub(crate) fn writers(&self, at: usize) -> (Writer<'_>, Writer<'_>) {
        let said = self.jobs.get(at);
        (Writer { said, stream: Stream::Out }, Writer { said, stream: Stream::Err })
    }

    /// Sets the exit code of a job.
    pub(crate) fn set_exit_code(&self, at: usize, code: u8) {
        if let Some(said) = self.jobs.get(at) {
            said.code.set(Some(code));
        }
    }

    /// Prints the outputs of ended jobs, up to the first that has not ended.
    pub(crate) fn print_ended(&self, io: &mut Io) {
        while let Some(said) = self.jobs.get(self.next.get()).filter(|said| said.code.get().is_some()) {
            said.write(io);
            self.next.set(self.next.get() + 1);
        }
    }

    /// Prints all outputs; jobs without an exit code get this one.
    pub(crate) fn print_all(&self, io: &mut Io, code: u8) {
        for said in &self.jobs {
            said.code.set(Some(said.code.get().unwrap_or(code)));
        }
        self.print_ended(io);
    }

    /// Returns the exit codes of the jobs.
    pub(crate) fn codes(&self) -> Vec<u8> {
        self.jobs.iter().filter_map(|said| said.code.get()).collect()
    }
}

impl JobTranscript {
    fn write(&self, io: &mut Io) {
        for (stream, bytes) in self.parts.take() {
            let _ = match stream {
                Stream::Out => io.out.write_all(&bytes),
                Stream::Err => io.err.write_all(&bytes),
            };
        }
    }
}

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(said) = self.said {
            let mut parts = said.parts.borrow_mut();
            match parts.last_mut().filter(|(stream, _)| *stream == self.stream) {
                Some((_, last)) => last.extend_from_slice(bytes),
                None => parts.push((self.stream, bytes.to_vec())),
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
