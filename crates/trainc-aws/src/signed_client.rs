//! Calls to services of which only one or two operations are used: signed with `aws-sigv4` and sent over the
//! SDK's HTTP client, with the SDK's credentials and endpoints.

use super::endpoints::Endpoints;
use super::errors::{describe_missing_credentials, fault_without_answer, join_messages};
use super::settings::{ATTEMPTS, LONGEST_WAIT};
use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::timeout::TimeoutConfig;
use std::time::{Duration, SystemTime};
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::{Class, Fault};
use trainc_catalog::regions;

/// A request to such a service.
#[derive(Clone, Debug)]
pub(super) struct SignedRequest {
    /// The call in the table of calls.
    pub call: Call,
    /// Prefix of the service's host, such as `ec2` or `api.ecr`.
    pub host: &'static str,
    /// Service name for the signature; also the service ID in AWS's settings (`AWS_ENDPOINT_URL_EC2`).
    pub service: &'static str,
    /// Region of the resource, if it differs from the caller's.
    pub region: Option<String>,
    /// Protocol headers: content type, and the target of JSON services.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
}

/// A response.
#[derive(Clone, Debug)]
pub(super) struct SignedResponse {
    /// HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
    /// The request ID.
    pub request_id: Option<String>,
}

/// A client that signs its requests.
#[derive(Clone, Debug)]
pub(super) struct SignedClient {
    config: SdkConfig,
    first_wait: Duration,
}

impl SignedClient {
    pub(super) fn new(config: SdkConfig, first_wait: Duration) -> Self {
        Self { config, first_wait }
    }

    /// Sends a request and retries transient faults, as the SDK does for its own calls. `read` returns the
    /// fault of an error response.
    pub(super) async fn ask(
        &self,
        ask: &SignedRequest,
        read: fn(&SignedRequest, &SignedResponse) -> Option<Fault>,
    ) -> Answer<SignedResponse> {
        let mut wait = self.first_wait;
        let mut attempt = 1;
        let id = invocation_id();
        loop {
            let answer =
                self.attempt(ask, &id).await.and_then(|reply| read(ask, &reply).map_or(Ok(reply), Err));
            match answer {
                Err(no) if no.is_transient() && attempt < ATTEMPTS => {
                    attempt += 1;
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
                other => return other,
            }
        }
    }

    async fn attempt(&self, ask: &SignedRequest, id: &str) -> Answer<SignedResponse> {
        let bug = |what: String| Fault::new(ask.call, Class::Bug, &what);
        let url = self.url(ask)?;
        let mut request = HttpRequest::new(SdkBody::from(ask.body.as_str()));
        request.set_method("POST").map_err(|error| bug(error.to_string()))?;
        request.set_uri(url.as_str()).map_err(|error| bug(error.to_string()))?;
        for (name, value) in &ask.headers {
            request.headers_mut().insert(*name, value.clone());
        }
        // The same ID for every attempt, as in the SDK: unsigned, for the service's logs.
        request.headers_mut().insert("amz-sdk-invocation-id", id.to_owned());
        for (name, value) in self.signature(ask, &url).await? {
            request.headers_mut().insert(name, value);
        }
        let mut operation = Operation::builder()
            .service_name(ask.service)
            .operation_name(ask.call.row().operation)
            // The SDK's HTTP client that its crates use by default.
            .behavior_version(BehaviorVersion::latest());
        if let Some(http) = self.config.http_client() {
            operation = operation.http_client(http);
        }
        let operation = operation
            .endpoint_url(&url)
            .no_auth()
            .no_retry()
            .timeout_config(self.config.timeout_config().cloned().unwrap_or_else(TimeoutConfig::disabled))
            .serializer(|request: HttpRequest| Ok(request))
            .deserializer(|response: &HttpResponse| {
                Ok::<_, OrchestratorError<std::convert::Infallible>>(SignedResponse::from_http(response))
            })
            .build();
        operation
            .invoke(request)
            .await
            .map_err(|error: SdkError<_, _>| fault_without_answer(ask.call, &error))
    }

    /// Returns the custom endpoint from AWS's settings, or else the service's endpoint in the region. The
    /// region may come from a manifest: only a known region becomes part of a host name or a signature.
    fn url(&self, ask: &SignedRequest) -> Answer<String> {
        let region = self.region(ask);
        let Some(region) = regions::get(&region) else {
            let words = format!("unknown region `{region}`; no request was sent");
            return Err(Fault::new(ask.call, Class::Invalid, &words));
        };
        let set = Endpoints::new(self.config.clone()).configured(ask.service).map(|named| named.url);
        let url =
            set.unwrap_or_else(|| format!("https://{}.{}.{}", ask.host, region.name, region.dns_suffix));
        Ok(format!("{}/", url.trim_end_matches('/')))
    }

    fn region(&self, ask: &SignedRequest) -> String {
        ask.region
            .clone()
            .unwrap_or_else(|| self.config.region().map(ToString::to_string).unwrap_or_default())
    }

    /// Returns the headers of the signature.
    async fn signature(&self, ask: &SignedRequest, url: &str) -> Answer<Vec<(String, String)>> {
        let none = |what: &str| Fault::new(ask.call, Class::Credentials, what);
        let bug = |what: String| Fault::new(ask.call, Class::Bug, &what);
        let Some(provider) = self.config.credentials_provider() else {
            return Err(none("no credentials provider is configured"));
        };
        let credentials = provider.provide_credentials().await;
        let credentials = credentials.map_err(|error| {
            none(&describe_missing_credentials(&error).unwrap_or_else(|| join_messages(&error)))
        })?;
        let identity = credentials.into();
        let region = self.region(ask);
        let settings = v4::SigningParams::builder()
            .identity(&identity)
            .region(&region)
            .name(ask.service)
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| bug(error.to_string()))?
            .into();
        let headers = ask.headers.iter().map(|(name, value)| (*name, value.as_str()));
        let signable = SignableRequest::new("POST", url, headers, SignableBody::Bytes(ask.body.as_bytes()))
            .map_err(|error| bug(join_messages(&error)))?;
        let (instructions, _) =
            sign(signable, &settings).map_err(|error| bug(join_messages(&error)))?.into_parts();
        Ok(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

/// Returns a unique ID for a call.
fn invocation_id() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{:08x}-{:032x}", std::process::id(), since.as_nanos())
}

impl SignedResponse {
    fn from_http(response: &HttpResponse) -> Self {
        let header = |name: &str| response.headers().get(name).map(str::to_owned);
        Self {
            status: response.status().as_u16(),
            body: String::from_utf8_lossy(response.body().bytes().unwrap_or_default()).into_owned(),
            request_id: header("x-amzn-requestid").or_else(|| header("x-amz-request-id")),
        }
    }
}
