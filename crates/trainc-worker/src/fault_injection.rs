//! Places where a test can end a process as a power cut would: `TRAINC_WORKER_FAULT=<place>` kills it there. Only in
//! builds with debug assertions.

use std::time::Duration;

fn is_set(place: &str) -> bool {
    cfg!(debug_assertions) && std::env::var("TRAINC_WORKER_FAULT").is_ok_and(|wanted| wanted == place)
}

/// Stands still for ever when the environment names this place.
pub(crate) fn hang(place: &str) {
    while is_set(place) {
        std::thread::sleep(Duration::from_mins(1));
    }
}

/// Stands still for half a second when the environment names this place.
pub(crate) fn slow(place: &str) {
    if is_set(place) {
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The length of a preflight's minute, so that a test need not wait so long: `TRAINC_WORKER_MINUTE=<seconds>`.
pub(crate) fn preflight_limit() -> Option<Duration> {
    let text = std::env::var("TRAINC_WORKER_MINUTE").ok().filter(|_| cfg!(debug_assertions))?;
    text.parse().ok().map(Duration::from_secs)
}

/// How long a preflight compares a checkpoint: `TRAINC_WORKER_COMPARE=<seconds>`.
pub(crate) fn compare_limit() -> Option<Duration> {
    let text = std::env::var("TRAINC_WORKER_COMPARE").ok().filter(|_| cfg!(debug_assertions))?;
    text.parse().ok().map(Duration::from_secs)
}

/// Ends this process by SIGKILL when the environment names this place.
pub(crate) fn kill(place: &str) {
    if is_set(place) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
