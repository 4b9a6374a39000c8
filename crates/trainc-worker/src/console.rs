//! Lines for whoever reads. A reader that has gone ends nothing: `println!` would panic there. A line is one write, for
//! all ranks of a host write to the same streams: what goes there in pieces comes out mixed.

use std::fmt::Display;
use std::io::{self, Write};

use crate::exit::{Code, Failure};

/// A line on stdout.
pub(crate) fn stdout(line: impl Display) {
    let _ = io::stdout().write_all(format!("{line}\n").as_bytes());
}

/// A line of a command's result; gives whether to go on. That it could not be written is a failure, unless the reader has
/// gone: then it has what it wanted.
pub(crate) fn result(line: impl Display) -> Result<bool, Failure> {
    match writeln!(io::stdout(), "{line}") {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(Code::Usage, format!("stdout: {error}"))),
    }
}

/// A line on stderr.
pub(crate) fn stderr(line: impl Display) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
