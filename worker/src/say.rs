//! Lines for whoever reads. A reader that has gone ends nothing: `println!` would panic there.

use std::fmt::Display;
use std::io::{self, Write};

/// A line on stdout; gives whether it was taken.
pub(crate) fn out(line: impl Display) -> bool {
    writeln!(io::stdout(), "{line}").is_ok()
}

/// A line on stderr.
pub(crate) fn err(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
