//! AWS's settings, as in other AWS tools: `AWS_PROFILE`, `AWS_ENDPOINT_URL[_SERVICE]`, `~/.aws/config`, SSO,
//! instance metadata.

use super::credentials::{CredentialCache, TrimmedCredentials};
use super::http_client::Notice;
use super::profiles::{credential_process, missing_profile};
use super::{endpoints, http_client};
use aws_config::identity::IdentityCache;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use std::time::Duration;
use trainc_catalog::regions;

/// Attempts per call, including the first. The driver also retries transient faults, with longer waits.
const ATTEMPTS: u32 = 3;
/// Maximum wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings that are not read from the AWS configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The region in the manifest.
    pub region: String,
    /// Wait after the first failed attempt. It doubles after each further one, and the actual wait is random
    /// below it.
    pub first_wait: Duration,
    /// Size in bytes above which objects are uploaded in parts of this size; `None` for the defaults.
    pub part_bytes: Option<usize>,
    /// Idle timeout of a request.
    pub idle_timeout: Duration,
    /// Printed when a request is slow.
    pub notice: Notice,
    /// The credentials, which all accounts of a command share.
    pub credentials: CredentialCache,
}

impl Settings {
    /// Reads the AWS configuration; fails with a line that names the invalid variable.
    pub(super) async fn load(&self) -> Result<SdkConfig, String> {
        if regions::get(&self.region).is_none() {
            return Err(format!(
                "error: `{}` is not a region that this version of trainc knows: `trainc catalog regions`\n",
                self.region.escape_debug()
            ));
        }
        let variable = |name: &str| std::env::var(name).ok();
        let retry = self
            .retry_config(variable("AWS_RETRY_MODE").as_deref(), variable("AWS_MAX_ATTEMPTS").as_deref())?;
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(self.region.clone()))
            .retry_config(retry)
            .timeout_config(
                TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT.min(self.idle_timeout)).build(),
            )
            .identity_cache(IdentityCache::lazy().load_timeout(self.idle_timeout * 2).build())
            // The client implements one idle timeout for the whole request.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        if let Some(client) = http_client::client(self.idle_timeout, self.notice) {
            loader = loader.http_client(client);
        }
        if let Ok(name) = aws_config::AppName::new("trainc") {
            loader = loader.app_name(name);
        }
        let config = endpoints::trimmed(loader.load().await);
        endpoints::Endpoints::new(config.clone()).check()?;
        let Some(provider) = config.credentials_provider() else { return Ok(config) };
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let trimmed = SharedCredentialsProvider::new(TrimmedCredentials {
            provider,
            missing_profile: missing_profile(variable, read),
            process: credential_process(variable, read),
            cache: self.credentials.clone(),
            limit: self.idle_timeout,
            notice: self.notice,
        });
        Ok(config.into_builder().credentials_provider(trimmed).build())
    }

    /// Returns how calls are retried, given `AWS_RETRY_MODE` and `AWS_MAX_ATTEMPTS`. The SDK panics on values
    /// that it does not support; `legacy` is the default of other AWS tools.
    fn retry_config(&self, mode: Option<&str>, attempts: Option<&str>) -> Result<RetryConfig, String> {
        let config = match mode.unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "" | "standard" | "legacy" => RetryConfig::standard(),
            "adaptive" => RetryConfig::adaptive(),
            other => {
                return Err(format!(
                    "error: AWS_RETRY_MODE: `{}` is not a retry mode; expected standard, \
                        adaptive or legacy\n",
                    other.escape_debug()
                ));
            }
        };
        let attempts = match attempts.unwrap_or_default().trim() {
            "" => ATTEMPTS,
            written => written.parse().ok().filter(|attempts| *attempts > 0).ok_or_else(|| {
                let written = written.escape_debug();
                format!("error: AWS_MAX_ATTEMPTS: `{written}` is not a whole number greater than 0\n")
            })?,
        };
        let config = config.with_max_attempts(attempts);
        Ok(config.with_initial_backoff(self.first_wait).with_max_backoff(LONGEST_WAIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_config::retry::RetryMode;

    #[test]
    fn retry_variables_are_read_as_other_aws_tools_do() {
        let settings = Settings {
            region: "us-west-2".to_owned(),
            first_wait: Duration::ZERO,
            part_bytes: None,
            idle_timeout: Duration::from_mins(1),
            notice: Notice { after: Duration::MAX, print: |_| {} },
            credentials: CredentialCache::default(),
        };
        let read = |mode, attempts| {
            settings.retry_config(mode, attempts).map(|config| (config.mode(), config.max_attempts()))
        };
        assert_eq!(read(None, None), Ok((RetryMode::Standard, ATTEMPTS)));
        assert_eq!(read(Some("legacy"), Some("")), Ok((RetryMode::Standard, ATTEMPTS)));
        assert_eq!(read(Some(""), Some("5\n")), Ok((RetryMode::Standard, 5)));
        assert_eq!(read(Some("Adaptive"), Some("1")), Ok((RetryMode::Adaptive, 1)));
        assert!(read(Some("fast"), None).unwrap_err().contains("AWS_RETRY_MODE: `fast`"));
        for wrong in ["0", "-1", "x", "1.5", "4294967296"] {
            let words = format!("AWS_MAX_ATTEMPTS: `{wrong}`");
            assert!(read(None, Some(wrong)).unwrap_err().contains(&words), "{wrong}");
        }
    }
}
