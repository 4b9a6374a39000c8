//! ARNs: their form, and whether they are of this account, region and partition.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{Plan, Val};

declare_code!(T0437, "malformed-arn", Error, "a malformed ARN, key ID or alias");
declare_code!(
    T0438,
    "arn-scope-mismatch",
    Error,
    "an ARN in another account, region or partition than the job"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0437, &T0438];

/// An ARN in its parts.
struct Arn<'a> {
    partition: &'a str,
    service: &'a str,
    region: &'a str,
    account: &'a str,
    resource: &'a str,
}

fn read(text: &str) -> Option<Arn<'_>> {
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

/// Roles, keys, training plans and secrets.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let job = &plan.job;
    if let Some((role, arn)) = job.role.as_ref().and_then(|role| Some((role, role.arn.val()?))) {
        elsewhere(plan, arn, role.span, "the role", true, problems);
    }
    if let Some((role, arn)) = job.role.as_ref().and_then(|role| Some((role, role.boundary.val()?))) {
        elsewhere(plan, arn, role.span, "the boundary", true, problems);
    }
    let mut keys: Vec<(&Val<String>, Span, &str)> = Vec::new();
    if let Some((output, key)) = job.output.as_ref().and_then(|output| Some((output, output.kms.val()?))) {
        keys.push((key, output.span, "the output's key"));
    }
    if let Some(cluster) = &job.cluster {
        keys.extend(cluster.volume_kms.val().map(|key| (key, cluster.span, "the volume's key")));
        if let Some(arn) = cluster.training_plan.val() {
            elsewhere(plan, arn, cluster.span, "the training plan", true, problems);
        }
    }
    keys.extend(
        job.storage
            .iter()
            .filter_map(|storage| Some((storage.kms.val()?, storage.span, "the file system's key"))),
    );
    let inputs = job.channels.iter().filter_map(|channel| Some((channel.kms.val()?, channel.span)));
    let checkpoint = job.checkpoint.as_ref().and_then(|node| Some((node.kms.val()?, node.span)));
    for (key, span) in inputs.chain(checkpoint) {
        key_form(plan, key, span, problems);
        keys.push((key, span, "the bucket's key"));
    }
    for (key, span, what) in keys {
        elsewhere(plan, key, span, what, false, problems);
    }
    for secret in job.program.iter().flat_map(|program| &program.secrets) {
        let Some(from) = secret.from.val() else { continue };
        let span = from.span_or(secret.name_span);
        let good = read(&from.value).is_some_and(|arn| {
            arn.service == "secretsmanager"
                && !arn.region.is_empty()
                && is_account(arn.account)
                && arn
                    .resource
                    .strip_prefix("secret:")
                    .is_some_and(|name| !name.is_empty() && !name.contains([' ', '"']))
        });
        if good {
            elsewhere(plan, from, secret.name_span, "the secret", false, problems);
            if !has_suffix(&from.value) {
                problems.push(
                    Diagnostic::new(
                        &T0437,
                        span,
                        format!("the ARN of secret `{}` lacks the six characters that end it", secret.name),
                    )
                    .help(format!(
                        "write it whole, as `{}-AbCdEf`: `aws secretsmanager describe-secret --region {} --secret-id {}` shows it",
                        from.value,
                        read(&from.value).map_or("REGION", |arn| arn.region),
                        from.value.rsplit(':').next().unwrap_or_default()
                    ))
                    .note("a hyphen and six characters end each secret's ARN; the role's policy grants exactly the ARN that stands here"),
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
                    format!("`from` of secret `{}` is no ARN of Secrets Manager", secret.name),
                )
                .help(format!(
                    "write `from=\"arn:{partition}:secretsmanager:{region}:{account}:secret:NAME-xxxxxx\"`"
                ))
                .note("the role's policy names this ARN, and the container fetches it at start"),
            );
        }
    }
}

/// A key that only the role's policy names: no shape of a request looks at it.
fn key_form(plan: &Plan, key: &Val<String>, fallback: Span, problems: &mut Problems) {
    let text = key.value.as_str();
    let good = if let Some(arn) = read(text) {
        arn.service == "kms" && (arn.resource.starts_with("key/") || arn.resource.starts_with("alias/"))
    } else {
        let name = text.strip_prefix("alias/").unwrap_or(text);
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'/'))
    };
    if good {
        return;
    }
    let region = plan.region.as_ref().map_or("REGION", |region| region.name.as_str());
    let account = plan.job.account.value().map_or("ACCOUNT", String::as_str);
    let partition = plan.region.as_ref().map_or("aws", |region| region.partition.as_str());
    problems.push(
        Diagnostic::new(&T0437, key.span_or(fallback), format!("`{text}` is neither a key's ARN nor its id"))
            .help(format!("write `kms=\"arn:{partition}:kms:{region}:{account}:key/KEY-ID\"`"))
            .note("the role's policy names this key"),
    );
}

/// Whether a secret's ARN ends as Secrets Manager ends it: a hyphen and six letters or digits.
fn has_suffix(arn: &str) -> bool {
    arn.rsplit_once('-')
        .is_some_and(|(_, end)| end.len() == 6 && end.bytes().all(|b| b.is_ascii_alphanumeric()))
}

fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit())
}

/// Holds what an ARN says against what the job says.
fn elsewhere(
    plan: &Plan,
    val: &Val<String>,
    fallback: Span,
    what: &str,
    same_account: bool,
    problems: &mut Problems,
) {
    let Some(arn) = read(&val.value) else { return };
    let span = val.span_or(fallback);
    let mut push = |severity: Severity, message: String, label: Option<Span>, note: &str| {
        let diagnostic = Diagnostic::new(&T0438, span, message).severity(severity).note(note.to_owned());
        problems.push(match label {
            Some(label) => diagnostic.label(label, "the job's"),
            None => diagnostic,
        });
    };
    if let Some(region) = &plan.region {
        let here = plan.job.region.span();
        if arn.partition != region.partition {
            push(
                Severity::Error,
                format!(
                    "{what} is of partition `{}`; region `{}` is of `{}`",
                    arn.partition, region.name, region.partition
                ),
                here,
                "nothing crosses partitions",
            );
            return;
        }
        if !arn.region.is_empty() && arn.region != region.name {
            let secret = arn.service == "secretsmanager";
            push(
                if secret { Severity::Warning } else { Severity::Error },
                format!("{what} is in `{}`; the job is in `{}`", arn.region, region.name),
                here,
                if secret {
                    "each start of the job then needs that region, and a VPC job an endpoint or a way there"
                } else {
                    "keys and training plans serve their own region only"
                },
            );
        }
    }
    if let Some(account) = plan.job.account.val().filter(|account| {
        same_account && is_account(&account.value) && is_account(arn.account) && account.value != arn.account
    }) {
        push(
            Severity::Error,
            format!("{what} is of account {}; the job is of {}", arn.account, account.value),
            account.origin.span(),
            "a role, its boundary and a training plan are of the account that starts the job (iam:PassRole, CreateRole)",
        );
    }
}
