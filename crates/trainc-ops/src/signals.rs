//! Signals that end a command in order.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::signal::unix::{SignalKind, signal};
use trainc_project::signals::stop_signals;

/// Waits for a signal that stops a command; forever if signals are not supported.
pub(crate) async fn stop_signal() {
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
