//! Places where a test can end a process as a power cut would: `TRAINC_WORKER_FAULT=<place>` kills it there. Only in
//! builds with debug assertions.

/// Ends this process by SIGKILL when the environment names this place.
pub(crate) fn point(place: &str) {
    if cfg!(debug_assertions) && std::env::var("TRAINC_WORKER_FAULT").is_ok_and(|wanted| wanted == place) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
