//! Checks of buckets, data, keys, secrets, the image, and existing file systems.

use super::facts::Facts;
use super::skipped_checks::{answer_or_report, not_found_fault};
use crate::account::Bucket;
use crate::verdict::T0629;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{Access, Location, Plan, s3};

declare_code!(
    T0628,
    "bucket-missing",
    Error,
    "a bucket that does not exist",
    found_in: Account,
    explains: [Input]
);
declare_code!(
    T0630,
    "channel-empty",
    Error,
    "an input without any data",
    found_in: Account,
    explains: [Input]
);
declare_code!(
    T0631,
    "key-unusable",
    Error,
    "a KMS key that does not exist or is not enabled",
    found_in: Account
);
declare_code!(
    T0634,
    "image-missing",
    Error,
    "an image that does not exist in its registry",
    found_in: Account,
    explains: [Image]
);
declare_code!(
    T0635,
    "secret-missing",
    Error,
    "a secret that does not exist in the account",
    found_in: Account
);
declare_code!(
    T0637,
    "file-system-missing",
    Error,
    "a file system that does not exist, is not available or has another mount name",
    found_in: Account
);
declare_code!(
    T0638,
    "file-system-zone-mismatch",
    Warning,
    "a Lustre file system in none of the job's subnets",
    found_in: Account
);

declare_code!(T0642, "bucket-of-other-account", Error, "a bucket of another account", found_in: Account);

pub(super) static CODES: &[&Code] = &[&T0628, &T0629, &T0630, &T0631, &T0634, &T0635, &T0637, &T0638, &T0642];

pub(super) fn judge(plan: &Plan, facts: &Facts, problems: &mut Problems) {
    buckets(plan, facts, problems);
    for data in &facts.data {
        let bucket = crate::desired::split_uri(&data.uri).map_or("", |(bucket, _)| bucket);
        let found = facts.buckets.get(bucket).and_then(|(_, seen)| seen.as_ref()?.as_ref().ok());
        let known = found.is_some();
        if found.is_some_and(|found| mismatched_region(plan, found).is_some()) {
            // Its objects cannot be read from here, and the wrong region is already reported.
            continue;
        }
        let Some(objects) =
            answer_or_report(&data.seen, &format!("the data at `{}`", data.uri), data.span, problems)
        else {
            continue;
        };
        if objects.is_empty() && known {
            problems.push(
                Diagnostic::new(
                    &T0630,
                    data.span,
                    format!("no objects found at `{}`, which `{}` reads", data.uri, data.name),
                )
                .help(format!("aws s3 ls {}", data.uri))
                .note("the job would start its instances and fail during the download"),
            );
        }
    }
    keys(plan, facts, problems);
    let span = plan.job.image.as_ref().map_or(plan.job.span, |image| image.uri.span().unwrap_or(image.span));
    if not_found_fault(&facts.image).is_some() {
        let uri = plan.image.as_ref().map(|image| image.uri.as_str()).unwrap_or_default();
        problems.push(
            Diagnostic::new(&T0634, span, format!("the registry has no image `{uri}`"))
                .note("ecr DescribeImages: the repository or the tag does not exist"),
        );
    } else {
        answer_or_report(&facts.image, "the image", span, problems);
    }
    for (arn, found) in &facts.secrets {
        let span = arn.span_or(plan.job.span);
        if not_found_fault(found).is_some() {
            problems.push(
                Diagnostic::new(&T0635, span, format!("secret `{}` does not exist", arn.value)).note(
                    "the container would fail at startup: it fetches the secret before the program runs",
                ),
            );
        } else {
            answer_or_report(found, "the secret", span, problems);
        }
    }
    file_systems(plan, facts, problems);
}

fn buckets(plan: &Plan, facts: &Facts, problems: &mut Problems) {
    let account = facts.account.as_str();
    let region = plan.job.region.value().map_or("", String::as_str);
    for (name, (span, found)) in &facts.buckets {
        if not_found_fault(found).is_some() {
            problems.push(
                Diagnostic::new(&T0628, *span, format!("bucket `{name}` does not exist"))
                    .help(format!("aws s3 mb s3://{name} --region {region}")),
            );
            continue;
        }
        let Some(bucket) = answer_or_report(found, &format!("the bucket `{name}`"), *span, problems) else {
            continue;
        };
        if let Some(there) = mismatched_region(plan, bucket) {
            problems.push(
                Diagnostic::new(
                    &T0629,
                    *span,
                    format!("bucket `{name}` is in {there}, but the job is in {region}"),
                )
                .note(
                    "input data must be in the job's region (CreateTrainingJob, S3DataSource), and \
                    an upload elsewhere fails: `BucketRegionError: bucket must be in the same region as the \
                    job`",
                )
                .fact("region", there),
            );
        }
        if bucket.foreign {
            problems.push(bucket_of_other_account(plan, name, *span, account));
        }
    }
}

/// Returns the region of a bucket outside of the job's region. S3 redirects such requests, and may name the
/// region.
fn mismatched_region<'a>(plan: &Plan, bucket: &'a Bucket) -> Option<&'a str> {
    let region = plan.job.region.value().map_or("", String::as_str);
    match bucket.region.as_deref() {
        Some(there) => Some(there).filter(|there| *there != region),
        None => bucket.moved.then_some("another region"),
    }
}

/// Returns the problem for a bucket that does not belong to the expected account. Data of others can be read
/// if the policies allow it, but what the job writes is for them only if the manifest names the owner. If the
/// name contains the caller's account ID, someone else has registered it and would receive the job's output.
fn bucket_of_other_account(plan: &Plan, name: &str, span: Span, account: &str) -> Diagnostic {
    let asked = |expected: &str| {
        format!(
            "S3 shows it to you, but returns 403 when {expected} is given as the expected owner \
                (HeadBucket, ExpectedBucketOwner)"
        )
    };
    let declared = plan.job.buckets.iter().find(|one| one.name.value().is_some_and(|known| known == name));
    if let Some((bucket, owner)) = declared.and_then(|one| Some((one, one.owner.val()?))) {
        let words = format!("bucket `{name}` does not belong to account {}", owner.value);
        return Diagnostic::new(&T0642, owner.span_or(bucket.span), words).note(asked("this account"));
    }
    let words = format!("bucket `{name}` does not belong to account {account}");
    let whole = plan.clone().with_account(account);
    let is_here = |one: &Location| s3::parse(one.uri).is_some_and(|uri| uri.bucket == name);
    let written = whole.job.locations().into_iter().find(|one| one.access == Access::Write && is_here(one));
    let one = match &written {
        Some(written) => Diagnostic::new(&T0642, written.span, format!("{words}, but the job writes to it"))
            .help(format!(
                "write to a bucket of the account, or name the owner in the job: `bucket \
                    \"{name}\" owner=\"ACCOUNT\"`"
            )),
        None => Diagnostic::new(&T0642, span, words).severity(Severity::Warning),
    };
    let one = one.note(asked("your account"));
    if !account.is_empty() && name.contains(account) {
        return one.severity(Severity::Error).note(
            "its name contains your account ID: someone else registered it and would receive \
                what the job writes",
        );
    }
    one.note("the bucket policy must allow the job's role, and so must the policy of its KMS key")
}

fn keys(plan: &Plan, facts: &Facts, problems: &mut Problems) {
    for (key, found) in &facts.keys {
        let span = key.span_or(plan.job.span);
        if not_found_fault(found).is_some() {
            problems.push(Diagnostic::new(&T0631, span, format!("KMS key `{}` does not exist", key.value)));
            continue;
        }
        let Some(there) = answer_or_report(found, "the key", span, problems) else { continue };
        if there.state != "Enabled" {
            problems.push(Diagnostic::new(
                &T0631,
                span,
                format!("KMS key `{}` is {}, not enabled", key.value, there.state),
            ));
        }
    }
}

fn file_systems(plan: &Plan, facts: &Facts, problems: &mut Problems) {
    let subnets = facts.subnets.as_ref().and_then(|found| found.as_ref().ok());
    for (id, found) in &facts.file_systems {
        let span = id.span_or(plan.job.span);
        if not_found_fault(found).is_some() {
            problems.push(Diagnostic::new(
                &T0637,
                span,
                format!("the account has no file system `{}` in this region", id.value),
            ));
            continue;
        }
        let Some(system) = answer_or_report(found, "the file system", span, problems) else { continue };
        if !matches!(system.lifecycle.as_str(), "AVAILABLE" | "UPDATING") {
            problems.push(
                Diagnostic::new(
                    &T0637,
                    span,
                    format!("the file system `{}` is {}", id.value, system.lifecycle),
                )
                .note("a job can only mount it when it is AVAILABLE or UPDATING"),
            );
        }
        check_mount_name(plan, &id.value, system.mount.as_deref(), problems);
        let apart = subnets.is_some_and(|subnets| {
            !system.subnets.is_empty() && subnets.iter().all(|subnet| !system.subnets.contains(&subnet.id))
        });
        if apart {
            problems.push(
                Diagnostic::new(
                    &T0638,
                    span,
                    format!(
                        "the file system is in {}, but the job has no subnet there",
                        system.subnets.join(", ")
                    ),
                )
                .note(
                    "traffic between zones costs money and time; the job's subnet should be the file \
                    system's (developer guide, \"Give SageMaker access to your data in Amazon FSx\")",
                ),
            );
        }
    }
}

/// Checks the mount name in the manifest against that of the service.
fn check_mount_name(plan: &Plan, id: &str, there: Option<&str>, problems: &mut Problems) {
    let storage = plan.job.storage.iter().find(|storage| storage.id.value().is_some_and(|known| known == id));
    let Some(storage) = storage else { return };
    let (Some(written), Some(there)) = (storage.mount.val(), there) else { return };
    if written.value.trim_matches('/') != there {
        problems.push(
            Diagnostic::new(
                &T0637,
                written.span_or(storage.span),
                format!("the file system `{id}` mounts as `{there}`, not `{}`", written.value),
            )
            .help(format!("mount=\"{there}\""))
            .note(
                "the job's path on Lustre begins with the mount name; a wrong one is rejected when \
                the job starts",
            ),
        );
    }
}
