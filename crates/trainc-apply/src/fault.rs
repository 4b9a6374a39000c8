//! Errors of AWS calls, classified by code and message.
//!
//! The class determines the reaction (retry, read again, stop); the message does not. AWS's code, message and
//! request ID are kept, so that users can look them up. The account and the simulation share the table.

mod refusal;

use super::calls::Call;
use std::num::NonZeroU64;

/// Class of a fault, which determines the reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The resource does not exist.
    NotFound,
    /// The name is taken: check who owns it.
    Exists,
    /// The name belongs to another account: it can be neither read nor adopted.
    Foreign,
    /// Throttled: wait and retry.
    Throttled,
    /// The service failed, and may not have carried out the call: retry.
    Unavailable,
    /// No response arrived, so the effect is unknown: retry or read.
    NoResponse,
    /// The endpoint is unreachable: nothing listens there, or the host is unknown. Nothing was sent.
    Unreachable,
    /// A recent IAM write is not visible everywhere yet: retry for a while after a write of ours.
    NotPropagated,
    /// Another operation uses the resource at the moment: retry for a while.
    Busy,
    /// The caller lacks a permission.
    Denied,
    /// Credentials are missing, invalid or expired.
    Credentials,
    /// A quota of the account is exhausted.
    Quota,
    /// AWS has no capacity of this instance type.
    Capacity,
    /// The client token was used before with other settings.
    Mismatch,
    /// The bucket is in another region than the request.
    OtherRegion,
    /// The request is invalid.
    Invalid,
    /// This implementation of an account does not support the call (simulation, or an adapter without the
    /// service).
    NotSupported,
    /// A bug in trainc.
    Bug,
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {code}: {message}", call.describe())]
pub struct Fault {
    /// The call.
    pub call: Call,
    /// Class of the error.
    pub class: Class,
    /// The service's error code, such as `EntityAlreadyExists`; empty without a response.
    pub code: String,
    /// The service's error message.
    pub message: String,
    /// Request ID, for AWS support.
    pub request_id: Option<String>,
    /// Region of the bucket, if S3 names it.
    pub region: Option<Box<str>>,
    /// The resource of the call, such as "bucket `name`", if the caller added it.
    pub about: Option<Box<str>>,
    /// The required value of the exhausted quota, in its unit, if known.
    pub needs: Option<NonZeroU64>,
}

impl Fault {
    /// Creates a fault from an error response and classifies it.
    pub fn from_answer(call: Call, http: Option<u16>, code: &str, message: &str) -> Self {
        Self {
            call,
            class: classify(call, http, code, message),
            code: code.to_owned(),
            message: message.to_owned(),
            request_id: None,
            region: None,
            about: None,
            needs: None,
        }
    }

    /// Creates a fault whose class the caller knows, such as a lost response or missing credentials.
    pub fn new(call: Call, class: Class, message: &str) -> Self {
        let message = message.to_owned();
        Self {
            call,
            class,
            code: String::new(),
            message,
            request_id: None,
            region: None,
            about: None,
            needs: None,
        }
    }

    /// Creates a fault for a missing response, given the error messages, outermost first. A closed connection
    /// or a timeout is described in plain words, without the library's internals; for other errors the
    /// innermost message is the most specific.
    pub fn from_no_response(call: Call, reasons: &[String]) -> Self {
        const CLOSED: [&str; 7] = [
            "connection closed",
            "connection reset",
            "connection aborted",
            "broken pipe",
            "unexpected eof",
            "unexpected end of file",
            "end of file before message length",
        ];
        const LATE: [&str; 3] = ["timed out", "timeout", "time out"];
        let says = |words: &[&str]| {
            reasons.iter().any(|reason| words.iter().any(|word| reason.to_lowercase().contains(word)))
        };
        let words = if says(&CLOSED) {
            "the connection was closed before a response arrived".to_owned()
        } else if says(&LATE) {
            "the request timed out".to_owned()
        } else {
            let reason = reasons.iter().rfind(|reason| !reason.is_empty());
            reason.map_or_else(|| "no response".to_owned(), |reason| format!("no response: {reason}"))
        };
        Self::new(call, Class::NoResponse, &words)
    }

    /// Adds the request's ID.
    #[must_use]
    pub fn with_request_id(mut self, id: Option<&str>) -> Self {
        self.request_id = id.map(str::to_owned);
        self
    }

    /// Adds the region of the bucket, as S3 reports it.
    #[must_use]
    pub fn of_region(mut self, region: Option<&str>) -> Self {
        self.region = region.map(Box::from);
        self
    }

    /// Adds the resource that the call was about.
    #[must_use]
    pub fn with_subject(mut self, what: &str, name: &str) -> Self {
        self.about = Some(format!("{what} `{name}`").into_boxed_str());
        self
    }

    /// Adds the quota value that would be needed.
    #[must_use]
    pub fn with_needed_quota(mut self, amount: u64) -> Self {
        self.needs = NonZeroU64::new(amount);
        self
    }

    /// Returns the missing IAM action: the one that the error names, which may be an additional action of the
    /// call (`iam:PassRole` of CreateTrainingJob, `fsx:TagResource` of CreateFileSystem), otherwise that of
    /// the call.
    pub fn action(&self) -> String {
        let named = if self.class == Class::Denied { refusal::action(&self.message) } else { None };
        named.map_or_else(|| self.call.action(), str::to_owned)
    }

    /// Returns the ARN of the resource of a denied action, if the error names it.
    pub fn denied_resource(&self) -> Option<&str> {
        if self.class == Class::Denied { refusal::resource(&self.message) } else { None }
    }

    /// Returns true if the call can be retried at once, regardless of earlier calls.
    pub fn is_transient(&self) -> bool {
        matches!(self.class, Class::Throttled | Class::Unavailable | Class::NoResponse | Class::Unreachable)
    }
}

/// Messages of SageMaker's `ValidationException` that may mean that a recent IAM write has not reached
/// SageMaker yet, and otherwise an error (terraform-provider-aws,
/// `internal/service/sagemaker/training_job.go`).
const NOT_PROPAGATED: &[&str] = &[
    "Could not assume role",
    "Unauthorized to List objects under S3 URL",
    "Access denied to OutputDataConfig S3 bucket",
    "no identity-based policy allows the s3:ListBucket action",
    "Access denied to hub content",
    "Access denied for repository",
];

/// Returns the class of an error response.
///
/// Sources: error shapes of botocore 1.44.5 for iam, fsx, sagemaker, s3, ec2 and servicequotas; codes that
/// are missing in these models (`ValidationException`, throttling) as the services return them.
pub fn classify(call: Call, http: Option<u16>, code: &str, message: &str) -> Class {
    // Services add the suffix to different codes: `ResourceInUse`, `ResourceInUseException`.
    let bare = code.rsplit(['#', '.']).next().unwrap_or(code);
    let bare = bare.strip_suffix("Exception").unwrap_or(bare);
    match bare {
        "Throttling"
        | "TooManyRequests"
        | "RequestLimitExceeded"
        | "SlowDown"
        | "Throttled"
        | "RequestThrottled"
        | "ProvisionedThroughputExceeded"
        | "BandwidthLimitExceeded" => Class::Throttled,
        "PriorRequestNotComplete" | "ConcurrentModification" | "OperationAborted" => Class::Busy,
        "ServiceFailure"
        | "InternalFailure"
        | "InternalServerError"
        | "InternalError"
        | "ServiceUnavailable"
        | "InternalServiceError"
        | "InternalService" => Class::Unavailable,
        "ExpiredToken"
        | "InvalidClientTokenId"
        | "UnrecognizedClient"
        | "SignatureDoesNotMatch"
        | "RequestExpired"
        | "RequestTimeTooSkewed"
        | "InvalidSignature"
        | "IncompleteSignature"
        | "MissingAuthenticationToken"
        | "AuthFailure"
        | "InvalidAccessKeyId"
        | "TokenRefreshRequired"
        | "InvalidToken" => Class::Credentials,
        "AccessDenied"
        | "AccessDeniedFault"
        | "UnauthorizedOperation"
        | "Forbidden"
        | "AllAccessDisabled"
        | "NotAuthorized" => Class::Denied,
        // EC2 returns the first with status 401, which otherwise means invalid credentials; STS with 403.
        "OptInRequired" | "SubscriptionRequired" | "NotSignedUp" | "PendingVerification" => Class::Denied,
        "NoSuchEntity"
        | "FileSystemNotFound"
        | "DataRepositoryAssociationNotFound"
        | "NoSuchBucket"
        | "NoSuchKey"
        | "NotFound"
        | "ResourceNotFound"
        | "NoSuchResource"
        | "NoSuchUpload"
        | "ImageNotFound"
        | "RepositoryNotFound"
        | "InvalidSubnetID.NotFound"
        | "InvalidGroup.NotFound"
        | "InvalidNetworkInterfaceID.NotFound" => class_if_not_found(call),
        "EntityAlreadyExists"
        | "ResourceInUse"
        | "PreconditionFailed"
        | "BucketAlreadyOwnedByYou"
        | "ConditionalRequestConflict" => class_if_exists(call),
        "BucketAlreadyExists" => Class::Foreign,
        "DeleteConflict" | "DependencyViolation" => Class::Busy,
        "LimitExceeded"
        | "ServiceLimitExceeded"
        | "ServiceQuotaExceeded"
        | "QuotaExceeded"
        | "AccountLimitExceeded" => Class::Quota,
        "ResourceLimitExceeded" if message.contains("apacity") => Class::Capacity,
        "ResourceLimitExceeded" => Class::Quota,
        "CapacityError" | "InsufficientCapacity" | "InsufficientInstanceCapacity" => Class::Capacity,
        "IncompatibleParameterError" => Class::Mismatch,
        // In another region S3 redirects the request, or rejects its signature because of the region.
        "PermanentRedirect" => Class::OtherRegion,
        "AuthorizationHeaderMalformed" if message.contains("expecting '") => Class::OtherRegion,
        _ => classify_by_text(call, http, bare, message),
    }
}

/// Returns the class for a missing resource: a valid answer about the requested resource, but an invalid
/// request if the request only refers to it. CreateTrainingJob returns `ResourceNotFound` for an image,
/// CreateDataRepositoryAssociation for a bucket.
fn class_if_not_found(call: Call) -> Class {
    match call {
        Call::CreateTrainingJob | Call::CreateFileSystem => Class::Invalid,
        _ => Class::NotFound,
    }
}

/// Returns the class for an existing or busy resource: `ResourceInUse` of StopTrainingJob or an update means
/// that it is busy, that of a creation that the name is taken.
fn class_if_exists(call: Call) -> Class {
    match call {
        Call::CreateRole
        | Call::CreateTrainingJob
        | Call::CreateBucket
        | Call::PutObject
        | Call::CompleteMultipartUpload => Class::Exists,
        _ => Class::Busy,
    }
}

fn classify_by_text(call: Call, http: Option<u16>, code: &str, message: &str) -> Class {
    if call == Call::CreateTrainingJob && NOT_PROPAGATED.iter().any(|text| message.contains(text)) {
        return Class::NotPropagated;
    }
    if code == "Validation" || code == "BadRequest" {
        if message.contains("Rate exceeded") {
            return Class::Throttled;
        }
        // The service does not return `ResourceNotFound` for a missing training job.
        let missing = message.contains("resource not found") || message.contains("Could not find");
        if missing && call != Call::CreateTrainingJob {
            return Class::NotFound;
        }
        return Class::Invalid;
    }
    match http {
        Some(301) => Class::OtherRegion,
        Some(401) => Class::Credentials,
        Some(403) => Class::Denied,
        Some(404) => class_if_not_found(call),
        Some(409) => Class::Busy,
        Some(412) => class_if_exists(call),
        Some(429) => Class::Throttled,
        Some(500..) => Class::Unavailable,
        Some(_) => Class::Invalid,
        None => Class::NoResponse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn class(call: Call, code: &str, message: &str, expected: Class) {
        assert_eq!(classify(call, Some(400), code, message), expected, "{code}: {message}");
    }

    #[test]
    fn a_lost_answer_is_told_in_plain_words() {
        let words = |reasons: &[&str]| {
            let reasons: Vec<String> = reasons.iter().map(|one| (*one).to_owned()).collect();
            Fault::from_no_response(Call::CreateRole, &reasons).message
        };
        let closed = "the connection was closed before a response arrived";
        let sent = "client error (SendRequest)";
        assert_eq!(
            words(&["dispatch failure", "other", sent, "connection closed before message completed"]),
            closed
        );
        assert_eq!(
            words(&["dispatch failure", "io error", "Connection reset by peer (os error 104)"]),
            closed
        );
        assert_eq!(
            words(&["request has timed out", "HTTP read timeout occurred after 5s"]),
            "the request timed out"
        );
        let certificate = "invalid peer certificate: UnknownIssuer";
        assert_eq!(
            words(&["dispatch failure", "io error", certificate]),
            format!("no response: {certificate}")
        );
        assert_eq!(words(&[""]), "no response");
    }

    #[test]
    fn codes_are_read_with_and_without_their_suffix() {
        class(Call::CreateRole, "EntityAlreadyExists", "", Class::Exists);
        class(Call::CreateRole, "EntityAlreadyExistsException", "", Class::Exists);
        class(Call::CreateTrainingJob, "com.amazonaws.sagemaker#ResourceInUse", "", Class::Exists);
        class(Call::StopTrainingJob, "ResourceInUse", "", Class::Busy);
        class(Call::DescribeFileSystems, "ThrottlingException", "Rate exceeded", Class::Throttled);
        class(Call::GetCallerIdentity, "ExpiredTokenException", "", Class::Credentials);
        class(Call::GetCallerIdentity, "OptInRequired", "", Class::Denied);
    }

    #[test]
    fn a_validation_exception_is_read_by_its_text() {
        let role = "Could not assume role arn:aws:iam::1:role/x. Please ensure that the role exists";
        class(Call::CreateTrainingJob, "ValidationException", role, Class::NotPropagated);
        class(Call::CreateTrainingJob, "ValidationException", "1 validation error detected", Class::Invalid);
        let missing = "Requested resource not found.";
        class(Call::DescribeTrainingJob, "ValidationException", missing, Class::NotFound);
        class(Call::CreateTrainingJob, "ResourceNotFound", "no such image", Class::Invalid);
    }

    #[test]
    fn quota_and_capacity_are_told_apart() {
        let quota = "The account-level service limit 'ml.p4d.24xlarge for training job usage' is 0 Instances";
        class(Call::CreateTrainingJob, "ResourceLimitExceeded", quota, Class::Quota);
        let none = "Unable to provision requested ML compute capacity due to InsufficientCapacityError";
        class(Call::CreateTrainingJob, "CapacityError", none, Class::Capacity);
    }

    #[test]
    fn what_has_no_code_is_read_by_its_status() {
        assert_eq!(classify(Call::PutObject, Some(301), "", ""), Class::OtherRegion);
        assert_eq!(classify(Call::CreateRole, Some(503), "", ""), Class::Unavailable);
        assert_eq!(classify(Call::CreateRole, Some(403), "", ""), Class::Denied);
        assert_eq!(classify(Call::CreateRole, None, "", "connection reset"), Class::NoResponse);
    }
}
