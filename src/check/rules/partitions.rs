//! ARNs of the manifest against the job's own partition, region and account.

use crate::check::Context;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::ir::{Field, Plan, Val};
use crate::source::Span;

declare_code!(T0496, "arn-partition", Error, "an ARN of another partition than the region's");
declare_code!(T0497, "arn-elsewhere", Error, "an ARN of another region or account than it can be of");
declare_code!(T0498, "kms-alias", Warning, "a key's alias where a made role needs the key");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0496, &T0497, &T0498];

/// Judges each ARN that the manifest names.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    for named in named(plan) {
        elsewhere(plan, &named, problems);
    }
    aliases(plan, problems);
}

/// What must hold for an ARN beside its partition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// Nothing more is known, or another rule judges it.
    Partition,
    /// The service looks for it in its own region.
    Region,
    /// It can only be of the job's account.
    Account,
    /// Both.
    RegionAndAccount,
}

/// One ARN.
struct Named<'a> {
    what: &'static str,
    arn: &'a Val<String>,
    span: Span,
    bound: Bound,
    why: &'static str,
}

fn named(plan: &Plan) -> Vec<Named<'_>> {
    let job = &plan.job;
    let mut list: Vec<Named<'_>> = Vec::new();
    let kms = "a key is used in its own region only";
    if let Some(role) = &job.role {
        push(&mut list, "role", &role.arn, role.span, Bound::Partition, "");
        push(&mut list, "permissions boundary", &role.boundary, role.span, Bound::Account, "a boundary is a policy of the role's own account");
    }
    if let Some(program) = &job.program {
        for secret in &program.secrets {
            push(&mut list, "secret", &secret.from, secret.name_span, Bound::Partition, "");
        }
    }
    if let Some(output) = &job.output {
        push(&mut list, "output key", &output.kms, output.span, Bound::Region, kms);
    }
    if let Some(cluster) = &job.cluster {
        push(&mut list, "volume key", &cluster.volume_kms, cluster.span, Bound::Region, kms);
        push(&mut list, "training plan", &cluster.training_plan, cluster.span, Bound::RegionAndAccount, "a training plan is capacity of one account in one region");
    }
    for storage in &job.storage {
        push(&mut list, "file system's key", &storage.kms, storage.span, Bound::Region, kms);
    }
    list
}

fn push<'a>(
    list: &mut Vec<Named<'a>>,
    what: &'static str,
    field: &'a Field<String>,
    fallback: Span,
    bound: Bound,
    why: &'static str,
) {
    if let Some(arn) = field.val() {
        list.push(Named { what, arn, span: arn.span_or(fallback), bound, why });
    }
}

fn elsewhere(plan: &Plan, named: &Named, problems: &mut Problems) {
    let mut parts = named.arn.value.splitn(6, ':');
    let (Some("arn"), Some(partition), Some(_), Some(region), Some(account)) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return;
    };
    let Some(job_region) = &plan.region else { return };
    let region_at = plan.job.region.span().unwrap_or(plan.job.span);
    if partition != job_region.partition {
        problems.push(
            Diagnostic::new(&T0496, named.span, format!("the {} is of partition `{partition}`, and {} is of `{}`", named.what, job_region.name, job_region.partition))
                .label(region_at, format!("`{}`", job_region.partition))
                .help(format!("write `arn:{}:…`", job_region.partition))
                .note("partitions share nothing: no role, key or secret of one can be used in another"),
        );
        return;
    }
    if matches!(named.bound, Bound::Region | Bound::RegionAndAccount) && !region.is_empty() && region != job_region.name {
        problems.push(
            Diagnostic::new(&T0497, named.span, format!("the {} is in {region}, and the job in {}", named.what, job_region.name))
                .label(region_at, "the job's region")
                .help(format!("name one of {}", job_region.name))
                .note(named.why),
        );
    }
    let Some(job_account) = plan.job.account.val() else { return };
    let foreign = !account.is_empty() && account != "aws" && account != job_account.value;
    if matches!(named.bound, Bound::Account | Bound::RegionAndAccount) && foreign {
        problems.push(
            Diagnostic::new(&T0497, named.span, format!("the {} is of account {account}, and the job of {}", named.what, job_account.value))
                .label(job_account.span_or(plan.job.span), "the job's account")
                .note(named.why),
        );
    }
}

/// A made role gets the key's ARN as a resource, and IAM does not follow aliases.
fn aliases(plan: &Plan, problems: &mut Problems) {
    let made = plan.job.role.as_ref().filter(|role| role.create.get() == Some(true));
    let Some(role) = made else { return };
    let output = plan.job.output.as_ref().and_then(|output| Some((output.kms.val()?, output.span)));
    let volume = plan.job.cluster.as_ref().and_then(|cluster| Some((cluster.volume_kms.val()?, cluster.span)));
    for (key, fallback) in output.into_iter().chain(volume) {
        if key.value.starts_with("alias/") || key.value.contains(":alias/") {
            problems.push(
                Diagnostic::new(&T0498, key.span_or(fallback), format!("`{}` is an alias, and the role's policy needs the key", key.value))
                    .label(role.create.span().unwrap_or(role.span), "trainc writes its policy")
                    .help("write the key's ARN, as `aws kms describe-key --key-id ALIAS --query KeyMetadata.Arn` shows it")
                    .note("an alias as resource of a policy does not grant the use of its key (AWS KMS developer guide)"),
            );
        }
    }
}
