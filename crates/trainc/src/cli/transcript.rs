//! What jobs say while they are made or followed side by side: kept apart, and handed out in the order of their manifests.

use super::io::Io;
use std::cell::{Cell, RefCell};
use std::io::Write;

/// Which stream something belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Out,
    Err,
}

/// What one job has said, and how it ended.
#[derive(Debug, Default)]
struct Said {
    parts: RefCell<Vec<(Stream, Vec<u8>)>>,
    code: Cell<Option<u8>>,
}

/// All jobs of one command, in order.
#[derive(Debug)]
pub(super) struct Transcript {
    jobs: Vec<Said>,
    /// The first whose words were not handed out yet.
    next: Cell<usize>,
}

/// One stream of one job.
pub(super) struct Writer<'a> {
    said: Option<&'a Said>,
    stream: Stream,
}

impl Transcript {
    /// So many jobs, of which nothing is known yet.
    pub(super) fn new(jobs: usize) -> Self {
        Self { jobs: (0..jobs).map(|_| Said::default()).collect(), next: Cell::new(0) }
    }

    /// Where a job writes its results, and what stands beside them.
    pub(super) fn writers(&self, at: usize) -> (Writer<'_>, Writer<'_>) {
        let said = self.jobs.get(at);
        (Writer { said, stream: Stream::Out }, Writer { said, stream: Stream::Err })
    }

    /// A job has ended.
    pub(super) fn end(&self, at: usize, code: u8) {
        if let Some(said) = self.jobs.get(at) {
            said.code.set(Some(code));
        }
    }

    /// Hands out what the jobs have said whose turn it is: those that ended, up to the first that has not.
    pub(super) fn hand_out(&self, io: &mut Io) {
        while let Some(said) = self.jobs.get(self.next.get()).filter(|said| said.code.get().is_some()) {
            said.write(io);
            self.next.set(self.next.get() + 1);
        }
    }

    /// Hands out everything; what has not ended, ends so.
    pub(super) fn close(&self, io: &mut Io, code: u8) {
        for said in &self.jobs {
            said.code.set(Some(said.code.get().unwrap_or(code)));
        }
        self.hand_out(io);
    }

    /// How the jobs ended.
    pub(super) fn codes(&self) -> Vec<u8> {
        self.jobs.iter().filter_map(|said| said.code.get()).collect()
    }
}

impl Said {
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
