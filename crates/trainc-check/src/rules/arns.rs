//! ARNs: format, account, region and partition.

use crate::Context;
use crate::shared_codes::T0437;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{Plan, Val};

declare_code!(
    T0438,
    "arn-scope-mismatch",
    Error,
    "an ARN in another account, region or partition than the job"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0437, &T0438];

/// The components of an ARN.
struct Arn<'a> {
    partition: &'a str,
    service: &'a str,
    region: &'a str,
    account: &'a str,
    resource: &'a str,
}

fn parse(text: &str) -> Option<Arn<'_>> {
    let mut parts = text.splitn(6, ':');
    if parts.next()? != "arn" {
        return None;
    }
    Some(Arn {
        partition: parts.next()?,
        service: parts.next()?,
        region: parts.next()?,
        account: parts.next()?,
        resource: parts.next()?,
    })
}

/// Checks roles, KMS keys, training plans and secrets.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let job = &plan.job;
    if let Some((role, arn)) = job.role.as_ref().and_then(|role| Some((role, role.arn.val()?))) {
        check_scope(plan, arn, role.span, "the role", true, problems);
    }
    if let Some((role, arn)) = job.role.as_ref().and_then(|role| Some((role, role.boundary.val()?))) {
        check_scope(plan, arn, role.span, "the permissions boundary", true, problems);
    }
    let mut keys: Vec<(&Val<String>, Span, &str)> = Vec::new();
    if let Some((output, key)) = job.output.as_ref().and_then(|output| Some((output, output.kms.val()?))) {
        keys.push((key, output.span, "the output's KMS key"));
    }
    if let Some(cluster) = &job.cluster {
        keys.extend(cluster.volume_kms.val().map(|key| (key, cluster.span, "the volume's KMS key")));
        if let Some(arn) = cluster.training_plan.val() {
            check_scope(plan, arn, cluster.span, "the training plan", true, problems);
        }
    }
    keys.extend(
        job.storage
            .iter()
            .filter_map(|storage| Some((storage.kms.val()?, storage.span, "the file system's KMS key"))),
    );
    let inputs = job.channels.iter().filter_map(|channel| Some((channel.kms.val()?, channel.span)));
    let checkpoint = job.checkpoint.as_ref().and_then(|node| Some((node.kms.val()?, node.span)));
    for (key, span) in inputs.chain(checkpoint) {
        check_key_format(plan, key, span, problems);
        keys.push((key, span, "the bucket's KMS key"));
    }
    for (key, span, what) in keys {
        check_scope(plan, key, span, what, false, problems);
    }
    for secret in job.program.iter().flat_map(|program| &program.secrets) {
        let Some(from) = secret.from.val() else { continue };
        let span = from.span_or(secret.name_span);
        let is_valid = parse(&from.value).is_some_and(|arn| {
            arn.service == "secretsmanager"
                && !arn.region.is_empty()
                && is_account(arn.account)
                && arn
                    .resource
                    .strip_prefix("secret:")
                    .is_some_and(|name| !name.is_empty() && !name.contains([' ', '"']))
        });
        if is_valid {
            check_scope(plan, from, secret.name_span, "the secret", false, problems);
            if !has_secret_suffix(&from.value) {
                problems.push(
                    Diagnostic::new(
                        &T0437,
                        span,
                        format!("the ARN of secret `{}` lacks its six-character suffix", secret.name),
                    )
                    .help(format!(
                        "write the full ARN, e.g. `{}-AbCdEf`: `aws secretsmanager describe-secret --region {} --secret-id {}` prints it",
                        from.value,
                        parse(&from.value).map_or("REGION", |arn| arn.region),
                        from.value.rsplit(':').next().unwrap_or_default()
                    ))
                    .note("the ARN of a secret ends in a hyphen and six random characters; the role's policy grants access to exactly this ARN"),
                );
            }
        } else {
            let region = plan.region.as_ref().map_or("REGION", |region| region.name.as_str());
            let account = job.account.value().map_or("ACCOUNT", String::as_str);
            let partition = plan.region.as_ref().map_or("aws", |region| region.partition.as_str());
            problems.push(
                Diagnostic::new(
                    &T0437,
                    span,
                    format!("`from` of secret `{}` is not a Secrets Manager ARN", secret.name),
                )
                .help(format!(
                    "write `from=\"arn:{partition}:secretsmanager:{region}:{account}:secret:NAME-xxxxxx\"`"
                ))
                .note("the role's policy refers to this ARN, and the container reads the secret at startup"),
            );
        }
    }
}

/// Checks the format of a key that appears only in the role's policy, so that no request shape covers it.
fn check_key_format(plan: &Plan, key: &Val<String>, fallback: Span, problems: &mut Problems) {
    let text = key.value.as_str();
    let is_valid = if let Some(arn) = parse(text) {
        arn.service == "kms" && (arn.resource.starts_with("key/") || arn.resource.starts_with("alias/"))
    } else {
        let name = text.strip_prefix("alias/").unwrap_or(text);
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'/'))
    };
    if is_valid {
        return;
    }
    let region = plan.region.as_ref().map_or("REGION", |region| region.name.as_str());
    let account = plan.job.account.value().map_or("ACCOUNT", String::as_str);
    let partition = plan.region.as_ref().map_or("aws", |region| region.partition.as_str());
    problems.push(
        Diagnostic::new(
            &T0437,
            key.span_or(fallback),
            format!("`{text}` is not a KMS key ARN, key ID or alias"),
        )
        .help(format!("write `kms=\"arn:{partition}:kms:{region}:{account}:key/KEY-ID\"`"))
        .note("the role's policy refers to this key"),
    );
}

/// Returns whether the ARN of a secret ends in Secrets Manager's suffix: a hyphen and six letters or digits.
fn has_secret_suffix(arn: &str) -> bool {
    arn.rsplit_once('-')
        .is_some_and(|(_, end)| end.len() == 6 && end.bytes().all(|b| b.is_ascii_alphanumeric()))
}

fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit())
}

/// Compares the partition, region and account of an ARN with the job's.
fn check_scope(
    plan: &Plan,
    val: &Val<String>,
    fallback: Span,
    what: &str,
    same_account: bool,
    problems: &mut Problems,
) {
    let Some(arn) = parse(&val.value) else { return };
    let span = val.span_or(fallback);
    let mut push = |severity: Severity, message: String, label: (Option<Span>, &str), note: &str| {
        let diagnostic = Diagnostic::new(&T0438, span, message).severity(severity).note(note.to_owned());
        problems.push(match label {
            (Some(span), text) => diagnostic.label(span, text),
            (None, _) => diagnostic,
        });
    };
    if let Some(region) = &plan.region {
        let job_region = (plan.job.region.span(), "the job's region");
        if arn.partition != region.partition {
            push(
                Severity::Error,
                format!(
                    "{what} is in partition `{}`, but region `{}` is in `{}`",
                    arn.partition, region.name, region.partition
                ),
                job_region,
                "AWS resources cannot be used across partitions",
            );
            return;
        }
        if !arn.region.is_empty() && arn.region != region.name {
            let secret = arn.service == "secretsmanager";
            push(
                if secret { Severity::Warning } else { Severity::Error },
                format!("{what} is in `{}`, but the job is in `{}`", arn.region, region.name),
                job_region,
                if secret {
                    "every start of the job then depends on that region, and a job in a VPC needs an endpoint or a route to it"
                } else {
                    "KMS keys and training plans are only valid in their own region"
                },
            );
        }
    }
    if let Some(account) = plan.job.account.val().filter(|account| {
        same_account && is_account(&account.value) && is_account(arn.account) && account.value != arn.account
    }) {
        push(
            Severity::Error,
            format!("{what} belongs to account {}, but the job runs in {}", arn.account, account.value),
            (account.origin.span(), "the job's account"),
            "a role, its permissions boundary and a training plan must belong to the account that starts the job (iam:PassRole, CreateRole)",
        );
    }
}
