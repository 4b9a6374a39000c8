//! Custom endpoints from AWS's settings, and a record of the services that have responded, to explain a
//! missing response.

use aws_config::SdkConfig;
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::{Class, Fault};
use trainc_catalog::services;

/// Custom endpoints from AWS's settings.
#[derive(Clone, Debug)]
pub(super) struct Endpoints {
    config: SdkConfig,
    answered: Arc<Mutex<BTreeSet<&'static str>>>,
}

/// A custom endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfiguredEndpoint {
    /// The URL as configured.
    pub url: String,
    /// The environment variable or the profile setting that contains it.
    pub origin: String,
}

/// Settings of services without white space around them. Blank ones are not set, as in other AWS tools: a CI
/// system sets the variable of a missing secret to the empty text, on which the SDK panics.
#[derive(Debug)]
struct TrimmedSettings(SdkConfig);

impl LoadServiceConfig for TrimmedSettings {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        self.0.service_config().and_then(|all| all.load_config(key)).as_deref().and_then(trim)
    }
}

/// Returns a text without white space around it; `None` if nothing is left.
fn trim(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Trims the endpoints in AWS's settings.
pub(super) fn trimmed(config: SdkConfig) -> SdkConfig {
    let endpoint = config.endpoint_url().and_then(trim);
    let mut builder = config.clone().into_builder().service_config(TrimmedSettings(config));
    builder.set_endpoint_url(endpoint);
    builder.build()
}

/// Returns true for `http://HOST[:PORT]`, `https://…`, with or without a path.
fn is_web_address(url: &str) -> bool {
    let Ok(parsed) = url.parse::<http::Uri>() else { return false };
    let has_host = parsed.host().is_some_and(|host| !host.is_empty() && host != "[]");
    let written_port = parsed.authority().map_or("", |authority| authority.as_str()).rsplit_once(':');
    let is_port = written_port.is_none_or(|(_, port)| port.ends_with(']') || parsed.port_u16().is_some());
    let is_scheme = matches!(parsed.scheme_str(), Some("http" | "https"));
    is_scheme && has_host && is_port && parsed.query().is_none() && !url.contains('#')
}

impl Endpoints {
    /// Fails with a line that names the first endpoint that is not a URL.
    pub(super) fn check(&self) -> Result<(), String> {
        let services: BTreeSet<&str> = Call::ALL.iter().map(|call| call.row().service).collect();
        let all: Vec<ConfiguredEndpoint> =
            services.into_iter().filter_map(|service| self.configured(service)).collect();
        let variant = [(self.config.use_fips(), "fips"), (self.config.use_dual_stack(), "dualstack")]
            .into_iter()
            .find_map(|(is_set, name)| is_set.unwrap_or_default().then_some(name));
        if let (Some(variant), Some(configured)) = (variant, all.first()) {
            return Err(format!(
                "error: {}: a custom endpoint cannot be combined with `use_{variant}_endpoint` \
                    (AWS_USE_{}_ENDPOINT); remove one of the two settings\n",
                configured.origin,
                variant.to_uppercase()
            ));
        }
        match all.into_iter().find(|endpoint| !is_web_address(&endpoint.url)) {
            Some(ConfiguredEndpoint { url, origin }) => Err(format!(
                "error: {origin}: `{}` is not an endpoint; expected `https://HOST[:PORT][/PATH]`\n",
                url.escape_debug()
            )),
            None => Ok(()),
        }
    }

    pub(super) fn new(config: SdkConfig) -> Self {
        Self { config, answered: Arc::default() }
    }

    /// Waits for a service's response. Adds a custom endpoint to the fault of a missing response; a service
    /// that has responded before is only temporarily unreachable.
    pub(super) async fn explain_fault<T>(
        &self,
        service: &'static str,
        answer: impl Future<Output = Answer<T>>,
    ) -> Answer<T> {
        match answer.await {
            Err(fault) if matches!(fault.class, Class::NoResponse | Class::Unreachable) => {
                Err(self.explain_unreachable(service, fault))
            }
            other => {
                let came = other.as_ref().map_or_else(|fault| !fault.code.is_empty(), |_| true);
                if let (true, Ok(mut answered)) = (came, self.answered.lock()) {
                    answered.insert(service);
                }
                other
            }
        }
    }

    fn explain_unreachable(&self, service: &'static str, mut fault: Fault) -> Fault {
        if self.answered.lock().is_ok_and(|answered| answered.contains(service)) {
            fault.class = Class::NoResponse;
        }
        if let Some(ConfiguredEndpoint { url, origin }) = self.configured(fault.call.row().service) {
            fault.message = format!("{}; sent to {url}, set by {origin}", fault.message);
        }
        fault
    }

    /// Returns the custom endpoint of a service, given the prefix of its actions.
    pub(super) fn configured(&self, service: &str) -> Option<ConfiguredEndpoint> {
        let id = services::get(service).map_or(service, |service| service.id.as_str());
        let key = ServiceConfigKey::builder()
            .service_id(id)
            .env("AWS_ENDPOINT_URL")
            .profile("endpoint_url")
            .build();
        let own = key.ok().and_then(|key| self.config.service_config().and_then(|all| all.load_config(key)));
        let url = own.or_else(|| self.config.endpoint_url().map(str::to_owned))?;
        let of_service = format!("AWS_ENDPOINT_URL_{}", id.to_uppercase().replace(' ', "_"));
        let variables = [of_service, "AWS_ENDPOINT_URL".to_owned()];
        let holds = |variable: &String| std::env::var(variable).is_ok_and(|value| value.trim() == url);
        let origin = variables.into_iter().find(holds);
        let origin = origin.unwrap_or_else(|| "`endpoint_url` of the AWS profile".to_owned());
        Some(ConfiguredEndpoint { url, origin })
    }
}

#[cfg(test)]
mod tests {
    use super::super::errors::fault_without_answer;
    use super::*;
    use std::io::{Error, ErrorKind};

    fn ends(kind: ErrorKind) -> Fault {
        fault_without_answer(Call::DescribeFileSystems, &Error::from(kind))
    }

    #[test]
    fn endpoints_are_urls() {
        for url in [
            "http://127.0.0.1:4566",
            "HTTPS://host",
            "https://vpce-1.s3.us-west-2.vpce.amazonaws.com",
            "http://[::1]:80/x",
        ] {
            assert!(is_web_address(url), "{url}");
        }
        for url in [
            ":::",
            "ftp://x",
            "localhost:4566",
            "http://",
            "http://:80",
            "http://a b",
            "https:///x",
            "http://a:b:c",
            "http://[::1",
            "http://a:99999",
            "http://a:9?x",
            "http://a:9#f",
        ] {
            assert!(!is_web_address(url), "{url}");
        }
    }

    #[test]
    fn blank_endpoints_are_not_set() {
        let of = |url: &str| trimmed(SdkConfig::builder().endpoint_url(url).build());
        assert_eq!(of(" \n").endpoint_url(), None);
        assert_eq!(of("http://a\n").endpoint_url(), Some("http://a"));
        let wrong = Endpoints::new(of("ftp://x")).check().unwrap_err();
        assert!(wrong.contains("`ftp://x` is not an endpoint"), "{wrong}");
        assert_eq!(Endpoints::new(of("")).check(), Ok(()));
        let fips = |url: &str| of(url).into_builder().use_fips(true).build();
        let wrong = Endpoints::new(fips("http://a")).check().unwrap_err();
        assert!(wrong.contains("`use_fips_endpoint` (AWS_USE_FIPS_ENDPOINT); remove one"), "{wrong}");
        assert_eq!(Endpoints::new(fips("")).check(), Ok(()));
    }

    #[test]
    fn what_never_answered_is_said_with_its_address() {
        let config = SdkConfig::builder().endpoint_url("http://127.0.0.1:9").build();
        let endpoints = Endpoints::new(config);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ask = |answer: Answer<()>| runtime.block_on(endpoints.explain_fault("fsx", async { answer }));
        let fault = ask(Err(ends(ErrorKind::ConnectionRefused))).unwrap_err();
        assert_eq!(fault.class, Class::Unreachable);
        assert!(
            fault.message.starts_with("connection refused; sent to http://127.0.0.1:9, set by "),
            "{}",
            fault.message
        );
        assert_eq!(ends(ErrorKind::ConnectionReset).class, Class::NoResponse);
        // After a response, a service that does not respond is only temporarily unreachable.
        ask(Err(Fault::from_answer(Call::DescribeFileSystems, Some(400), "BadRequest", "no"))).unwrap_err();
        assert_eq!(ask(Err(ends(ErrorKind::ConnectionRefused))).unwrap_err().class, Class::NoResponse);
    }
}
