//! The AWS resources of a job and the planned action for each, without calling AWS.

use super::json::Resource;
use trainc_diag::text;
use trainc_emit::{Identity, ResourceKind, Verb};
use trainc_ir::{Plan, Storage};

/// Returns the resources in the order in which they are needed, without the training job if errors leave it
/// unnamed.
pub(super) fn resources(plan: &Plan, identity: Option<&Identity>) -> Vec<Resource> {
    trainc_emit::resources(plan)
        .into_iter()
        .filter(|resource| resource.kind != ResourceKind::TrainingJob || identity.is_some())
        .map(|resource| {
            let action = resource.origin.offline_action();
            let storage =
                plan.job.storage.iter().find(|storage| storage.name.value() == Some(&resource.name));
            let because = match storage
                .filter(|_| resource.kind == ResourceKind::FileSystem && action == Verb::Create)
            {
                Some(storage) => format!("{}; {}", resource.because, describe_storage(storage)),
                None => resource.because,
            };
            let (kind, name) = (resource.kind, resource.name);
            Resource { kind, name, action, because, shared_with: Vec::new() }
        })
        .collect()
}

/// Describes a file system that trainc creates: size, deployment, and whether it is kept.
fn describe_storage(storage: &Storage) -> String {
    let mut what: Vec<String> = Vec::new();
    what.extend(storage.capacity_bytes.get().map(|bytes| format!("{} GiB", text::group_digits(bytes >> 30))));
    what.extend(storage.deployment.value().cloned());
    what.extend(storage.throughput_mb_s_tib.get().map(|rate| format!("{rate} MB/s per TiB")));
    let after = if storage.delete_after_job.get() == Some(true) {
        "deleted after the job by `apply --wait` or `destroy`"
    } else {
        "kept after the job"
    };
    what.push(after.to_owned());
    what.join(", ")
}

/// Returns the policy statements of the role that trainc creates; none if it creates no role or the plan has
/// errors.
pub(super) fn statements(subject: &super::Subject) -> Vec<trainc_emit::iam::Statement> {
    let plan = subject.sagemaker_plan().filter(|_| subject.identity.is_some());
    let made = |plan: &&Plan| plan.job.role.as_ref().and_then(|role| role.create.get()) == Some(true);
    plan.filter(made).map(trainc_emit::iam::statements).unwrap_or_default()
}
