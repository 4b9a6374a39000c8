//! Which signals tell a run to stop, and what becomes of it when the process that started it dies.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::exit::{Code, Failure};

/// Those that stop a run with a checkpoint. SIGHUP is left alone where it is ignored already, as `nohup` has it.
pub(crate) fn stop_signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hangup = (!is_ignored(&status, SIGHUP)).then_some(SIGHUP);
    [SIGTERM, SIGINT].into_iter().chain(hangup).collect()
}

/// A file over the limit of sizes (`ulimit -f`) is then a failed write, which has a name and a code, not the end of the
/// process.
pub(crate) fn catch_file_size_signal() {
    // Where it cannot be caught, it ends the process as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Whether the text of /proc/self/status says so: bit n - 1 of `SigIgn` is signal n.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Asks for `signal` when `parent`, which started this process, dies, however it does.
pub(crate) fn send_on_parent_death(parent: u32, signal: Signal) -> Result<(), Failure> {
    let asked = set_parent_process_death_signal(Some(signal));
    asked.map_err(|e| Failure::new(Code::Bug, format!("cannot ask for the end of the parent: {e}")))?;
    // It may have died before the kernel was asked.
    let still = i32::try_from(parent).ok().and_then(Pid::from_raw);
    if getppid() == still {
        return Ok(());
    }
    Err(Failure::new(Code::Unsaved, format!("process {parent}, which started this one, has ended")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(is_ignored(status, SIGHUP));
        assert!(!is_ignored(status, SIGINT));
        assert!(!is_ignored("", SIGHUP));
        assert!(stop_signals().contains(&SIGTERM));
    }

    #[test]
    fn a_parent_that_is_another() {
        let failure = send_on_parent_death(u32::MAX, Signal::TERM).unwrap_err();
        assert!(failure.message.contains("has ended"), "{failure}");
    }
}
