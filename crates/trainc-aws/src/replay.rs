//! An account with recorded responses: it records the requests and returns the responses in order.

use super::{Account, Notice, Settings};
use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::credential_fn::provide_credentials_fn;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A recorded response; `None` for a closed connection. Its text may begin with the header `date`. The
/// response to HEAD has no body: its text contains headers, one `name: value` per line.
pub(super) type Recorded = Option<(u16, &'static str)>;

/// A request as sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub method: String,
    pub uri: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Sent {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Clone, Debug)]
pub(super) struct Replay {
    answers: Arc<Mutex<VecDeque<Recorded>>>,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Replay {
    /// Returns an account with these responses, and access to the requests that it received.
    pub(super) fn account(answers: &[Recorded]) -> (Account, Self) {
        Self::with_credentials(answers, Some(Credentials::for_tests()))
    }

    /// The same with other settings of AWS tools.
    pub(super) fn with_settings(
        answers: &[Recorded],
        settings: impl FnOnce(aws_types::sdk_config::Builder) -> aws_types::sdk_config::Builder,
    ) -> (Account, Self) {
        Self::new(answers, Some(Credentials::for_tests()), settings)
    }

    pub(super) fn with_credentials(
        answers: &[Recorded],
        credentials: Option<Credentials>,
    ) -> (Account, Self) {
        Self::new(answers, credentials, |builder| builder)
    }

    fn new(
        answers: &[Recorded],
        credentials: Option<Credentials>,
        settings: impl FnOnce(aws_types::sdk_config::Builder) -> aws_types::sdk_config::Builder,
    ) -> (Account, Self) {
        let replay =
            Self { answers: Arc::new(Mutex::new(answers.iter().copied().collect())), sent: Arc::default() };
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-west-2"))
            .retry_config(RetryConfig::standard().with_initial_backoff(Duration::ZERO))
            .sleep_impl(aws_smithy_async::rt::sleep::TokioSleep::new())
            .time_source(aws_smithy_async::time::SystemTimeSource::new())
            .http_client(SharedHttpClient::new(replay.clone()))
            .credentials_provider(match credentials {
                Some(credentials) => SharedCredentialsProvider::new(credentials),
                None => SharedCredentialsProvider::new(provide_credentials_fn(|| async {
                    Err(CredentialsError::not_loaded("no providers in chain provided credentials"))
                })),
            });
        let config = settings(config).build();
        let settings = Settings {
            region: "us-west-2".to_owned(),
            first_wait: Duration::ZERO,
            part_bytes: Some(1_024),
            idle_timeout: Duration::from_mins(1),
            notice: Notice { after: Duration::MAX, print: |_| {} },
            credentials: crate::CredentialCache::default(),
        };
        (Account::from_config(config, &settings), replay)
    }

    pub(super) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }
}

impl HttpClient for Replay {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Replay {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = String::from_utf8_lossy(request.body().bytes().unwrap_or_default()).into_owned();
        let headers =
            request.headers().iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        self.sent.lock().unwrap().push(Sent {
            method: request.method().to_owned(),
            uri: request.uri().to_owned(),
            headers,
            body,
        });
        let answer = self.answers.lock().unwrap().pop_front();
        HttpConnectorFuture::ready(match answer {
            Some(Some((status, text))) => {
                let status = StatusCode::try_from(status).unwrap();
                let (body, headers) = match text.split_once('\n') {
                    _ if request.method() == "HEAD" => ("", text),
                    Some((date, body)) if date.starts_with("date: ") => (body, date),
                    _ => (text, ""),
                };
                let mut response = HttpResponse::new(status, SdkBody::from(body));
                for (name, value) in headers.lines().filter_map(|line| line.split_once(": ")) {
                    response.headers_mut().insert(name, value);
                }
                response.headers_mut().insert("x-amzn-requestid", "request-1");
                Ok(response)
            }
            Some(None) => Err(ConnectorError::io("connection reset by peer".into())),
            None => Err(ConnectorError::user("more was asked than answers are recorded".into())),
        })
    }
}
