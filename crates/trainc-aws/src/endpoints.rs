//! Custom endpoints from AWS's settings, and a record of the services that have responded, to explain a missing
//! response.

use aws_config::SdkConfig;
use aws_types::service_config::ServiceConfigKey;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use trainc_apply::cloud::Answer;
use trainc_apply::fault::{Class, Fault};

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

impl Endpoints {
    pub(super) fn new(config: SdkConfig) -> Self {
        Self { config, answered: Arc::default() }
    }

    /// Waits for a service's response. Adds a custom endpoint to the fault of a missing response; a service that has
    /// responded before is only temporarily unreachable.
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
        let id = service_id(service);
        let key = ServiceConfigKey::builder()
            .service_id(id)
            .env("AWS_ENDPOINT_URL")
            .profile("endpoint_url")
            .build();
        let own = key.ok().and_then(|key| self.config.service_config().and_then(|all| all.load_config(key)));
        let url = own.or_else(|| self.config.endpoint_url().map(str::to_owned))?;
        let of_service = format!("AWS_ENDPOINT_URL_{}", id.to_uppercase().replace(' ', "_"));
        let variables = [of_service, "AWS_ENDPOINT_URL".to_owned()];
        let holds = |variable: &String| std::env::var(variable).is_ok_and(|value| value == url);
        let origin = variables.into_iter().find(holds);
        let origin = origin.unwrap_or_else(|| "`endpoint_url` of the AWS profile".to_owned());
        Some(ConfiguredEndpoint { url, origin })
    }
}

/// Returns the service ID used in AWS's settings.
fn service_id(service: &str) -> &str {
    match service {
        "logs" => "CloudWatch Logs",
        "secretsmanager" => "Secrets Manager",
        "servicequotas" => "Service Quotas",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::errors::fault_without_answer;
    use super::*;
    use std::io::{Error, ErrorKind};
    use trainc_apply::calls::Call;

    fn ends(kind: ErrorKind) -> Fault {
        fault_without_answer(Call::DescribeFileSystems, &Error::from(kind))
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
