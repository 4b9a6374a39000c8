//! ARNs: format, account, region and partition.

use crate::Context;
use crate::shared_codes::T0437;
use trainc_catalog::arn::{Arn, ArnError};
use trainc_catalog::regions;
use trainc_diag::declare_code;
use trainc_diag::source::{Span, Spanned};
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{Address, Field, Plan, Raw, Scalar, Val};

declare_code!(
    T0438,
    "arn-scope-mismatch",
    Error,
    "an ARN in another account, region or partition than the job's"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0437, &T0438];

/// Checks roles, KMS keys, training plans, secrets, and resources of a hub.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let job = &plan.job;
    check_arns(plan, problems);
    if let Some((role, arn)) = job.role.as_ref().and_then(|role| Some((role, role.arn.val()?))) {
        check_scope(plan, arn, role.span, "the role", true, problems);
    }
    if let Some((role, arn)) = job.role.as_ref().and_then(|role| Some((role, role.boundary.val()?))) {
        check_scope(plan, arn, role.span, "the permissions boundary", true, problems);
    }
    let mut keys: Vec<(&Val<Address>, Span, &str)> = Vec::new();
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
    // The shape of the request rejects other characters.
    let is_accepted = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'/'));
    for (key, span, _) in keys.iter().filter(|(key, ..)| is_accepted(&key.value)) {
        check_key_format(plan, key, *span, problems);
    }
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
        let arn = Arn::parse(&from.value);
        let is_valid = arn.as_ref().is_ok_and(|arn| {
            arn.service == "secretsmanager"
                && !arn.region.is_empty()
                && is_account(arn.account)
                && arn.resource.strip_prefix("secret:").is_some_and(|name| !name.is_empty())
        });
        if let Err(why) = &arn
            && *why != ArnError::Malformed
        {
            report_arn(from, span, &format!("the ARN of secret `{}`", secret.name), why, problems);
        } else if is_valid {
            check_scope(plan, from, secret.name_span, "the secret", false, problems);
            if !has_secret_suffix(&from.value) {
                problems.push(
                    Diagnostic::new(
                        &T0437,
                        span,
                        format!("the ARN of secret `{}` lacks its six-character suffix", secret.name),
                    )
                    .help(format!(
                        "write the full ARN, e.g. `{}-AbCdEf`: `aws secretsmanager \
                            describe-secret --region {} --secret-id {}` prints it",
                        from.value,
                        arn.map_or("REGION", |arn| arn.region),
                        from.value.rsplit(':').next().unwrap_or_default()
                    ))
                    .note("the ARN of a secret ends in a hyphen and six random characters; the role's \
                        policy grants access to exactly this ARN"),
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
                .help(format!("write \
                    `from=\"arn:{partition}:secretsmanager:{region}:{account}:secret:NAME-xxxxxx\"`"))
                .note("the role's policy refers to this ARN, and the container reads the secret at startup"),
            );
        }
    }
}

/// Reports ARNs that are not ARNs, or name a partition or region that does not exist. Secrets are checked
/// apart.
fn check_arns(plan: &Plan, problems: &mut Problems) {
    let job = &plan.job;
    // Where the service's shape covers the form, another rule reports it.
    let mut check = |field: &Field<Address>, fallback: Span, what: &str, has_shape: bool| {
        let Some(val) = field.val() else { return };
        match Arn::parse(&val.value) {
            Err(ArnError::Malformed) if has_shape => {}
            Err(why) => report_arn(val, fallback, what, &why, problems),
            Ok(_) => {}
        }
    };
    if let Some(role) = &job.role {
        check(&role.arn, role.span, "the role", true);
    }
    if let Some(cluster) = &job.cluster {
        check(&cluster.training_plan, cluster.span, "the training plan", true);
    }
    for channel in &job.channels {
        check(&channel.dataset, channel.span, "the data set", true);
        check(&channel.hub, channel.span, "the hub's reference", false);
    }
    // Key IDs and aliases are no ARNs.
    let mut check_key = |field: &Field<Address>, fallback: Span, what: &str| {
        if field.value().is_some_and(|key| key.starts_with("arn:")) {
            check(field, fallback, what, false);
        }
    };
    if let Some(output) = &job.output {
        check_key(&output.kms, output.span, "the output's KMS key");
    }
    if let Some(cluster) = &job.cluster {
        check_key(&cluster.volume_kms, cluster.span, "the volume's KMS key");
    }
    for storage in &job.storage {
        check_key(&storage.kms, storage.span, "the file system's KMS key");
    }
    for channel in &job.channels {
        check_key(&channel.kms, channel.span, "the bucket's KMS key");
    }
    if let Some(checkpoint) = &job.checkpoint {
        check_key(&checkpoint.kms, checkpoint.span, "the bucket's KMS key");
    }
    for member in &job.request {
        check_member(&member.value, problems);
    }
    let algorithm = job.request.iter().find(|member| member.name == "AlgorithmSpecification");
    let name = algorithm.and_then(|member| member.value.member("AlgorithmName"));
    if let Some(Raw::Scalar(Spanned { value: Scalar::Text(text), span })) = name.map(|member| &member.value) {
        check_scope(plan, &Val::written(Address::new(text.clone()), *span), *span, "the algorithm", false, problems);
    }
    for channel in &job.channels {
        for (field, what) in [(&channel.dataset, "the data set"), (&channel.hub, "the hub's reference")] {
            if let Some(arn) = field.val() {
                check_scope(plan, arn, channel.span, what, false, problems);
            }
        }
    }
}

/// Reports unknown partitions and regions in ARNs at any depth of a raw value.
fn check_member(value: &Raw, problems: &mut Problems) {
    match value {
        Raw::Scalar(Spanned { value: Scalar::Text(text), span }) if text.starts_with("arn:") => {
            if let Err(why) = Arn::parse(text)
                && why != ArnError::Malformed
            {
                problems.push(arn_problem(*span, "the ARN", text, &why));
            }
        }
        Raw::Scalar(_) => {}
        Raw::List(items) => items.iter().for_each(|item| check_member(item, problems)),
        Raw::Object(members) => members.iter().for_each(|member| check_member(&member.value, problems)),
    }
}

fn report_arn(val: &Val<Address>, fallback: Span, what: &str, why: &ArnError, problems: &mut Problems) {
    problems.push(arn_problem(val.span_or(fallback), what, &val.value, why));
}

fn arn_problem(span: Span, what: &str, text: &str, why: &ArnError) -> Diagnostic {
    let message = match why {
        ArnError::Malformed => format!("{what} is not a valid ARN: `{text}`"),
        ArnError::UnknownPartition(_) | ArnError::UnknownRegion(_) | ArnError::OtherPartition { .. } => {
            format!("{what}: {why}")
        }
    };
    let diagnostic = Diagnostic::new(&T0437, span, message);
    match why {
        ArnError::Malformed => diagnostic.note(why.to_string()),
        ArnError::UnknownRegion(region) => match text::nearest(region, regions::names()) {
            Some(near) => diagnostic.help(format!("did you mean region `{near}`?")),
            None => diagnostic.note(LISTED),
        },
        ArnError::UnknownPartition(_) | ArnError::OtherPartition { .. } => diagnostic.note(LISTED),
    }
}

const LISTED: &str = "`trainc catalog regions` prints the regions and their partitions";

/// Checks the format of a key: the shape of the request accepts more than KMS does, and none covers a key
/// that appears only in the role's policy.
fn check_key_format(plan: &Plan, key: &Val<Address>, fallback: Span, problems: &mut Problems) {
    let text = key.value.as_str();
    let is_valid = if text.starts_with("arn:") {
        // Its parts are checked with those of all other ARNs.
        let Ok(arn) = Arn::parse(text) else { return };
        arn.service == "kms" && (arn.resource.starts_with("key/") || arn.resource.starts_with("alias/"))
    } else {
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'/'))
        };
        text.strip_prefix("alias/").map_or_else(|| is_key_id(text), is_name)
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
        .note("an ID is a UUID; the name of a key is an alias, `alias/NAME`"),
    );
}

/// Returns whether a text is the ID of a key: a UUID, or `mrk-` and 32 hexadecimal digits (AWS KMS developer
/// guide, key identifiers; recalled).
fn is_key_id(text: &str) -> bool {
    let is_hex = |part: &str, digits: usize| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(digits) = text.strip_prefix("mrk-") {
        return is_hex(digits, 32);
    }
    let parts: Vec<&str> = text.split('-').collect();
    parts.len() == 5 && parts.iter().zip([8, 4, 4, 4, 12]).all(|(part, digits)| is_hex(part, digits))
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
    val: &Val<Address>,
    fallback: Span,
    what: &str,
    same_account: bool,
    problems: &mut Problems,
) {
    let Ok(arn) = Arn::parse(&val.value) else { return };
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
                match arn.service {
                    "secretsmanager" => "every start of the job then depends on that region, and a job in a \
                        VPC needs an endpoint or a route to it",
                    "kms" => "a KMS key is only valid in its own region",
                    _ => "SageMaker looks up a resource in the region of the job only",
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
            "a role, its permissions boundary and a training plan must belong to the account \
                that starts the job (iam:PassRole, CreateRole)",
        );
    }
}
