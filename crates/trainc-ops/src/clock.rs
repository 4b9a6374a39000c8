//! The machine's clock.
#![expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trainc_apply::cloud::Clock;

/// The machine's clock. A command makes one, for today's date and for its account.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    /// Returns today as an ISO date, UTC.
    pub fn today(self) -> String {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        trainc_ir::date::iso_date((seconds / 86_400).cast_signed())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> f64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
