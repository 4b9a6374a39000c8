//! KMS aliases with a created role, whose policy can express an alias only as a condition on all keys.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(
    T0498,
    "kms-alias",
    Warning,
    "a key named by its alias, which widens the policy of a created role"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0498];

/// Reports KMS aliases: the policy of a created role needs the key's ARN, as IAM does not resolve aliases.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let created = plan.job.role.as_ref().filter(|role| role.create.get() == Some(true));
    let Some(role) = created else { return };
    let output = plan.job.output.as_ref().and_then(|output| Some((output.kms.val()?, output.span)));
    let volume =
        plan.job.cluster.as_ref().and_then(|cluster| Some((cluster.volume_kms.val()?, cluster.span)));
    let channels = plan.job.channels.iter().filter_map(|channel| Some((channel.kms.val()?, channel.span)));
    let checkpoint = plan.job.checkpoint.as_ref().and_then(|node| Some((node.kms.val()?, node.span)));
    let region = plan.region.as_ref().map_or("REGION", |region| region.name.as_str());
    for (key, fallback) in output.into_iter().chain(volume).chain(channels).chain(checkpoint) {
        if key.value.starts_with("alias/") || key.value.contains(":alias/") {
            problems.push(
                Diagnostic::new(&T0498, key.span_or(fallback), format!("`{}` is an alias: the role may use \
                    any key with this alias", key.value))
                    .label(role.create.span().unwrap_or(role.span), "trainc writes this role's policy")
                    .help(format!("write the key's ARN: `aws kms describe-key --region {region} --key-id {} \
                        --query KeyMetadata.Arn` prints it", key.value))
                    .note("a policy cannot name an alias as a resource, so this one grants all keys \
                        under the condition kms:ResourceAliases; anyone who may move the alias chooses the \
                        key (AWS KMS developer guide)"),
            );
        }
    }
}
