//! Faults of calls: the service's error, classified by its code and text.
//!
//! The classes decide what happens next (retry, observe again, stop); the words decide nothing. AWS's code, text and
//! request id are kept, so that what is shown can be looked up. One table for the account and the simulation.

mod refusal;

use super::calls::Call;
use std::num::NonZeroU64;

/// The class of a fault, which decides what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The resource does not exist.
    NotFound,
    /// The name is taken: look whose it is.
    Exists,
    /// The name belongs to another account: nothing to look at, and nothing to adopt.
    Foreign,
    /// Too many calls: wait and repeat.
    Throttled,
    /// The service failed, and may not have done it: repeat.
    Unavailable,
    /// No answer came: what happened is not known. Repeat, or look.
    NoResponse,
    /// The endpoint is unreachable: nothing listens there, or the host is unknown. Nothing was sent.
    Unreachable,
    /// What was written a moment ago is not seen everywhere yet: repeat for a while after a write of ours.
    NotPropagated,
    /// Something else holds the object at the moment: repeat for a while.
    Busy,
    /// The caller may not do this.
    Denied,
    /// There are no credentials, or they are wrong or have run out.
    Credentials,
    /// A quota of the account is used up.
    Quota,
    /// AWS has no such machines free.
    Capacity,
    /// The same token was used with other settings before.
    Mismatch,
    /// The bucket lies in another region than the one that was asked.
    OtherRegion,
    /// The request itself is refused.
    Invalid,
    /// This account of ours cannot answer such a question (simulation, or an adapter without the service).
    NotSupported,
    /// trainc did something that cannot be right.
    Bug,
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {code}: {message}", call.describe())]
pub struct Fault {
    /// The call.
    pub call: Call,
    /// Its class.
    pub class: Class,
    /// The service's own code, as `EntityAlreadyExists`; empty without a response.
    pub code: String,
    /// The service's own text.
    pub message: String,
    /// The request's id, for AWS support.
    pub request_id: Option<String>,
    /// The region of the bucket, where S3 names it.
    pub region: Option<Box<str>>,
    /// The resource of the call, such as "bucket `name`", if the caller added it.
    pub about: Option<Box<str>>,
    /// The required value of the exhausted quota, in its unit, if known.
    pub needs: Option<NonZeroU64>,
}

impl Fault {
    /// An answer of the service, classified.
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

    /// A fault of a class that the caller knows, as a lost answer or missing credentials.
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

    /// No answer came, for these reasons, the outermost first: in plain words, without what a library calls its own parts.
    /// Of what is no closed connection and no time that ran out, the innermost reason says most.
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

    /// The IAM action that is missing: the one that a refusal names, which may be one that the call only needs besides
    /// (`iam:PassRole` of CreateTrainingJob, `fsx:TagResource` of CreateFileSystem); else the call's own.
    pub fn action(&self) -> String {
        let named = if self.class == Class::Denied { refusal::action(&self.message) } else { None };
        named.map_or_else(|| self.call.action(), str::to_owned)
    }

    /// Returns the ARN of the resource of a denied action, if the error names it.
    pub fn resource(&self) -> Option<&str> {
        if self.class == Class::Denied { refusal::resource(&self.message) } else { None }
    }

    /// Returns true if the same call may be repeated at once, whatever came before it.
    pub fn is_transient(&self) -> bool {
        matches!(self.class, Class::Throttled | Class::Unavailable | Class::NoResponse | Class::Unreachable)
    }
}

/// Texts of SageMaker's `ValidationException` that mean "your IAM write has not arrived here yet" for a while after
/// one, and a mistake otherwise (terraform-provider-aws, `internal/service/sagemaker/training_job.go`).
const NOT_PROPAGATED: &[&str] = &[
    "Could not assume role",
    "Unauthorized to List objects under S3 URL",
    "Access denied to OutputDataConfig S3 bucket",
    "no identity-based policy allows the s3:ListBucket action",
    "Access denied to hub content",
    "Access denied for repository",
];

/// The class of an answer.
///
/// Sources: botocore 1.44.5 error shapes of iam, fsx, sagemaker, s3, ec2, servicequotas; codes that the models lack
/// (`ValidationException`, throttling) as the services send them.
pub fn classify(call: Call, http: Option<u16>, code: &str, message: &str) -> Class {
    // JSON services put the suffix on some codes, query services on others: `ResourceInUse`, `ResourceInUseException`.
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
        // EC2 sends the first with 401, which would be about credentials; STS with 403.
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
        // Asked elsewhere S3 redirects, or finds a signature for a region that is not the bucket's.
        "PermanentRedirect" => Class::OtherRegion,
        "AuthorizationHeaderMalformed" if message.contains("expecting '") => Class::OtherRegion,
        _ => classify_by_text(call, http, bare, message),
    }
}

/// A missing thing is an answer when it was asked for, and a mistake of the request when something else names it:
/// CreateTrainingJob says `ResourceNotFound` of an image, CreateDataRepositoryAssociation of a bucket.
fn class_if_not_found(call: Call) -> Class {
    match call {
        Call::CreateTrainingJob | Call::CreateFileSystem => Class::Invalid,
        _ => Class::NotFound,
    }
}

/// `ResourceInUse` of StopTrainingJob or an update means that it is busy; of a create, that the name is taken.
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
        // A missing training job is no `ResourceNotFound` in practice.
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
