//! Lines for whoever reads. A reader that has gone ends nothing: `println!` would panic there.

use std::fmt::Display;
use std::io::{self, Write};

use crate::exit::{Code, Failure};

/// A line on stdout.
pub(crate) fn out(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
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
pub(crate) fn err(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
