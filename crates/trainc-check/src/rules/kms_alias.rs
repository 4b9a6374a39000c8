//! Keys of a made role: its policy names the key, and an alias only as a condition on every key.

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

/// A made role gets the key's ARN as a resource; IAM does not follow aliases.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let made = plan.job.role.as_ref().filter(|role| role.create.get() == Some(true));
    let Some(role) = made else { return };
    let output = plan.job.output.as_ref().and_then(|output| Some((output.kms.val()?, output.span)));
    let volume =
        plan.job.cluster.as_ref().and_then(|cluster| Some((cluster.volume_kms.val()?, cluster.span)));
    let channels = plan.job.channels.iter().filter_map(|channel| Some((channel.kms.val()?, channel.span)));
    let checkpoint = plan.job.checkpoint.as_ref().and_then(|node| Some((node.kms.val()?, node.span)));
    let region = plan.region.as_ref().map_or("REGION", |region| region.name.as_str());
    for (key, fallback) in output.into_iter().chain(volume).chain(channels).chain(checkpoint) {
        if key.value.starts_with("alias/") || key.value.contains(":alias/") {
            problems.push(
                Diagnostic::new(&T0498, key.span_or(fallback), format!("`{}` is an alias: the role may use whichever key carries it", key.value))
                    .label(role.create.span().unwrap_or(role.span), "trainc writes its policy")
                    .help(format!("write the key's ARN, as `aws kms describe-key --region {region} --key-id {} --query KeyMetadata.Arn` shows it", key.value))
                    .note("an alias is no resource of a policy, so this one names every key under the condition kms:ResourceAliases; who may move the alias says which key that is (AWS KMS developer guide)"),
            );
        }
    }
}
