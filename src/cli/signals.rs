//! Signals that end a command in order.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::signal::unix::{SignalKind, signal};

/// Returns the signals that stop a command: of Ctrl-C, of a cancelled CI job, and of a terminal that closes, which
/// `nohup` has ignored.
pub(super) fn stop_signals() -> Vec<i32> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Bit n - 1 is signal n.
    let ignored = mask.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1);
    [SIGINT, SIGTERM].into_iter().chain((!ignored).then_some(SIGHUP)).collect()
}

/// Waits for a signal that stops a command; forever if signals are not supported.
pub(super) async fn stop_signal() {
    let registered =
        stop_signals().into_iter().filter_map(|number| signal(SignalKind::from_raw(number)).ok());
    let mut received: FuturesUnordered<_> = registered.map(async |mut signal| signal.recv().await).collect();
    while let Some(received) = received.next().await {
        if received.is_some() {
            return;
        }
    }
    std::future::pending::<()>().await;
}
