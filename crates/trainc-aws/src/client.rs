//! Requests to AWS services without their SDK crates: trainc writes the request and reads the response, and
//! the SDK's runtime finds credentials, signs, sends and retries.

use super::endpoints::Endpoints;
use super::errors::{fault, foreign_answer};
use super::xml;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::auth::{SigV4OperationSigningConfig, SigningOptions};
use aws_runtime::invocation_id::InvocationIdInterceptor;
use aws_runtime::request_info::RequestInfoInterceptor;
use aws_runtime::retries::classifiers::AwsErrorCodeClassifier;
use aws_runtime::service_clock_skew::{
    DisableClockSkewCorrection, ServiceClockSkewClassifier, ServiceClockSkewInterceptor,
};
use aws_runtime::user_agent::{ApiMetadata, UserAgentInterceptor};
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::classifiers::{HttpStatusCodeClassifier, TransientErrorClassifier};
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::auth::{
    AuthSchemeOptionResolverParams, SharedAuthScheme, SharedAuthSchemeOptionResolver,
};
use aws_smithy_runtime_api::client::identity::SharedIdentityResolver;
use aws_smithy_runtime_api::client::interceptors::SharedInterceptor;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::StaticRuntimePlugin;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::Layer;
use aws_smithy_types::error::metadata::{ErrorMetadata, ProvideErrorMetadata};
use aws_types::SigningName;
use aws_types::region::{Region, SigningRegion};
use roxmltree::{Document, Node};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt;
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::{Class, Fault};
use trainc_catalog::services::{Protocol, Service};
use trainc_catalog::{regions, services};

/// A client of the services that are asked without their SDK crates.
#[derive(Clone, Debug)]
pub(super) struct Client {
    config: SdkConfig,
    /// Measures from each response how wrong this machine's clock is, for all requests to all services.
    skew: SharedInterceptor,
}

/// Key of the request ID in an error's metadata.
pub(super) const REQUEST_ID: &str = "request ID";

/// A request to a service, before it is signed.
#[derive(Clone, Debug)]
struct Request {
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

/// An error response of a service.
#[derive(Debug)]
struct Refusal(ErrorMetadata);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for Refusal {}

impl ProvideErrorMetadata for Refusal {
    fn meta(&self) -> &ErrorMetadata {
        &self.0
    }
}

/// Reads a response of a service.
type Read<T> = fn(&HttpResponse) -> Result<T, OrchestratorError<Refusal>>;

/// The member of a response with the items of a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum List {
    /// In every response: one without it is not an empty list.
    Required(&'static str),
    /// A service may leave it out if it is empty.
    Optional(&'static str),
}

/// Maximum number of pages of a list.
const MAX_PAGES: usize = 10_000;

impl Client {
    pub(super) fn new(config: SdkConfig) -> Self {
        Self { config, skew: SharedInterceptor::new(ServiceClockSkewInterceptor::new()) }
    }

    /// Sends a request to a JSON service in the caller's region; the body is sent as it is serialized here,
    /// and the response is read as `T`.
    pub(super) async fn json<T>(&self, call: Call, body: &impl Serialize) -> Answer<T>
    where
        T: DeserializeOwned + fmt::Debug + Send + Sync + 'static,
    {
        self.json_in(None, call, body).await
    }

    /// Sends a request to a JSON service in a region, `None` for the caller's.
    pub(super) async fn json_in<T>(
        &self,
        region: Option<&str>,
        call: Call,
        body: &impl Serialize,
    ) -> Answer<T>
    where
        T: DeserializeOwned + fmt::Debug + Send + Sync + 'static,
    {
        let (service, request) = json_request(call, body)?;
        self.send(region, call, service, request, read_json::<T>).await
    }

    /// Sends a request to a JSON service whose response has nothing to read.
    pub(super) async fn tell(&self, call: Call, body: &impl Serialize) -> Answer<()> {
        let (service, request) = json_request(call, body)?;
        self.send(None, call, service, request, read_done).await
    }

    /// Reads all pages of a list of a JSON service.
    pub(super) async fn json_list<T: DeserializeOwned>(
        &self,
        call: Call,
        body: Map<String, Value>,
        list: List,
    ) -> Answer<Vec<T>> {
        let Some(Protocol::Json { page_token: Some(token), .. }) = &service_of(call)?.protocol else {
            return Err(Fault::new(call, Class::Bug, "the service has no pages"));
        };
        all_pages(call, async |next| {
            let mut asked = body.clone();
            asked.extend(next.map(|next| (token.clone(), next.into())));
            let mut page: Map<String, Value> = self.json(call, &asked).await?;
            read_page(&mut page, list, token).ok_or_else(|| foreign_answer(call, 200))
        })
        .await
    }

    /// Sends a request to a query service and reads the element `<Operation>Response`.
    pub(super) async fn query<T>(
        &self,
        call: Call,
        parameters: &[(String, String)],
        read: impl FnOnce(Node<'_, '_>) -> Option<T>,
    ) -> Answer<T> {
        let service = service_of(call)?;
        let operation = call.row().operation;
        let Some(Protocol::Query { version }) = &service.protocol else {
            return Err(Fault::new(call, Class::Bug, &format!("{} is not a query service", service.id)));
        };
        let mut body = format!("Action={operation}&Version={version}");
        for (name, value) in parameters {
            body.push_str(&format!("&{name}={}", form_encode(value)));
        }
        let request = Request {
            headers: vec![("content-type", "application/x-www-form-urlencoded".to_owned())],
            body: body.into_bytes(),
        };
        let text = self.send(None, call, service, request, read_text).await?;
        let document = xml::parse(&text);
        let root = document.as_ref().map(Document::root_element);
        let root = root.filter(|root| root.tag_name().name().strip_suffix("Response") == Some(operation));
        root.and_then(read).ok_or_else(|| foreign_answer(call, 200))
    }

    async fn send<T: fmt::Debug + Send + Sync + 'static>(
        &self,
        region: Option<&str>,
        call: Call,
        service: &Service,
        request: Request,
        read: Read<T>,
    ) -> Answer<T> {
        let (url, signing_region) = self.endpoint(region, call, service)?;
        let operation = Operation::builder()
            .service_name(call.row().service)
            .operation_name(call.row().operation)
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&url)
            .with_connection_poisoning()
            .serializer(|request: Request| request.into_http())
            .deserializer(read)
            .runtime_plugin(self.signed_and_retried(call, signing_region));
        let operation = match self.config.http_client() {
            Some(http) => operation.http_client(http),
            None => operation,
        };
        let operation = match self.config.timeout_config() {
            Some(timeouts) => operation.timeout_config(timeouts.clone()),
            None => operation,
        };
        operation.build().invoke(request).await.map_err(|error| fault(call, &error))
    }

    /// Returns the endpoint that AWS's settings name, or else the service's own, and the region of the
    /// signature. The region may come from a manifest: only a known region becomes part of a host name or a
    /// signature.
    fn endpoint(&self, region: Option<&str>, call: Call, service: &Service) -> Answer<(String, String)> {
        let own_region = || self.config.region().map(ToString::to_string).unwrap_or_default();
        let region = region.map_or_else(own_region, str::to_owned);
        let Some(region) = regions::get(&region) else {
            let words = format!("unknown region `{region}`; no request was sent");
            return Err(Fault::new(call, Class::Invalid, &words));
        };
        let configured = Endpoints::new(self.config.clone()).configured(call.row().service);
        let use_fips = self.config.use_fips().unwrap_or_default();
        let use_dual_stack = self.config.use_dual_stack().unwrap_or_default();
        let host = service.host(&region, use_fips, use_dual_stack);
        let url = configured.map(|configured| configured.url);
        let url = url.or_else(|| Some(format!("https://{}", host?))).ok_or_else(|| {
            Fault::new(call, Class::Bug, &format!("the endpoint of {} is unknown", service.id))
        })?;
        Ok((url, if service.global { region.iam_region } else { region.name }))
    }

    /// Returns how requests get credentials, a signature, retries, and the headers of every attempt: as in
    /// the SDK's crates.
    fn signed_and_retried(&self, call: Call, region: String) -> StaticRuntimePlugin {
        let mut layer = Layer::new("trainc");
        layer.store_put(AuthSchemeOptionResolverParams::new(()));
        layer.store_put(SigningName::from_static(call.row().service));
        layer.store_put(SigningRegion::from(Region::new(region)));
        layer.store_put(SigV4OperationSigningConfig {
            signing_options: SigningOptions::default(),
            ..SigV4OperationSigningConfig::default()
        });
        layer.store_put(ApiMetadata::new(call.row().service, env!("CARGO_PKG_VERSION")));
        layer.store_or_unset(self.config.app_name().cloned());
        if let Some(retries) = self.config.retry_config() {
            layer.store_put(retries.clone());
        }
        layer.store_or_unset(
            self.config.disable_clock_skew_correction().map(DisableClockSkewCorrection::from),
        );
        let mut components = RuntimeComponentsBuilder::new("trainc");
        components.set_auth_scheme_option_resolver(Some(SharedAuthSchemeOptionResolver::new(
            StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID]),
        )));
        components.push_auth_scheme(SharedAuthScheme::new(SigV4AuthScheme::new()));
        if let Some(credentials) = self.config.credentials_provider() {
            components.set_identity_resolver(SCHEME_ID, SharedIdentityResolver::new(credentials));
        }
        if let Some(cache) = self.config.identity_cache() {
            components.set_identity_cache(Some(cache));
        }
        if let Some(sleep) = self.config.sleep_impl() {
            components.set_sleep_impl(Some(sleep));
        }
        if let Some(time) = self.config.time_source() {
            components.set_time_source(Some(time));
        }
        components.push_retry_classifier(HttpStatusCodeClassifier::default());
        components.push_retry_classifier(TransientErrorClassifier::<Refusal>::new());
        components.push_retry_classifier(AwsErrorCodeClassifier::<Refusal>::new());
        components.push_retry_classifier(ServiceClockSkewClassifier::<Refusal>::new());
        components.push_interceptor(self.skew.clone());
        components.push_interceptor(RequestInfoInterceptor::new());
        components.push_interceptor(UserAgentInterceptor::new());
        components.push_interceptor(InvocationIdInterceptor::new());
        StaticRuntimePlugin::new().with_config(layer.freeze()).with_runtime_components(components)
    }
}

impl Request {
    fn into_http(self) -> Result<HttpRequest, aws_smithy_runtime_api::box_error::BoxError> {
        let length = self.body.len().to_string();
        let mut request = HttpRequest::new(SdkBody::from(self.body));
        request.set_method("POST")?;
        request.set_uri("/")?;
        for (name, value) in self.headers {
            request.headers_mut().insert(name, value);
        }
        request.headers_mut().insert("content-length", length);
        Ok(request)
    }
}

/// Returns an object of the members that are set.
pub(super) fn members<const N: usize>(all: [(&str, Option<Value>); N]) -> Map<String, Value> {
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn service_of(call: Call) -> Answer<&'static Service> {
    let prefix = call.row().service;
    let unknown = || Fault::new(call, Class::Bug, &format!("the service `{prefix}` is unknown"));
    services::get(prefix).ok_or_else(unknown)
}

fn json_request(call: Call, body: &impl Serialize) -> Answer<(&'static Service, Request)> {
    let bug = |what: String| Fault::new(call, Class::Bug, &what);
    let service = service_of(call)?;
    let Some(Protocol::Json { target, .. }) = &service.protocol else {
        return Err(bug(format!("{} is not a JSON service", service.id)));
    };
    let request = Request {
        headers: vec![
            ("content-type", "application/x-amz-json-1.1".to_owned()),
            ("x-amz-target", format!("{target}.{}", call.row().operation)),
        ],
        body: serde_json::to_vec(body).map_err(|error| bug(error.to_string()))?,
    };
    Ok((service, request))
}

/// Reads all pages of a list, given a function that reads one by its token. An empty page need not be the
/// last: some services filter after paging.
pub(super) async fn all_pages<T>(
    call: Call,
    mut page: impl AsyncFnMut(Option<String>) -> Answer<(Vec<T>, Option<String>)>,
) -> Answer<Vec<T>> {
    let mut found = Vec::new();
    let mut token = None;
    for _ in 0..MAX_PAGES {
        let (items, next) = page(token.clone()).await?;
        found.extend(items);
        match next {
            None => return Ok(found),
            same if same == token => {
                return Err(Fault::new(call, Class::NoResponse, "the next page of the list is the same one"));
            }
            other => token = other,
        }
    }
    let words = format!("the list has more than {MAX_PAGES} pages");
    Err(Fault::new(call, Class::NoResponse, &words))
}

/// Returns the items of a page and the token of the next one.
fn read_page<T: DeserializeOwned>(
    page: &mut Map<String, Value>,
    list: List,
    token: &str,
) -> Option<(Vec<T>, Option<String>)> {
    let items = match list {
        List::Required(member) => serde_json::from_value(page.remove(member)?).ok()?,
        List::Optional(member) => {
            let items = page.remove(member).unwrap_or_default();
            // An object of another sender is no empty list.
            if items.is_null() && page.keys().any(|key| key != token) {
                return None;
            }
            serde_json::from_value::<Option<Vec<T>>>(items).ok()?.unwrap_or_default()
        }
    };
    match page.remove(token) {
        None | Some(Value::Null) => Some((items, None)),
        Some(Value::String(next)) => Some((items, Some(next).filter(|next| !next.is_empty()))),
        Some(_) => None,
    }
}

fn read_json<T: DeserializeOwned>(response: &HttpResponse) -> Result<T, OrchestratorError<Refusal>> {
    let body = response.body().bytes().unwrap_or_default();
    if !response.status().is_success() {
        return Err(OrchestratorError::operation(json_refusal(response, body)));
    }
    serde_json::from_slice(body).map_err(OrchestratorError::other)
}

/// Some operations answer `{}`, others nothing.
fn read_done(response: &HttpResponse) -> Result<(), OrchestratorError<Refusal>> {
    if response.status().is_success() && response.body().bytes().is_some_and(<[u8]>::is_empty) {
        return Ok(());
    }
    read_json::<Map<String, Value>>(response).map(|_| ())
}

/// Reads the code from the header `x-amzn-errortype`, `__type` or `code`: `namespace#Code:http://…`.
fn json_refusal(response: &HttpResponse, body: &[u8]) -> Refusal {
    let read: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| read.get(name).and_then(Value::as_str);
    let header = response.headers().get("x-amzn-errortype");
    let code = header.or_else(|| text("__type")).or_else(|| text("code")).unwrap_or_default();
    let code = code.split(':').next().unwrap_or_default();
    let code = code.rsplit_once('#').map_or(code, |(_, code)| code);
    let message = text("message").or_else(|| text("Message")).or_else(|| text("errorMessage"));
    refusal(code, message, None)
}

fn refusal(code: &str, message: Option<&str>, request_id: Option<&str>) -> Refusal {
    let mut meta = ErrorMetadata::builder();
    if !code.is_empty() {
        meta = meta.code(code);
    }
    if let Some(message) = message {
        meta = meta.message(message);
    }
    if let Some(id) = request_id {
        meta = meta.custom(REQUEST_ID, id);
    }
    Refusal(meta.build())
}

fn read_text(response: &HttpResponse) -> Result<String, OrchestratorError<Refusal>> {
    let body = String::from_utf8_lossy(response.body().bytes().unwrap_or_default());
    if response.status().is_success() {
        return Ok(body.into_owned());
    }
    Err(OrchestratorError::operation(xml_refusal(&body)))
}

/// Reads `Response/Errors/Error/{Code,Message}` of EC2, `ErrorResponse/Error/{Code,Message}` of IAM.
fn xml_refusal(body: &str) -> Refusal {
    let document = xml::parse(body);
    let root = document.as_ref().map(roxmltree::Document::root_element);
    let error = root.and_then(|root| xml::child(xml::child(root, "Errors").unwrap_or(root), "Error"));
    let text = |name: &str| error.and_then(|error| xml::text_of(error, name));
    let of_root = |name: &str| root.and_then(|root| xml::text_of(root, name));
    let id = of_root("RequestID").or_else(|| of_root("RequestId"));
    refusal(text("Code").unwrap_or_default(), text("Message"), id)
}

/// Percent-encodes a form value: all bytes except unreserved characters (RFC 3986).
fn form_encode(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_form_are_encoded() {
        assert_eq!(form_encode("a b+c/é"), "a%20b%2Bc%2F%C3%A9");
    }

    #[test]
    fn a_refusal_in_xml_keeps_code_reason_and_request() {
        let of_ec2 = "<Response><Errors><Error><Code>InvalidSubnetID.NotFound</Code><Message>no</Message>\
            </Error></Errors><RequestID>r-1</RequestID></Response>";
        let of_iam = "<ErrorResponse><Error><Code>NoSuchEntity</Code><Message>no</Message></Error>\
            <RequestId>r-1</RequestId></ErrorResponse>";
        for (body, code) in [(of_ec2, "InvalidSubnetID.NotFound"), (of_iam, "NoSuchEntity")] {
            let Refusal(meta) = xml_refusal(body);
            assert_eq!((meta.code(), meta.message()), (Some(code), Some("no")));
            assert_eq!(meta.extra(REQUEST_ID), Some("r-1"));
        }
        assert_eq!(xml_refusal("<html>").0.code(), None);
    }
}
