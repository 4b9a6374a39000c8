//! What becomes of each AWS resource that the job names, as far as the manifest alone tells.

use super::json::Resource;
use crate::emit::Identity;
use crate::ir::{Job, Plan, Storage};
use crate::text;

/// Resources in the order in which they are needed. `create`: trainc makes it; `use`: it must be there.
pub(super) fn resources(plan: &Plan, identity: Option<&Identity>) -> Vec<Resource> {
    if !plan.deployable {
        return Vec::new();
    }
    let mut out = Vec::new();
    out.extend(role(plan));
    out.extend(plan.job.storage.iter().map(file_system));
    out.extend(source(plan));
    if let Some(identity) = identity {
        out.push(Resource {
            kind: "training-job",
            name: identity.training_job.clone(),
            action: "create",
            because: "new for each digest".to_owned(),
        });
    }
    out
}

fn role(plan: &Plan) -> Option<Resource> {
    let role = plan.job.role.as_ref()?;
    if let Some(arn) = role.arn.value() {
        return Some(Resource { kind: "role", name: arn.clone(), action: "use", because: "named by `role arn=`".to_owned() });
    }
    (role.create.get() == Some(true)).then(|| Resource {
        kind: "role",
        name: crate::emit::role_name(plan),
        action: "create",
        because: "`role create=#true`, with the permissions that this job uses".to_owned(),
    })
}

fn file_system(storage: &Storage) -> Resource {
    let name = storage.name.value().cloned().unwrap_or_default();
    if let Some(id) = storage.id.value() {
        return Resource { kind: "file-system", name: id.clone(), action: "use", because: format!("named by `storage \"{name}\"`") };
    }
    let mut what: Vec<String> = Vec::new();
    what.extend(storage.capacity_bytes.get().map(|bytes| format!("{} GiB", text::group(bytes >> 30))));
    what.extend(storage.deployment.value().cloned());
    what.extend(storage.throughput_mb_s_tib.get().map(|rate| format!("{rate} MB/s per TiB")));
    let after = if storage.delete_after_job.get() == Some(true) { "deleted after the job" } else { "stays after the job" };
    what.push(after.to_owned());
    Resource { kind: "file-system", name, action: "create", because: what.join(", ") }
}

/// Where the program's archive goes.
fn source(plan: &Plan) -> Option<Resource> {
    let job: &Job = &plan.job;
    let program = job.program.as_ref()?;
    if let Some(s3) = program.s3.value() {
        return Some(Resource { kind: "source", name: s3.clone(), action: "use", because: "named by `program s3=`".to_owned() });
    }
    if program.git.value().is_none() && plan.source.is_none() {
        return None;
    }
    Some(Resource {
        kind: "source",
        name: crate::emit::source_prefix(plan),
        action: "create",
        because: match program.upload.value() {
            Some(_) => "named by `program upload=`".to_owned(),
            None => "the SageMaker SDK's default bucket, made if it is missing".to_owned(),
        },
    })
}
