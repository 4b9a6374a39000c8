//! AWS's settings, the AWS way: `AWS_PROFILE`, `AWS_ENDPOINT_URL[_SERVICE]`, `~/.aws/config`, SSO, instance metadata.

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use std::time::Duration;

/// Attempts at one call, the first one counted: the driver repeats what passes as well, and waits longer.
pub(super) const ATTEMPTS: u32 = 3;
/// The longest wait between two attempts.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Settings that are not read from the AWS configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The region that the manifest names.
    pub region: String,
    /// The wait after the first failed attempt; each further one is twice as long, and random below that.
    pub first_wait: Duration,
    /// What is larger than so many bytes is uploaded in parts of that size; the usual sizes without it.
    pub part_bytes: Option<usize>,
}

impl Settings {
    pub(super) async fn load(&self) -> SdkConfig {
        let mut loader =
            aws_config::defaults(BehaviorVersion::latest()).region(Region::new(self.region.clone()));
        // An explicit retry configuration of the SDK takes precedence.
        if std::env::var_os("AWS_MAX_ATTEMPTS").is_none() && std::env::var_os("AWS_RETRY_MODE").is_none() {
            loader = loader.retry_config(
                RetryConfig::standard()
                    .with_max_attempts(ATTEMPTS)
                    .with_initial_backoff(self.first_wait)
                    .with_max_backoff(LONGEST_WAIT),
            );
        }
        if let Ok(name) = aws_config::AppName::new("trainc") {
            loader = loader.app_name(name);
        }
        loader.load().await
    }
}
