//! Maps SDK errors to faults, for every service.

use super::client::REQUEST_ID;
use super::http_client::{ForeignAnswer, IdleTimeout};
use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use std::error::Error;
use std::io::ErrorKind;
use trainc_apply::calls::Call;
use trainc_apply::fault::{Class, Fault};

/// Reads an error of any operation. Codes are read from the metadata, never from variants: the services send
/// codes that their models lack (`ValidationException`, `ThrottlingException`).
pub(super) fn fault<E>(call: Call, error: &SdkError<E, HttpResponse>) -> Fault
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let raw = error.raw_response();
    let http = raw.map(|raw| raw.status().as_u16());
    let in_body =
        error.as_service_error().and_then(|error| error.meta().extra(REQUEST_ID)).map(str::to_owned);
    let request = raw.and_then(request_id).or(in_body);
    let unsigned = describe_missing_credentials(error);
    let said = match error {
        SdkError::ServiceError(answer) => {
            let code = answer.err().code().unwrap_or_default();
            let text = answer.err().message().unwrap_or_default();
            let head = matches!(call, Call::HeadBucket | Call::HeadObject);
            if code.is_empty() && head && http == Some(400) {
                // The response to HEAD has no body with `ExpiredToken`; the request itself, created by the
                // SDK, is valid.
                let text =
                    "HTTP 400: S3 returns this when credentials have expired or belong to another partition";
                return Fault::new(call, Class::Credentials, text).with_request_id(request.as_deref());
            }
            // AWS always sends a code; a proxy's error may have only a message.
            if let (true, false, Some(status @ ..500)) = (code.is_empty(), head, http) {
                let mut foreign = foreign_answer(call, status).with_request_id(request.as_deref());
                if !text.is_empty() {
                    foreign.message = format!("{}: {text}", foreign.message);
                }
                return foreign;
            }
            let nothing = code.is_empty() && text.is_empty();
            let text = if nothing { describe_status(http) } else { text.to_owned() };
            Fault::from_answer(call, http, code, &text)
        }
        SdkError::ResponseError(_) if chain(error).any(<dyn std::error::Error>::is::<ForeignAnswer>) => {
            fault_without_answer(call, error)
        }
        SdkError::ResponseError(_) => match http {
            // The body was truncated, or is not in the format of the service.
            Some(status @ ..300) if !is_cut_off(error) => foreign_answer(call, status),
            Some(..300) => fault_without_answer(call, error),
            _ => Fault::from_answer(call, http, "", &describe_status(http)),
        },
        _ if unsigned.is_some() => {
            Fault::new(call, Class::Credentials, unsigned.as_deref().unwrap_or_default())
        }
        SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) => fault_without_answer(call, error),
        _ => Fault::new(call, Class::Bug, &join_messages(error)),
    };
    let region = raw.and_then(|raw| raw.headers().get("x-amz-bucket-region"));
    said.with_request_id(request.as_deref()).of_region(region)
}

/// Returns the fault for a response that is not in the format of the service, such as that of a proxy.
pub(super) fn foreign_answer(call: Call, status: u16) -> Fault {
    let foreign = ForeignAnswer { status, kind: String::new() };
    Fault::new(call, Class::NoResponse, &foreign.to_string())
}

/// Returns true if a body was truncated or stalled.
fn is_cut_off(error: &(dyn Error + 'static)) -> bool {
    chain(error).any(|one| {
        one.is::<IdleTimeout>()
            || one.downcast_ref::<std::io::Error>().is_some()
            || one.to_string().contains("connection")
            || one.to_string().contains("end of file")
            || one.to_string().contains("Content-Length")
    })
}

/// Describes an error without a body, as that of a HEAD request.
fn describe_status(http: Option<u16>) -> String {
    match http {
        Some(403) => "access denied (HTTP 403)".to_owned(),
        Some(404) => "not found (HTTP 404)".to_owned(),
        Some(status) => format!("HTTP {status} without a reason"),
        None => "no response".to_owned(),
    }
}

/// Returns the request ID from the header that the service's family uses.
fn request_id(raw: &HttpResponse) -> Option<String> {
    ["x-amzn-requestid", "x-amz-request-id"]
        .iter()
        .find_map(|name| raw.headers().get(*name))
        .map(str::to_owned)
}

/// Describes why a request could not be signed; `None` for other errors.
pub(super) fn describe_missing_credentials(error: &(dyn Error + 'static)) -> Option<String> {
    let fault = chain(error).find_map(|one| one.downcast_ref::<CredentialsError>())?;
    Some(match fault {
        CredentialsError::CredentialsNotLoaded(_) => {
            "no credentials found in the environment, in ~/.aws or on this machine".to_owned()
        }
        CredentialsError::ProviderTimedOut(_) => {
            "no credentials: the credentials provider did not respond".to_owned()
        }
        // The innermost message names the profile, the file or the service; the outer ones only state the
        // failure.
        _ => {
            let reason = chain(fault).filter(|one| !one.to_string().is_empty()).last();
            let reason = reason.map_or_else(String::new, |one| format!(": {one}"));
            format!("the credentials cannot be read{reason}")
        }
    })
}

/// Classifies a request without a response. If nothing listens or the host is unknown, nothing was sent.
pub(super) fn fault_without_answer(call: Call, error: &(dyn Error + 'static)) -> Fault {
    let refused = |one: &(dyn Error + 'static)| {
        one.downcast_ref::<std::io::Error>().is_some_and(|one| {
            matches!(
                one.kind(),
                ErrorKind::ConnectionRefused
                    | ErrorKind::HostUnreachable
                    | ErrorKind::NetworkUnreachable
                    | ErrorKind::AddrNotAvailable
            )
        })
    };
    if let Some(idle) = chain(error).find_map(|one| one.downcast_ref::<IdleTimeout>()) {
        return Fault::new(call, Class::NoResponse, &idle.to_string());
    }
    if let Some(foreign) = chain(error).find_map(|one| one.downcast_ref::<ForeignAnswer>()) {
        return Fault::new(call, Class::NoResponse, &foreign.to_string());
    }
    if chain(error).any(|one| one.to_string().starts_with("HTTP connect timeout")) {
        return Fault::new(call, Class::Unreachable, "the connection timed out");
    }
    // The resolver's errors have no kind.
    let unknown = |one: &(dyn Error + 'static)| one.to_string().starts_with("failed to lookup address");
    match chain(error).find(|one| refused(*one) || unknown(*one)) {
        Some(reason) => Fault::new(call, Class::Unreachable, &reason.to_string()),
        None => Fault::from_no_response(call, &reasons(error)),
    }
}

/// Returns the messages of an error and its sources, the outermost first.
fn reasons(error: &(dyn Error + 'static)) -> Vec<String> {
    chain(error).map(ToString::to_string).collect()
}

/// Joins the messages of an error and its sources, each once.
pub(super) fn join_messages(error: &(dyn Error + 'static)) -> String {
    let mut said: Vec<String> = Vec::new();
    for one in chain(error) {
        let text = one.to_string();
        if !text.is_empty() && !said.iter().any(|before| before.contains(&text)) {
            said.push(text);
        }
    }
    said.join(": ")
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&one: &&'a (dyn Error + 'static)| one.source())
}
