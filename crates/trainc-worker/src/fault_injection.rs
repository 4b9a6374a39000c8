//! Fault injection for tests: `TRAINC_WORKER_FAULT=<place>` kills or hangs the process at a named
//! place. Only in builds with debug assertions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn is_set(place: &str) -> bool {
    cfg!(debug_assertions) && std::env::var("TRAINC_WORKER_FAULT").is_ok_and(|wanted| wanted == place)
}

/// Hangs forever if the environment names this place.
pub(crate) fn hang(place: &str) {
    while is_set(place) {
        std::thread::sleep(Duration::from_mins(1));
    }
}

/// Hangs until this process is asked to stop if the environment names this place.
pub(crate) fn wait_for_stop(place: &str, stop: &AtomicBool) {
    while is_set(place) && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns whether the self-check finds a wrong kernel.
pub(crate) fn is_wrong_kernel() -> bool {
    is_set("kernel")
}

/// Returns whether the self-check finds wrong attention at the job's length.
pub(crate) fn is_wrong_attention() -> bool {
    is_set("attention")
}

/// Returns a shorter minute for tests: `TRAINC_WORKER_MINUTE=<seconds>`.
pub(crate) fn minute() -> Option<Duration> {
    let text = std::env::var("TRAINC_WORKER_MINUTE").ok().filter(|_| cfg!(debug_assertions))?;
    text.parse().ok().map(Duration::from_secs)
}

/// Returns a shorter limit for verifying checkpoints in preflight: `TRAINC_WORKER_COMPARE=<seconds>`.
pub(crate) fn compare_limit() -> Option<Duration> {
    let text = std::env::var("TRAINC_WORKER_COMPARE").ok().filter(|_| cfg!(debug_assertions))?;
    text.parse().ok().map(Duration::from_secs)
}

/// Kills this process with SIGKILL if the environment names this place.
pub(crate) fn kill(place: &str) {
    if is_set(place) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Returns the test double of NCCL with which ranks train on PyTorch's CPU tensors:
/// `TRAINC_WORKER_TENSORS=<path>`.
pub(crate) fn tensors() -> Option<std::path::PathBuf> {
    std::env::var_os("TRAINC_WORKER_TENSORS").filter(|_| cfg!(debug_assertions)).map(Into::into)
}

/// Returns whether the self-check also runs on CPU tensors: `TRAINC_WORKER_SELFCHECK=1`.
pub(crate) fn self_checks() -> bool {
    cfg!(debug_assertions) && std::env::var_os("TRAINC_WORKER_SELFCHECK").is_some()
}
