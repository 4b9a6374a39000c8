//! Names and addresses that belong to another region or account: default buckets, hosts, ARNs in texts,
//! variables.

use crate::Context;
use crate::queries::{program, s3};
use trainc_catalog::arn::Arn;
use trainc_catalog::regions;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{Address, Field, Plan};

declare_code!(T0597, "name-of-other-region", Warning, "a name or an address of another region or account");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0597];

/// Variables whose value is the region of AWS clients.
const REGION_VARIABLES: &[&str] = &["AWS_REGION", "AWS_DEFAULT_REGION", "SAGEMAKER_REGION"];

/// Compares names in addresses with the job's region and account.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(region) = plan.region.as_ref().map(|region| region.name.as_str()) else { return };
    for (field, fallback, what) in s3::uris(plan) {
        let Some(uri) = field.val() else { continue };
        let Some(parts) = s3::parse(&uri.value) else { continue };
        let span = uri.span_or(fallback);
        // The regions of inputs are reported by another rule.
        let is_input = what.starts_with("channel") || what == "import";
        check_bucket(plan, parts.bucket, span, region, is_input, problems);
    }
    for secret in plan.job.program.iter().flat_map(|program| &program.secrets) {
        let Some(from) = secret.from.val() else { continue };
        if let Ok(arn) = Arn::parse(&from.value) {
            check_account(plan, arn.account, from.span_or(secret.name_span), "the secret", problems);
        }
    }
    for (name, text, span) in plan.job.program.iter().flat_map(program::texts) {
        if REGION_VARIABLES.contains(&name) {
            if regions::get(text).is_some() && text != region {
                problems.push(other_region(plan, span, &format!("`{name}` selects {text}"), region).remove(name));
            }
            continue;
        }
        if let Some(named) = region_of_host(text).filter(|named| *named != region) {
            problems.push(other_region(plan, span, &format!("the address is in {named}"), region));
        } else if let Some(parts) = s3::parse(text) {
            check_bucket(plan, parts.bucket, span, region, false, problems);
        } else if let Ok(arn) = Arn::parse(text) {
            if !arn.region.is_empty() && arn.region != region {
                problems.push(other_region(plan, span, &format!("the ARN is in {}", arn.region), region));
            } else {
                check_account(plan, arn.account, span, "the ARN", problems);
            }
        }
    }
    for (key, fallback) in keys(plan) {
        // The region of a key is reported by another rule.
        if let Some(val) = key.val()
            && let Ok(arn) = Arn::parse(&val.value)
            && arn.region == region
        {
            check_account(plan, arn.account, val.span_or(fallback), "the KMS key", problems);
        }
    }
}

/// Returns the keys that encrypt what the job reads and writes.
fn keys(plan: &Plan) -> Vec<(&Field<Address>, Span)> {
    let job = &plan.job;
    let output = job.output.iter().map(|node| (&node.kms, node.span));
    let volume = job.cluster.iter().map(|node| (&node.volume_kms, node.span));
    let channels = job.channels.iter().map(|node| (&node.kms, node.span));
    let checkpoint = job.checkpoint.iter().map(|node| (&node.kms, node.span));
    let storage = job.storage.iter().map(|node| (&node.kms, node.span));
    output.chain(volume).chain(channels).chain(checkpoint).chain(storage).collect()
}

/// Reports a bucket whose name contains another region or, as that of the SDK's default bucket, another
/// account.
fn check_bucket(plan: &Plan, bucket: &str, span: Span, region: &str, is_input: bool, problems: &mut Problems) {
    if let Some(named) = s3::region_in_name(bucket).filter(|named| regions::get(named).is_some()) {
        if named != region {
            if !is_input {
                problems.push(
                    other_region(plan, span, &format!("bucket `{bucket}` is the default bucket of {named}"), region)
                        .severity(Severity::Error)
                        .write(bucket.replacen(named, region, 1))
                        .note("SageMaker rejects a bucket of another region: \"The S3 bucket is in \
                            region …\""),
                );
            }
            return;
        }
        let account = bucket.rsplit('-').next().unwrap_or_default();
        check_account(plan, account, span, &format!("bucket `{bucket}`"), problems);
        return;
    }
    if is_input {
        return;
    }
    if let Some(named) = region_between_hyphens(bucket).filter(|named| *named != region) {
        problems.push(other_region(plan, span, &format!("the name of bucket `{bucket}` contains {named}"), region));
    }
}

/// Reports an account that is not the job's.
fn check_account(plan: &Plan, account: &str, span: Span, what: &str, problems: &mut Problems) {
    let is_account = |text: &str| text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit());
    let Some(own) = plan.job.account.val().filter(|own| is_account(&own.value)) else { return };
    if !is_account(account) || account == own.value {
        return;
    }
    let mut diagnostic =
        Diagnostic::new(&T0597, span, format!("{what} belongs to account {account}, but the job runs in {}", own.value))
            .note("the owner's policy has to allow the job's role; trainc can only grant the role's part");
    if let Some(at) = own.origin.span() {
        diagnostic = diagnostic.label(at, "the job's account");
    }
    problems.push(diagnostic);
}

fn other_region(plan: &Plan, span: Span, what: &str, region: &str) -> Diagnostic {
    Diagnostic::new(&T0597, span, format!("{what}, but the job is in {region}"))
        .label(plan.job.region.span().unwrap_or(plan.job.span), "the job's region")
}

/// Returns the region of an AWS host in an address: `https://t.us-east-1.experiments.sagemaker.aws`.
fn region_of_host(text: &str) -> Option<&str> {
    let host = text.split_once("://").map_or(text, |(_, rest)| rest).split(['/', ':']).next()?;
    let is_aws = [".amazonaws.com", ".amazonaws.com.cn", ".aws", ".aws.dev"].iter().any(|end| host.ends_with(end));
    host.split('.').find(|part| is_aws && regions::get(part).is_some())
}

/// Returns a region in a bucket's name: `acme-us-east-1-data`.
fn region_between_hyphens(bucket: &str) -> Option<&'static str> {
    regions::names().find(|name| {
        bucket.match_indices(name).any(|(at, _)| {
            let before = bucket.get(..at).unwrap_or_default();
            let after = bucket.get(at + name.len()..).unwrap_or_default();
            let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
            is_edge(before.chars().next_back()) && is_edge(after.chars().next())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_regions_in_names() {
        assert_eq!(region_between_hyphens("acme-us-east-1-data"), Some("us-east-1"));
        assert_eq!(region_between_hyphens("acme.eu-west-1"), Some("eu-west-1"));
        assert_eq!(region_between_hyphens("acme-us-east-12"), None);
        assert_eq!(region_between_hyphens("acme-data"), None);
        assert_eq!(region_of_host("https://sqs.us-east-1.amazonaws.com/1/q"), Some("us-east-1"));
        assert_eq!(region_of_host("https://us-east-1.example.com/"), None);
        assert_eq!(region_of_host("us-east-1"), None);
    }
}
