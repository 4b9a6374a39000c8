//! The SDK's HTTP client with an idle timeout for requests, and a check that AWS sent the response.
//!
//! The read timeout of the SDK starts with the request, so it would abort a large upload over a slow
//! connection. Its stalled stream protection detects neither a stalled upload of an in-memory body nor a
//! missing response after the upload.

use aws_smithy_runtime::client::defaults::default_http_client_plugin_v2;
use aws_smithy_runtime_api::client::behavior_version::BehaviorVersion;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::{RuntimeComponents, RuntimeComponentsBuilder};
use aws_smithy_runtime_api::client::runtime_plugin::RuntimePlugin as _;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

/// Bytes of a request that are passed to the connection at once, which is the granularity of detected
/// progress.
const CHUNK: usize = 16 << 10;

/// No bytes were sent or received for this long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no response within {} s", .0.as_secs_f64())]
pub(super) struct IdleTimeout(Duration);

/// An answer that no AWS service sends, but a proxy or a network's login page does.
#[derive(Clone, Debug, thiserror::Error)]
#[error("something other than AWS answered: HTTP {status}{}{kind}", if .kind.is_empty() { "" } else { ", " })]
pub(super) struct ForeignAnswer {
    /// HTTP status.
    pub status: u16,
    /// The content type, if known.
    pub kind: String,
}

/// Tells the user about a slow request before it fails.
#[derive(Clone, Copy, Debug)]
pub struct Notice {
    /// Time without an answer or a byte.
    pub after: Duration,
    /// Prints a line.
    pub print: fn(&str),
}

/// Returns the SDK's client; its requests fail after this time without progress.
pub(super) fn client(idle: Duration, notice: Notice) -> Option<SharedHttpClient> {
    let plugin = default_http_client_plugin_v2(BehaviorVersion::latest())?;
    let client = plugin.runtime_components(&RuntimeComponentsBuilder::new("trainc")).http_client()?;
    Some(SharedHttpClient::new(CheckedClient { client, idle, notice }))
}

#[derive(Debug)]
struct CheckedClient {
    client: SharedHttpClient,
    idle: Duration,
    notice: Notice,
}

impl HttpClient for CheckedClient {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let connector = self.client.http_connector(settings, components);
        SharedHttpConnector::new(CheckedConnector { connector, idle: self.idle, notice: self.notice })
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.client.connector_metadata()
    }
}

#[derive(Debug)]
struct CheckedConnector {
    connector: SharedHttpConnector,
    idle: Duration,
    notice: Notice,
}

impl HttpConnector for CheckedConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (idle, notice) = (self.idle, self.notice);
        let host = request.uri().split('/').nth(2).unwrap_or("AWS").to_owned();
        let moved = Moved::default();
        let request = request.map(|body| match body.bytes() {
            Some(bytes) if bytes.len() > CHUNK => {
                SdkBody::from_body_1_x(SentBody { rest: Bytes::copy_from_slice(bytes), moved: moved.clone() })
            }
            _ => body,
        });
        let answer = self.connector.call(request);
        HttpConnectorFuture::new(async move {
            let mut answer = pin!(answer);
            let mut wait = notice.after.min(idle);
            loop {
                let last = moved.last();
                match timeout_at(last + wait, &mut answer).await {
                    Ok(answer) => return answer.map(|answer| with_checked_body(answer, idle)),
                    Err(_) if moved.last() > last => {}
                    Err(_) if wait < idle => {
                        (notice.print)(&format!(
                            "no response from {host} for {} s; a request fails after {} s and is repeated",
                            wait.as_secs_f64(),
                            idle.as_secs_f64()
                        ));
                        wait = idle;
                    }
                    Err(_) => return Err(ConnectorError::timeout(IdleTimeout(idle).into())),
                }
            }
        })
    }
}

/// Time of the last progress.
#[derive(Clone, Debug)]
struct Moved(Arc<Mutex<Instant>>);

impl Default for Moved {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Moved {
    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn now(&self) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Instant::now();
    }
}

/// A request's body, in chunks that the connection consumes as it sends them.
struct SentBody {
    rest: Bytes,
    moved: Moved,
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.moved.now();
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let size = CHUNK.min(self.rest.len());
        let chunk = self.rest.split_to(size);
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

fn with_checked_body(answer: HttpResponse, idle: Duration) -> HttpResponse {
    let kind = answer.headers().get("content-type").unwrap_or_default().to_owned();
    let foreign = ForeignAnswer { status: answer.status().as_u16(), kind };
    answer.map(|body| {
        if body.bytes().is_some() {
            return body;
        }
        let until = Box::pin(sleep_until(Instant::now() + idle));
        SdkBody::from_body_1_x(ReceivedBody { body, idle, until, foreign: Some(foreign.clone()) })
    })
}

/// Returns true for the first bytes of an HTML page. The content type is not checked, because moto sets it
/// for every response.
fn is_page(bytes: &[u8]) -> bool {
    let start = bytes.trim_ascii_start();
    ["<!doctype html", "<html"]
        .iter()
        .any(|tag| start.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes())))
}

/// A response's body that fails if it stalls or is an HTML page.
struct ReceivedBody {
    body: SdkBody,
    idle: Duration,
    until: Pin<Box<Sleep>>,
    /// Error for an HTML page, until its first bytes were read.
    foreign: Option<ForeignAnswer>,
}

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let idle = self.idle;
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.until.as_mut().reset(Instant::now() + idle);
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
            if let Some(foreign) = data.and_then(|data| self.foreign.take().filter(|_| is_page(data))) {
                return Poll::Ready(Some(Err(foreign.into())));
            }
            return Poll::Ready(frame);
        }
        ready!(self.until.as_mut().poll(context));
        Poll::Ready(Some(Err(IdleTimeout(idle).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        Body::size_hint(&self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Account, Settings};
    use super::*;
    use aws_config::{Region, SdkConfig};
    use aws_credential_types::Credentials;
    use aws_credential_types::provider::SharedCredentialsProvider;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread::sleep;
    use trainc_apply::cloud::{Cloud as _, Observe as _};
    use trainc_apply::fault::{Class, Fault};

    /// For a host that must exceed it.
    const SHORT: Duration = Duration::from_millis(300);
    /// For a host that must not, however busy the machine is.
    const LONG: Duration = Duration::from_mins(2);
    static NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());

    /// Returns an account whose connections are all answered by `answer`, and may stand still for `idle`.
    fn account(idle: Duration, answer: fn(TcpStream)) -> Account {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                std::thread::spawn(move || answer(stream.unwrap()));
            }
        });
        let notice = Notice { after: idle / 2, print: |line| NOTICES.lock().unwrap().push(line.to_owned()) };
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-west-2"))
            .retry_config(aws_config::retry::RetryConfig::disabled())
            .sleep_impl(aws_smithy_async::rt::sleep::TokioSleep::new())
            .time_source(aws_smithy_async::time::SystemTimeSource::new())
            .endpoint_url(url)
            .http_client(client(idle, notice).unwrap())
            .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()));
        let settings = Settings {
            region: "us-west-2".to_owned(),
            first_wait: Duration::ZERO,
            part_bytes: None,
            idle_timeout: idle,
            notice,
            credentials: crate::CredentialCache::default(),
        };
        Account::from_config(config.build(), &settings)
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    /// Reads a request without a body.
    fn read_request(stream: &mut TcpStream) {
        let _ = stream.read(&mut [0; 4_096]);
    }

    const FILE_SYSTEMS: &str = r#"{"FileSystems":[]}"#;
    const OK: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.1\r\ncontent-length: 18\r\n\r\n";

    #[track_caller]
    fn fails(fault: Fault, words: &str) {
        assert_eq!(fault.class, Class::NoResponse, "{fault}");
        assert!(fault.message.starts_with(words), "{fault}");
    }

    #[test]
    fn a_request_without_an_answer_fails() {
        let silent = account(SHORT, |mut stream| {
            read_request(&mut stream);
            sleep(LONG);
        });
        fails(run(silent.file_systems()).unwrap_err(), "no response within 0.3 s");
        let notice = " for 0.15 s; a request fails after 0.3 s and is repeated";
        let noticed = NOTICES.lock().unwrap().clone();
        assert!(
            noticed
                .iter()
                .any(|line| line.starts_with("no response from 127.0.0.1:") && line.ends_with(notice)),
            "{noticed:?}"
        );
        fails(run(silent.subnets(&[])).unwrap_err(), "no response within 0.3 s");
    }

    #[test]
    fn a_body_that_stops_fails_and_one_that_moves_does_not() {
        let stops = account(SHORT, |mut stream| {
            read_request(&mut stream);
            stream.write_all(format!("{OK}{}", FILE_SYSTEMS.split_at(5).0).as_bytes()).unwrap();
            sleep(LONG);
        });
        fails(run(stops.file_systems()).unwrap_err(), "no response within 0.3 s");
        let cut = account(LONG, |mut stream| {
            read_request(&mut stream);
            stream.write_all(format!("{OK}{}", FILE_SYSTEMS.split_at(5).0).as_bytes()).unwrap();
        });
        fails(run(cut.file_systems()).unwrap_err(), "the connection was closed");
        // Longer than the limit as a whole, with pauses of a fortieth of it.
        const MOVING: Duration = Duration::from_secs(2);
        let slow = account(MOVING, |mut stream| {
            read_request(&mut stream);
            let body = FILE_SYSTEMS.to_owned() + &" ".repeat(42);
            stream.write_all(OK.replace("18", &body.len().to_string()).as_bytes()).unwrap();
            for byte in body.bytes() {
                sleep(MOVING / 40);
                stream.write_all(&[byte]).unwrap();
            }
        });
        assert!(run(slow.file_systems()).unwrap().is_empty());
    }

    #[test]
    fn a_page_for_people_is_no_answer() {
        let page = account(LONG, |mut stream| {
            read_request(&mut stream);
            let text = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 29\r\n\r\n<!DOCTYPE \
                html><p>sign in</p>";
            stream.write_all(text.as_bytes()).unwrap();
        });
        let words = "something other than AWS answered: HTTP 200, text/html";
        fails(run(page.file_systems()).unwrap_err(), words);
        fails(run(page.create_bucket("runs")).unwrap_err(), words);
    }
}
