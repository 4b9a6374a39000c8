//! Diagnostics for denied actions, credentials and clock skew.

use super::{T0601, T0602};
use crate::calls::Call;
use crate::fault::Fault;
use trainc_diag::source::Span;
use trainc_diag::{Diagnostic, NextCommand, help};

/// Error codes of an account that AWS has not activated, or that is not subscribed to the service (common
/// errors of STS and EC2, `OptInRequired`; error codes of S3, `NotSignedUp`; read 2026-11-22).
const NOT_ACTIVE: [&str; 4] = ["OptInRequired", "SubscriptionRequired", "NotSignedUp", "PendingVerification"];

/// Returns whether the account is not activated, or not subscribed to the service: no action is missing.
pub(super) fn is_inactive_account(fault: &Fault) -> bool {
    NOT_ACTIVE.iter().any(|code| fault.code.contains(code))
}

/// Returns the diagnostic for an account that is not activated; `None` for other errors.
fn not_active(fault: &Fault, what: &str, span: Span) -> Option<Diagnostic> {
    is_inactive_account(fault).then(|| {
        let call = fault.call.describe();
        let message = format!(
            "{what}{call} was refused: the account is not activated, or not subscribed to the service"
        );
        Diagnostic::new(&T0601, span, message)
            .help(
                "complete the account's registration as its root user at \
                https://portal.aws.amazon.com/billing/signup#/account, then run the same command again",
            )
            .note(
                "this is not a permissions problem: AWS activates a new account once its payment \
                method is verified",
            )
    })
}

/// Returns the diagnostic for a denied call; `what` names its subject, followed by a space.
pub(super) fn denied(fault: &Fault, what: &str, span: Span) -> Diagnostic {
    if let Some(diagnostic) = not_active(fault, what, span) {
        return diagnostic;
    }
    let action = fault.action();
    // A call may require further actions, such as passing a role or setting tags.
    let asks = if action == fault.call.action() {
        String::new()
    } else {
        format!(", which {} requires", fault.call.describe())
    };
    let diagnostic =
        Diagnostic::new(&T0601, span, format!("{what}the caller is not allowed to perform {action}{asks}"))
            .help("trainc catalog permissions prints the policy that each command needs");
    let diagnostic = match fault.denied_resource() {
        Some(resource) => diagnostic.fact("resource", resource),
        None => diagnostic,
    };
    if fault.call == Call::HeadBucket {
        diagnostic.note(
            "trainc creates the bucket if it does not exist, so it must be able to see it; a \
                bucket named with `upload=\"s3://…\"` in `program` need not be visible",
        )
    } else {
        diagnostic
    }
}

/// Command that synchronizes the clock of this machine.
const SET_CLOCK: &str = "synchronize this machine's clock, `sudo timedatectl set-ntp true` (macOS: `sudo \
    sntp -sS time.apple.com`), then run the same command again";

/// Returns the diagnostic for invalid or expired credentials, or a wrong clock.
pub(super) fn credentials(fault: &Fault, said: &str, span: Span) -> Diagnostic {
    let code = fault.code.as_str();
    if is_skewed(fault) {
        let skewed = Diagnostic::new(&T0602, span, format!("{said}: this machine's clock is wrong"));
        let skewed = skewed
            .help(SET_CLOCK)
            .note("AWS accepts signatures within 5 minutes of its own time, S3 and EC2 within 15");
        if code.contains("RequestExpired") {
            skewed.note(
                "EC2 returns the same error for expired temporary credentials: if the clock is \
                right, log in again (`aws sso login`)",
            )
        } else {
            skewed
        }
    } else {
        let diagnostic = Diagnostic::new(&T0602, span, said);
        if code.contains("Expired") || code.contains("Refresh") {
            diagnostic.help("log in again (`aws sso login`), then run the same command again")
        } else if code.contains("Signature") {
            diagnostic.help(
                "check the secret access key, which does not match the access key ID: `aws \
                configure` sets both",
            )
        } else {
            diagnostic
                .help(
                    "log in with `aws sso login`, select a profile with AWS_PROFILE, or set \
                    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                )
                .note("`aws sts get-caller-identity` shows which credentials are used")
        }
    }
}

/// Puts a command that needs no credentials before the help of missing or invalid ones, with what it does.
pub fn with_alternative(diagnostic: Diagnostic, command: NextCommand, does: &'static str) -> Diagnostic {
    match &diagnostic.help {
        Some(first) if diagnostic.code == &T0602 => {
            let help = help!["`", command, format!("` {does}; or {}", &**first)];
            diagnostic.help(help)
        }
        _ => diagnostic,
    }
}

/// Returns true if the error concerns the time of the request and not the credentials.
/// `SignatureDoesNotMatch` is returned for both a wrong secret key and an expired signature, which differ
/// only in the message.
fn is_skewed(fault: &Fault) -> bool {
    const CODES: [&str; 2] = ["RequestExpired", "RequestTimeTooSkewed"];
    const TEXTS: [&str; 3] = ["Signature expired", "Signature not yet current", "Request has expired"];
    CODES.iter().any(|code| fault.code.contains(code))
        || TEXTS.iter().any(|text| fault.message.contains(text))
}
