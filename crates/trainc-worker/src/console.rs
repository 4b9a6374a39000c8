//! Output to stdout and stderr. A closed pipe must not end a run, as it would with `println!`. Each line is a
//! single write, since all ranks of a host share the streams and parts of lines would be interleaved.

use std::fmt::Display;
use std::io::{self, Write};

use crate::exit::{Code, Failure};

/// Prints a line to stdout and ignores errors.
pub(crate) fn print_stdout(line: impl Display) {
    let _ = io::stdout().write_all(format!("{line}\n").as_bytes());
}

/// Prints a line of a command's result to stdout. Returns false if the reader has closed the pipe; other
/// errors are failures.
pub(crate) fn print_result(line: impl Display) -> Result<bool, Failure> {
    match writeln!(io::stdout(), "{line}") {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(Code::Usage, format!("stdout: {error}"))),
    }
}

/// Prints a line to stderr and ignores errors.
pub(crate) fn print_stderr(line: impl Display) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
