//! Confirmation prompt.

use crate::exit;
use crate::terminal::io::Io;
use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trainc_project::signals::stop_signals;

/// Asks a question on the terminal; anything except `y` or `yes` means no.
pub(crate) fn ask(io: &mut Io, question: &str) -> bool {
    io.note(&format!("{question} [y/N] "));
    let _ = io.err.flush();
    // Nothing else looks for signals while the answer is read.
    let is_asking = Arc::new(AtomicBool::new(true));
    for signal in stop_signals() {
        let exit = i32::from(exit::INCOMPLETE);
        let _ = signal_hook::flag::register_conditional_shutdown(signal, exit, Arc::clone(&is_asking));
    }
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    is_asking.store(false, Ordering::Relaxed);
    if read.is_err() {
        return false;
    }
    let yes = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
    if !yes {
        io.note("nothing was changed\n");
    }
    yes
}
