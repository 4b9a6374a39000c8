//! What becomes of each AWS resource that the job names, as far as can be said without asking the account.

use super::json::Resource;
use trainc_diag::text;
use trainc_emit::Identity;
use trainc_ir::{Plan, Storage};

/// Resources in the order in which they are needed; without the training job where errors keep it from a name.
pub(super) fn resources(plan: &Plan, identity: Option<&Identity>) -> Vec<Resource> {
    trainc_emit::resources(plan)
        .into_iter()
        .filter(|resource| resource.kind != "training-job" || identity.is_some())
        .map(|resource| {
            let action = resource.origin.offline_action();
            let storage =
                plan.job.storage.iter().find(|storage| storage.name.value() == Some(&resource.name));
            let because = match storage.filter(|_| resource.kind == "file-system" && action == "create") {
                Some(storage) => format!("{}; {}", resource.because, made(storage)),
                None => resource.because,
            };
            let (kind, name) = (resource.kind, resource.name);
            Resource { kind, name, action, because, shared_with: Vec::new() }
        })
        .collect()
}

/// A file system that trainc makes: its size, and what becomes of it.
fn made(storage: &Storage) -> String {
    let mut what: Vec<String> = Vec::new();
    what.extend(storage.capacity_bytes.get().map(|bytes| format!("{} GiB", text::group(bytes >> 30))));
    what.extend(storage.deployment.value().cloned());
    what.extend(storage.throughput_mb_s_tib.get().map(|rate| format!("{rate} MB/s per TiB")));
    let after = if storage.delete_after_job.get() == Some(true) {
        "goes after the job, by `apply --wait` or `destroy`"
    } else {
        "stays after the job"
    };
    what.push(after.to_owned());
    what.join(", ")
}

/// What the role that trainc makes may do and why; nothing where it makes none, or the plan has errors.
pub(super) fn statements(subject: &super::Subject) -> Vec<trainc_emit::iam::Statement> {
    let plan = subject.plan.filter(|plan| subject.identity.is_some() && plan.deployable);
    let made = |plan: &&Plan| plan.job.role.as_ref().and_then(|role| role.create.get()) == Some(true);
    plan.filter(made).map(trainc_emit::iam::statements).unwrap_or_default()
}
