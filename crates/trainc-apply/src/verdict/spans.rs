//! Locates the manifest value that a service rejects: the error names one value of a long request.

use crate::calls::Call;
use crate::fault::{Class, Fault};
use trainc_diag::source::Span;
use trainc_ir::Plan;

/// Returns the span of the value that a rejected request's error names, or of the node of its kind.
pub(super) fn rejected_value_span(plan: &Plan, fault: &Fault) -> Option<Span> {
    let creates = matches!(fault.call, Call::CreateTrainingJob | Call::CreateFileSystem);
    if !creates || !matches!(fault.class, Class::Invalid | Class::NotPropagated) {
        return None;
    }
    by_value(plan, fault).or_else(|| by_kind(plan, fault))
}

/// Returns the span of a value that the message repeats.
fn by_value(plan: &Plan, fault: &Fault) -> Option<Span> {
    let job = &plan.job;
    let network = job.network.as_ref();
    let groups = network.into_iter().flat_map(|network| &network.security_groups);
    let subnets = network.into_iter().flat_map(|network| &network.subnets);
    let image = job.image.iter().filter_map(|image| image.uri.val());
    let role = job.role.iter().filter_map(|role| role.arn.val());
    let storage_keys = job.storage.iter().filter_map(|storage| storage.kms.val());
    let output_key = job.output.iter().filter_map(|output| output.kms.val());
    let volume_key = job.cluster.iter().filter_map(|cluster| cluster.volume_kms.val());
    let keys = output_key.chain(volume_key).chain(storage_keys);
    let is_said = |text: &str| !text.is_empty() && fault.message.contains(text);
    let named = groups.chain(subnets).chain(image).find(|one| is_said(&one.value));
    let addressed = || role.chain(keys).find(|one| is_said(&one.value)).map(|one| one.span_or(job.span));
    named.map(|one| one.span_or(job.span)).or_else(addressed)
}

/// Returns the span of the node to which the message refers by its kind.
fn by_kind(plan: &Plan, fault: &Fault) -> Option<Span> {
    let job = &plan.job;
    let says = |words: &[&str]| words.iter().any(|word| fault.message.contains(word));
    let network = job.network.as_ref();
    let groups = || network.map(|network| network.security_groups_span.unwrap_or(network.span));
    let subnets = || network.map(|network| network.subnets_span.unwrap_or(network.span));
    let image = || job.image.as_ref().map(|image| image.uri.span().unwrap_or(image.span));
    if says(&["security group", "SecurityGroup", "Security group"]) {
        groups()
    } else if says(&["subnet", "Subnet"]) {
        subnets()
    } else if fault.code.contains("InvalidNetworkSettings") || says(&["VpcConfig"]) {
        network.map(|network| network.span)
    } else if says(&["Could not assume role"]) {
        job.role.as_ref().map(|role| role.span)
    } else if fault.call == Call::CreateTrainingJob && says(&["image", "Image", "repository"]) {
        image()
    } else {
        None
    }
}
