//! Signals that stop a run, and signals sent when its parent process dies.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::exit::{Code, Failure};

/// Returns the signals that stop a run with a checkpoint. SIGHUP is excluded if it is already ignored, as
/// under `nohup`.
pub(crate) fn stop_signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hangup = (!is_ignored(&status, SIGHUP)).then_some(SIGHUP);
    [SIGTERM, SIGINT].into_iter().chain(hangup).collect()
}

/// Catches SIGXFSZ, so that a file over the size limit (`ulimit -f`) is a failed write and does not kill the
/// process.
pub(crate) fn catch_file_size_signal() {
    // If it cannot be caught, it kills the process as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Returns whether /proc/self/status lists the signal as ignored: bit n - 1 of `SigIgn` is signal n.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Requests `signal` for this process when its parent `parent` dies.
pub(crate) fn send_on_parent_death(parent: u32, signal: Signal) -> Result<(), Failure> {
    let asked = set_parent_process_death_signal(Some(signal));
    asked.map_err(|e| {
        Failure::new(Code::Bug, format!("cannot request a signal for the death of the parent: {e}"))
    })?;
    // The parent may have died before the request.
    let still = i32::try_from(parent).ok().and_then(Pid::from_raw);
    if getppid() == still {
        return Ok(());
    }
    Err(Failure::new(Code::Unsaved, format!("the parent process {parent} has exited")))
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
        assert!(failure.message.contains("has exited"), "{failure}");
    }
}
