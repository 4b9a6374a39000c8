//! The system clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trainc_apply::cloud::Clock;

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> f64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
