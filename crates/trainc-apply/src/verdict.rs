//! Diagnostics of failures: each fault and each obstacle becomes a diagnostic at its place in the manifest,
//! with an exit code and the next step.

mod access;
mod obstacle;
mod quota;
mod region;
mod remedies;
mod spans;
mod worker;

use super::calls::Call;
use super::fault::{Class, Fault};
use super::ledger::{Cause, Item};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Detail, Diagnostic};
use trainc_diag::{NextCommand, help};
use trainc_emit::ResourceKind;
use trainc_ir::Plan;

pub use access::with_alternative;
pub use obstacle::{obstacle, plan_obstacle};
pub(crate) use quota::is_file_system_count;
pub(crate) use region::T0629;
use region::with_region_flag;
use worker::{T0617, T0620, T0643};
pub use worker::{worker, worker_experimental};

declare_code!(T0601, "access-denied", Error, "a missing permission of the caller", found_in: Account);
declare_code!(T0602, "no-credentials", Error, "missing, invalid or expired credentials", found_in: Account);
declare_code!(T0603, "quota-exceeded", Error, "an exhausted quota of the account", found_in: Account);
declare_code!(
    T0604,
    "no-capacity",
    Error,
    "no capacity for the instance type",
    found_in: Account,
    explains: [Capacity]
);
declare_code!(
    T0605,
    "unmanaged-resource",
    Error,
    "an existing resource that does not belong to this job",
    found_in: Account
);
declare_code!(T0606, "digest-mismatch", Error, "a run of another version of the job", found_in: Account);
declare_code!(
    T0607,
    "role-not-assumable",
    Error,
    "a role that SageMaker cannot assume or use",
    found_in: Account
);
declare_code!(T0608, "request-refused", Error, "a request that the service rejects", found_in: Account);
declare_code!(T0609, "service-unavailable", Error, "a service that does not answer", found_in: Account);
declare_code!(
    T0610,
    "replacement-required",
    Error,
    "a change that requires replacing a resource, and would destroy its data",
    found_in: Account
);
declare_code!(
    T0611,
    "resource-failed",
    Error,
    "a resource that failed or is misconfigured",
    found_in: Account
);
declare_code!(
    T0613,
    "client-token-reused",
    Error,
    "a client token that was used with other settings",
    found_in: Account
);
declare_code!(T0614, "wait-timed-out", Error, "a wait that timed out", found_in: Account);
declare_code!(T0615, "resource-in-use", Error, "a resource that is in use", found_in: Account);
declare_code!(
    T0616,
    "cluster-not-deployable",
    Error,
    "a cluster that is not on SageMaker",
    found_in: Account
);
declare_code!(
    T0618,
    "concurrent-change",
    Error,
    "a resource that was changed by someone else during the command",
    found_in: Account
);
declare_code!(
    T0645,
    "concurrent-versions",
    Error,
    "two versions of the job that run at the same time without `--new-run`",
    found_in: Account
);
declare_code!(
    T0670,
    "hard-limit-exceeded",
    Error,
    "a service limit that no quota increase can raise",
    found_in: Account
);
declare_code!(T0669, "run-numbers-exhausted", Error, "a digest with no run number left", found_in: Account);
declare_code!(
    T0671,
    "too-many-sharing-jobs",
    Error,
    "a file system that is shared by too many jobs",
    found_in: Account
);
declare_code!(
    T0672,
    "started-during-destroy",
    Error,
    "a training job that was started during `destroy`",
    found_in: Account
);
declare_code!(
    T0673,
    "became-sole-user",
    Error,
    "a file system that other jobs stopped using during `destroy`",
    found_in: Account
);
declare_code!(
    T0619,
    "credentials-account-mismatch",
    Error,
    "credentials for another account than the manifest's",
    found_in: Account
);

/// The codes of this file and its submodules.
pub(super) static CODES: &[&Code] = &[
    &T0601, &T0602, &T0603, &T0604, &T0605, &T0606, &T0607, &T0608, &T0609, &T0610, &T0611, &T0613, &T0614,
    &T0615, &T0616, &T0617, &T0618, &T0619, &T0620, &T0643, &T0645, &T0669, &T0670, &T0671, &T0672, &T0673,
];

/// Exit codes of the command line that depend on the account.
pub mod exit {
    /// A bug in trainc.
    pub const BUG: u8 = 1;
    /// The manifest is invalid or does not match the account.
    pub const MANIFEST: u8 = 3;
    /// Differences: another digest of the job, an outdated saved plan.
    pub const DIFFERENT: u8 = 4;
    /// Incomplete, safe to run again.
    pub const INCOMPLETE: u8 = 5;
    /// Access denied, or no credentials.
    pub const DENIED: u8 = 6;
    /// A resource that is not ours blocks the plan.
    pub const FOREIGN: u8 = 7;
    /// The training job itself failed or was stopped.
    pub const JOB: u8 = 8;
}

/// A problem with its exit code.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The diagnostic.
    pub diagnostic: Diagnostic,
    /// The exit code.
    pub exit: u8,
    /// The flag of `plan` and `apply` that overrides the problem, if any.
    pub flag: Option<&'static str>,
}

/// Returns the most severe of several exit codes: those that require a person come first.
pub fn worst_exit(exits: impl IntoIterator<Item = u8>) -> Option<u8> {
    const ORDER: [u8; 7] = [
        exit::BUG,
        exit::FOREIGN,
        exit::DENIED,
        exit::MANIFEST,
        exit::DIFFERENT,
        exit::INCOMPLETE,
        exit::JOB,
    ];
    exits.into_iter().min_by_key(|code| ORDER.iter().position(|known| known == code).unwrap_or(ORDER.len()))
}

/// Returns the diagnostic for a resource that was not created.
pub fn verdict(plan: &Plan, item: &Item, cause: &Cause) -> Verdict {
    let span = match cause {
        Cause::Fault(fault) | Cause::Waited { fault, .. } => spans::rejected_value_span(plan, fault),
        Cause::Obstacle(_) | Cause::Gone | Cause::Late { .. } => None,
    };
    let span = span.unwrap_or_else(|| manifest_span(plan, item));
    match cause {
        Cause::Fault(fault) => {
            let verdict = remedies::with_remedy(
                plan,
                fault,
                note_kept_resources(fault, item, fault_verdict(fault, Some(item), span)),
            );
            with_region_flag(
                plan,
                with_policy_help(quota::with_increase_command(
                    plan,
                    fault,
                    item,
                    quota::with_association_help(plan, fault, verdict),
                )),
            )
        }
        Cause::Obstacle(change) => with_region_flag(plan, obstacle(change, span)),
        Cause::Waited { fault, seconds } => {
            let verdict = quota::with_wait_note(fault, *seconds, fault_verdict(fault, Some(item), span));
            quota::with_increase_command(plan, fault, item, verdict)
        }
        Cause::Gone => Verdict {
            diagnostic: Diagnostic::new(
                &T0618,
                span,
                format!(
                    "{} `{}` was deleted by someone else while the other resources were created",
                    item.kind.word().replace('-', " "),
                    item.name
                ),
            )
            .help(
                "make sure that no `trainc destroy` of this job is running, then run the same \
                command again to recreate it",
            )
            .note("a resource that someone deletes during an apply is not recreated automatically"),
            exit: exit::INCOMPLETE,
            flag: None,
        },
        Cause::Late { state, seconds } => Verdict {
            diagnostic: Diagnostic::new(
                &T0614,
                span,
                format!("{} `{}` was waited for {}: {state}", item.kind, item.name, text::duration(*seconds)),
            )
            .help("run the same command again: it resumes where this one stopped")
            .fact("seconds", *seconds),
            exit: exit::INCOMPLETE,
            flag: None,
        },
    }
}

/// Adds a note to a fault of expired credentials if resources may have been created before. Reads create
/// nothing, and deletions simply continue next time.
fn note_kept_resources(fault: &Fault, item: &Item, verdict: Verdict) -> Verdict {
    let ends = ["Delete", "Stop", "Abort"].iter().any(|verb| fault.call.row().operation.starts_with(verb));
    if fault.class != Class::Credentials || ends {
        return verdict;
    }
    let words = if item.kind == ResourceKind::TrainingJob {
        "nothing is lost: created resources carry their tags, and a started job keeps running"
    } else {
        "nothing is lost: created resources carry their tags and are found again"
    };
    Verdict { diagnostic: verdict.diagnostic.note(words), ..verdict }
}

/// Returns the span in the manifest from which a resource is derived.
pub fn manifest_span(plan: &Plan, item: &Item) -> Span {
    let job = &plan.job;
    let storage = item.name.split('/').next().unwrap_or_default();
    let place = match item.kind {
        ResourceKind::Role | ResourceKind::RolePolicy => job.role.as_ref().map(|role| role.span),
        ResourceKind::FileSystem | ResourceKind::Association => job
            .storage
            .iter()
            .find(|one| one.name.value().is_some_and(|name| name == storage))
            .map(|one| one.span),
        ResourceKind::Source | ResourceKind::Bucket => job.program.as_ref().map(|program| program.span),
        ResourceKind::Worker => job.parallel.as_ref().map(|parallel| parallel.span),
        ResourceKind::TrainingJob => job.name.span(),
    };
    place.unwrap_or(job.span)
}

/// Maximum number of differences in a short message.
const MOST_DIFFERENCES: usize = 12;

/// Truncates the differences of a diagnostic, for output without `-v`.
#[must_use]
pub fn truncate_differences(mut diagnostic: Diagnostic) -> Diagnostic {
    if let Some(Detail::Differences(all)) = diagnostic.detail {
        let all = all.min(diagnostic.notes.len());
        if all > MOST_DIFFERENCES {
            let more = format!("and {} more: `-v` shows all", all - MOST_DIFFERENCES);
            diagnostic.notes.splice(MOST_DIFFERENCES..all, [more.into()]);
        }
    }
    diagnostic
}

/// Returns the diagnostic for a fault that prevented reading the account.
pub fn read_failed(plan: &Plan, fault: &Fault) -> Verdict {
    let place = match (fault.class, fault.call) {
        // Denied for the default bucket, which trainc would create.
        (Class::Denied, Call::HeadBucket) => plan.job.program.as_ref().map(|program| program.span),
        // Nothing in the manifest selects credentials.
        (Class::Credentials, _) => Some(Span::whole(plan.job.span.source)),
        // A missing permission does not depend on the region, unlike an endpoint that does not respond.
        (Class::Denied, _) => plan.job.name.span(),
        _ => plan.job.region.span(),
    };
    with_policy_help(fault_verdict(fault, None, place.unwrap_or(plan.job.span)))
}

/// Adds the command that prints the policy of this job, which depends on its buckets, keys and role.
fn with_policy_help(verdict: Verdict) -> Verdict {
    // An account that is not activated lacks no action, so a policy does not help.
    if verdict.diagnostic.code != &T0601
        || verdict.diagnostic.detail.as_ref().and_then(Detail::action).is_none()
    {
        return verdict;
    }
    let help = help![
        "`",
        NextCommand::with_manifest_flag("catalog permissions"),
        "` prints the policy that this job needs",
    ];
    Verdict { diagnostic: verdict.diagnostic.help(help), ..verdict }
}

/// Returns the diagnostic for a failed read without a plan.
pub fn request_failed(fault: &Fault, span: Span) -> Verdict {
    fault_verdict(fault, None, span)
}

fn fault_verdict(fault: &Fault, item: Option<&Item>, span: Span) -> Verdict {
    let call = fault.call.describe();
    let what = match (&fault.about, item) {
        (_, Some(item)) => format!("{} `{}`: ", item.kind, item.name),
        (Some(about), None) => format!("{about}: "),
        (None, None) => String::new(),
    };
    let new = |code: &'static Code, message: String| Diagnostic::new(code, span, message);
    let again = "run the same command again: it resumes where this one stopped";
    let (diagnostic, exit) = match fault.class {
        Class::Denied => (access::denied(fault, &what, span), exit::DENIED),
        Class::Credentials => {
            // Without a code there was no response: the request could not be signed.
            let words = service_message(fault);
            let said = if fault.code.is_empty() { words } else { format!("{call} was refused: {words}") };
            (access::credentials(fault, &format!("{what}{said}"), span), exit::DENIED)
        }
        Class::Quota => {
            (quota::quota(fault, item, &new, &format!("{what}{}", service_message(fault))), exit::INCOMPLETE)
        }
        Class::Capacity => (
            new(&T0604, format!("{what}{}", service_message(fault))).help(
                "wait for capacity with `--wait-for-capacity 2h`, or choose another availability \
                    zone or instance type",
            ),
            exit::INCOMPLETE,
        ),
        Class::NotPropagated => (
            new(&T0607, format!("{what}{}", service_message(fault)))
                .help(again)
                .note("IAM changes take up to two minutes to propagate; trainc has already waited that long")
                .note(
                    "if it persists, check the role's trust policy, its S3 permissions and the \
                    bucket policy",
                ),
            exit::INCOMPLETE,
        ),
        Class::Throttled | Class::Unavailable | Class::NoResponse => (
            new(
                &T0609,
                format!("{what}{call} did not respond after several attempts: {}", service_message(fault)),
            )
            .help(again),
            exit::INCOMPLETE,
        ),
        Class::Unreachable => (
            new(&T0609, format!("{what}{call} could not be sent: {}", service_message(fault))).help(
                "check that this endpoint is reachable from this machine, then run the same \
                    command again",
            ),
            exit::INCOMPLETE,
        ),
        Class::Busy => busy(fault, new(&T0615, format!("{what}{}", service_message(fault)))),
        Class::Mismatch => (
            new(&T0613, format!("{what}{}", service_message(fault)))
                .help(
                    "list the file systems with `aws fsx describe-file-systems`; once the one \
                    created with this token appears or is deleted, run the same command again; or give the \
                    storage another `name=`, which changes the token",
                )
                .note(
                    "the token is derived from the immutable settings: an earlier request used it \
                    with other settings",
                ),
            exit::INCOMPLETE,
        ),
        Class::NotFound | Class::Exists => (
            new(&T0618, format!("{what}{call} failed: {}", service_message(fault))).help(again),
            exit::INCOMPLETE,
        ),
        Class::Foreign => (
            new(&T0605, format!("{what}{}", service_message(fault)))
                .help("name one of your buckets: `upload=\"s3://…\"` in `program`")
                .note(
                    "bucket names are unique across all accounts of a partition: another account \
                    owns this one",
                ),
            exit::FOREIGN,
        ),
        Class::OtherRegion => (region::bucket_in_other_region(fault, &what, span), exit::MANIFEST),
        Class::Invalid | Class::NotSupported => (
            new(&T0608, format!("{what}{call} was refused: {}", service_message(fault)))
                .help("fix what the message names: `trainc emit` writes each request as it is sent")
                .note("trainc validates requests before it sends them; the service gave no further detail"),
            exit::INCOMPLETE,
        ),
        Class::Bug => (new(&T0608, format!("{what}{call}: {}", service_message(fault))), exit::BUG),
    };
    Verdict { diagnostic: with_call_facts(fault, diagnostic), exit, flag: None }
}

/// Returns the service's message on one line, without a full stop.
fn service_message(fault: &Fault) -> String {
    let text = fault.message.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.trim_end_matches('.');
    match (fault.code.as_str(), text) {
        ("", "") => "no reason given".to_owned(),
        ("", text) => text.to_owned(),
        (code, "") => code.to_owned(),
        (code, text) if text.starts_with(code) => text.to_owned(),
        (code, text) => format!("{code}: {text}"),
    }
}

fn with_call_facts(fault: &Fault, diagnostic: Diagnostic) -> Diagnostic {
    let denied = fault.class == Class::Denied && !access::is_inactive_account(fault);
    let mut diagnostic = diagnostic.detail(Detail::Call {
        call: fault.call.describe(),
        code: fault.code.clone(),
        denied_action: denied.then(|| fault.action()),
    });
    if fault.class == Class::Denied && !fault.message.is_empty() {
        diagnostic = diagnostic.note(service_message(fault));
        if fault.message.contains("explicit deny") {
            diagnostic = diagnostic.note(
                "an explicit deny, e.g. of a service control policy or a permissions boundary, \
                    overrides every policy that allows the call",
            );
        }
    }
    match &fault.request_id {
        Some(id) => diagnostic.note(format!("AWS request ID {id}")).fact("request_id", id.as_str()),
        None => diagnostic,
    }
}

fn busy(fault: &Fault, diagnostic: Diagnostic) -> (Diagnostic, u8) {
    if fault.code == "DeleteConflict" {
        return (
            diagnostic.help("remove the policies that were added to the role, then run `destroy` again").note(
                "trainc deletes only what it created: a role with policies that someone else added is kept",
            ),
            exit::FOREIGN,
        );
    }
    (diagnostic.help("run the same command again in a minute"), exit::INCOMPLETE)
}

/// Checks that the cluster of a plan is on SageMaker.
///
/// # Errors
///
/// Fails with the diagnostic for a cluster outside SageMaker.
pub fn require_sagemaker(plan: &Plan) -> Result<(), Box<Verdict>> {
    if plan.on_sagemaker.is_some() { Ok(()) } else { Err(Box::new(not_deployable(plan))) }
}

/// Returns the diagnostic for a cluster outside SageMaker.
pub fn not_deployable(plan: &Plan) -> Verdict {
    let span = plan.job.cluster.as_ref().map_or(plan.job.span, |cluster| cluster.span);
    Verdict {
        diagnostic: Diagnostic::new(
            &T0616,
            span,
            "the cluster is not on SageMaker: there is nothing to apply",
        )
        .note("`cluster \"local\"` and `cluster \"custom\"` are for `plan` and `run`"),
        exit: exit::MANIFEST,
        flag: None,
    }
}

/// Returns the diagnostic if the manifest's account is not the caller's.
pub fn account_mismatch(plan: &Plan, caller: &super::account::Caller) -> Option<Verdict> {
    let written = plan.job.account.val().filter(|written| written.value != caller.account)?;
    Some(Verdict {
        diagnostic: Diagnostic::new(
            &T0619,
            written.span_or(plan.job.span),
            format!(
                "the manifest names account `{}`, but the credentials belong to `{}`",
                written.value, caller.account
            ),
        )
        .help("set AWS_PROFILE to a profile of the manifest's account")
        .note(format!("sts GetCallerIdentity: {}", caller.arn)),
        exit: exit::MANIFEST,
        flag: None,
    })
}
