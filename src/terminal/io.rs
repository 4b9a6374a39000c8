//! Input and output of a command: standard output and error, the date, the terminal.

use std::io::Write;
use trainc_diag::{escape_json, escape_output, text};
use trainc_ops::clock::SystemClock;

/// Output streams and terminal properties of a command.
pub(crate) struct Io<'a> {
    /// Results.
    pub out: &'a mut dyn Write,
    /// Progress and problems.
    pub err: &'a mut dyn Write,
    /// True if results are coloured.
    pub color: bool,
    /// True if box-drawing characters are allowed.
    pub unicode: bool,
    /// Width of text in columns.
    pub width: usize,
    /// Columns at which lines of a result are wrapped; `None` if the output is not a terminal, e.g. for
    /// `grep`.
    pub wrap: Option<usize>,
    /// The same for standard error.
    pub wrap_notes: Option<usize>,
    /// The clock of the command.
    pub clock: SystemClock,
    /// Today, as an ISO date: by the clock, or as the user says.
    pub today: String,
    /// True if the reader of results has closed the pipe.
    pub unread: bool,
}

/// Properties of the terminal, for output that is written elsewhere first.
#[derive(Clone)]
pub(crate) struct Style {
    color: bool,
    unicode: bool,
    width: usize,
    wrap: Option<usize>,
    wrap_notes: Option<usize>,
    clock: SystemClock,
    today: String,
}

impl Style {
    /// Returns the output of a part of a command, with the properties of its terminal.
    pub(crate) fn io<'a>(&self, out: &'a mut dyn Write, err: &'a mut dyn Write) -> Io<'a> {
        let Self { color, unicode, width, wrap, wrap_notes, clock, today } = self.clone();
        Io { out, err, color, unicode, width, wrap, wrap_notes, clock, today, unread: false }
    }
}

/// A writer that remembers its first error.
pub(crate) struct TrackedWriter<W: Write> {
    inner: W,
    fault: Option<std::io::Error>,
}

impl<W: Write> TrackedWriter<W> {
    /// Wraps a writer.
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, fault: None }
    }

    /// Returns the first error, except a pipe closed by the reader.
    pub(crate) fn into_error(mut self) -> Option<std::io::Error> {
        let _ = self.flush();
        self.fault.filter(|fault| fault.kind() != std::io::ErrorKind::BrokenPipe)
    }

    fn record_error<T>(&mut self, done: std::io::Result<T>) -> std::io::Result<T> {
        done.map_err(|error| {
            let kind = error.kind();
            if kind != std::io::ErrorKind::Interrupted {
                self.fault.get_or_insert(error);
            }
            std::io::Error::from(kind)
        })
    }
}

impl<W: Write> Write for TrackedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let done = self.inner.write(bytes);
        self.record_error(done)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let done = self.inner.flush();
        self.record_error(done)
    }
}

/// Wraps lines at words if a width is given.
pub(crate) fn wrap_lines(text: &str, width: Option<usize>) -> String {
    width.map_or_else(|| text.to_owned(), |width| text::wrap_lines(text, width))
}

/// Returns true if the reader has closed the pipe.
pub(crate) fn is_broken_pipe(written: &std::io::Result<()>) -> bool {
    written.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

impl Io<'_> {
    /// Returns the properties of the terminal.
    pub(crate) fn style(&self) -> Style {
        let Self { color, unicode, width, wrap, wrap_notes, clock, .. } = *self;
        Style { color, unicode, width, wrap, wrap_notes, clock, today: self.today.clone() }
    }

    /// Returns the terminal's properties for a report of this width in columns.
    pub(crate) fn report_options(&self, width: usize) -> trainc_report::Options {
        trainc_report::Options {
            color: self.color,
            unicode: self.unicode,
            width,
            today: self.today_in_days(),
        }
    }

    /// Returns today in days since 1970.
    pub(crate) fn today_in_days(&self) -> Option<i64> {
        trainc_ir::date::epoch_days(&self.today)
    }

    /// Writes lines of a result; an error is reported at the end of the command.
    pub(crate) fn print(&mut self, text: &str) {
        self.print_verbatim(&wrap_lines(&escape_output(text, false), self.wrap));
    }

    /// Writes lines of a result that another program reads, such as Markdown.
    pub(crate) fn print_unwrapped(&mut self, text: &str) {
        self.print_verbatim(&escape_output(text, false));
    }

    /// Writes lines of a result whose parts were escaped before they were coloured.
    pub(crate) fn print_colored(&mut self, text: &str) {
        self.print_verbatim(&wrap_lines(&escape_output(text, self.color), self.wrap));
    }

    /// Writes a result in JSON.
    pub(crate) fn print_json(&mut self, json: &str) {
        self.print_verbatim(&escape_json(json));
    }

    /// Writes a result for another program: the text of a manifest or script, unchanged.
    pub(crate) fn print_verbatim(&mut self, text: &str) {
        self.unread |= is_broken_pipe(&self.out.write_all(text.as_bytes()));
    }

    /// Writes lines to standard error.
    pub(crate) fn note(&mut self, text: &str) {
        let text = wrap_lines(&escape_output(text, false), self.wrap_notes);
        let _ = self.err.write_all(text.as_bytes());
    }

    /// Writes lines to standard error whose parts were escaped before they were coloured.
    pub(crate) fn note_colored(&mut self, text: &str) {
        let text = wrap_lines(&escape_output(text, self.color), self.wrap_notes);
        let _ = self.err.write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::TrackedWriter;
    use std::io::{Error, ErrorKind, Write};

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(Error::from(self.0))
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_fault_is_remembered_and_a_closed_pipe_is_none() {
        for (kind, wanted) in
            [(ErrorKind::StorageFull, Some(ErrorKind::StorageFull)), (ErrorKind::BrokenPipe, None)]
        {
            let mut out = TrackedWriter::new(Broken(kind));
            assert!(out.write_all(b"x").is_err());
            assert_eq!(out.into_error().map(|fault| fault.kind()), wanted);
        }
        let mut out = TrackedWriter::new(Vec::new());
        out.write_all(b"x").unwrap();
        assert!(out.into_error().is_none());
    }
}
