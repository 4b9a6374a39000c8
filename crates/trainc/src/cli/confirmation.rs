//! Confirmation prompt.

use super::io::Io;
use std::io::BufRead as _;

/// Asks a question on the terminal; anything except `y` or `yes` means no.
pub(super) fn ask(io: &mut Io, question: &str) -> bool {
    io.note(&format!("{question} [y/N] "));
    let _ = io.err.flush();
    let mut answer = String::new();
    if std::io::stdin().lock().read_line(&mut answer).is_err() {
        return false;
    }
    let yes = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
    if !yes {
        io.note("nothing was changed\n");
    }
    yes
}
