//! The AWS resources of a plan, each with its reason, for reports.

use super::fill::Fill;
use super::{archive, fsx, iam, names};
use trainc_diag::words;
use trainc_ir::{Plan, Storage};

/// The origin of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Created by trainc.
    Made,
    /// Exists; trainc does not change it.
    Existing,
}

impl Origin {
    /// Returns the planned action, without calling AWS.
    pub fn offline_action(self) -> Verb {
        match self {
            Self::Made => Verb::Create,
            Self::Existing => Verb::Use,
        }
    }
}

words! {
    /// A kind of AWS resource that trainc creates for a job, in the order of creation. A plan, `apply`,
    /// `destroy`, the bills after the end and the operator's policy each match on all kinds, so that a new one
    /// cannot be forgotten.
    ResourceKind {
        /// The execution role.
        Role "role",
        /// The inline policy of the role.
        RolePolicy "role-policy",
        /// An FSx for Lustre file system.
        FileSystem "file-system",
        /// A link between a file system and S3.
        Association "association",
        /// The SageMaker SDK's default bucket.
        Bucket "bucket",
        /// The archive of the source code, and the key of the job's hosts next to it.
        Source "source",
        /// A file of engine `worker`.
        Worker "worker",
        /// The training job.
        TrainingJob "training-job",
    }
}

words! {
    /// What happens to a resource, as plans, removals and events name it.
    Verb {
        /// It is created.
        Create "create",
        /// It exists and is used as it is.
        Use "use",
        /// It is changed in place.
        Update "update",
        /// It matches the plan.
        Unchanged "unchanged",
        /// It is still being created.
        Wait "wait",
        /// It is missing and no longer needed.
        Skip "skip",
        /// It belongs to others and is adopted.
        Adopt "adopt",
        /// It would have to be replaced, which trainc does not do.
        Replace "replace",
        /// It belongs to others.
        Foreign "foreign",
        /// Another version of it exists.
        Differs "differs",
        /// It has failed.
        Broken "broken",
        /// It has no room for one more.
        Full "full",
        /// It is stopped.
        Stop "stop",
        /// It is deleted.
        Delete "delete",
        /// It is left to the other jobs that use it.
        Leave "leave",
        /// It is kept.
        Keep "keep",
    }
}

/// An AWS resource that a plan needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its kind.
    pub kind: ResourceKind,
    /// Its name in the account, or in the manifest if AWS assigns the name.
    pub name: String,
    /// Whether trainc creates it.
    pub origin: Origin,
    /// Why the job needs it.
    pub because: String,
}

/// Returns the AWS resources of a plan, in the order of their creation; none for a cluster that is not a
/// SageMaker cluster.
pub fn resources(plan: &Plan) -> Vec<Resource> {
    if !super::is_requested(plan) {
        return Vec::new();
    }
    let identity = super::identity(plan);
    let mut out = Vec::new();
    role(plan, &mut out);
    for storage in &plan.job.storage {
        file_system(plan, storage, &identity.digest, &mut out);
    }
    uploads(plan, &identity.digest, &mut out);
    out.push(Resource {
        kind: ResourceKind::TrainingJob,
        name: identity.training_job,
        origin: Origin::Made,
        because: match plan.job.instance_count().or(plan.mesh.as_ref().map(|mesh| mesh.nodes)) {
            Some(instances) => {
                format!("the job itself, on {}", trainc_diag::text::count(instances, "instance"))
            }
            None => "the job itself".to_owned(),
        },
    });
    out
}

fn role(plan: &Plan, out: &mut Vec<Resource>) {
    let Some(written) = &plan.job.role else { return };
    if let Some(arn) = written.arn.text() {
        out.push(Resource {
            kind: ResourceKind::Role,
            name: arn.to_owned(),
            origin: Origin::Existing,
            because: "`role arn=`".to_owned(),
        });
        return;
    }
    let name = names::role(plan);
    out.push(Resource {
        kind: ResourceKind::Role,
        name: name.clone(),
        origin: Origin::Made,
        because: "`role create=#true`: SageMaker runs the job as this role".to_owned(),
    });
    let count = trainc_diag::text::count(iam::statements(plan).len() as u64, "statement");
    out.push(Resource {
        kind: ResourceKind::RolePolicy,
        name: format!("{name}/{}", iam::POLICY_NAME),
        origin: Origin::Made,
        because: format!("least privilege: {count}"),
    });
}

fn file_system(plan: &Plan, storage: &Storage, digest: &str, out: &mut Vec<Resource>) {
    let Some(name) = storage.name.value() else { return };
    let channels: Vec<String> = plan
        .job
        .channels
        .iter()
        .filter(|channel| channel.from.value() == Some(name))
        .filter_map(|channel| channel.name.value().cloned())
        .collect();
    let because = match channels.as_slice() {
        [] => "`storage`".to_owned(),
        [one] => format!("channel `{one}` reads it"),
        many => format!("channels {} read it", trainc_diag::text::backtick_list(many, "and")),
    };
    if let Some(id) = storage.id.value() {
        out.push(Resource {
            kind: ResourceKind::FileSystem,
            name: id.clone(),
            origin: Origin::Existing,
            because,
        });
        return;
    }
    if !fsx::created_storages(plan).any(|created| std::ptr::eq(created, storage)) {
        return;
    }
    out.push(Resource { kind: ResourceKind::FileSystem, name: name.clone(), origin: Origin::Made, because });
    for link in fsx::links(storage, digest) {
        let way = match (link.import, link.export) {
            (true, true) => "`import` and `export`",
            (true, false) => "`import`",
            (false, _) => "`export`",
        };
        out.push(Resource {
            kind: ResourceKind::Association,
            name: fsx::association_name(name, &link),
            origin: Origin::Made,
            because: format!("{way} of {} at `{}`", link.s3, link.path),
        });
    }
}

/// Returns whether the job writes its output or checkpoints to the default bucket of the SageMaker SDK, which
/// the SDK creates on first use.
pub fn writes_to_default_bucket(plan: &Plan) -> bool {
    let bucket = format!("s3://{}", names::default_bucket(plan));
    let checkpoint = plan.job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.s3.text());
    [plan.output_path(), checkpoint]
        .into_iter()
        .flatten()
        .any(|uri| uri.strip_prefix(&bucket).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

fn uploads(plan: &Plan, digest: &str, out: &mut Vec<Resource>) {
    let bucket = names::default_bucket(plan);
    let mut sources = Vec::new();
    if let Some(s3) = archive::existing_uri(plan) {
        sources.push(Resource {
            kind: ResourceKind::Source,
            name: s3.to_owned(),
            origin: Origin::Existing,
            because: "`program s3=`".to_owned(),
        });
    } else if plan.payload.is_packed() {
        sources.push(Resource {
            kind: ResourceKind::Source,
            name: archive::packed_uri(plan, Fill::Digest(digest)),
            origin: Origin::Made,
            because: "`program`: the container downloads its code from it".to_owned(),
        });
    }
    if plan.is_worker() {
        let prefix = Fill::Digest(digest).text(&names::worker_prefix(plan));
        sources.extend([(super::WORKER_CONFIG, "its config"), (super::WORKER_BINARY, "its binary")].map(
            |(file, what)| Resource {
                kind: ResourceKind::Worker,
                name: format!("{prefix}{file}"),
                origin: Origin::Made,
                because: format!("engine `worker`: {what}"),
            },
        ));
    }
    let is_uploaded = sources.iter().any(|resource| {
        resource.name.starts_with(&format!("s3://{bucket}/")) && resource.origin == Origin::Made
    });
    if is_uploaded || writes_to_default_bucket(plan) {
        out.push(Resource {
            kind: ResourceKind::Bucket,
            name: bucket,
            origin: Origin::Existing,
            because: "the SageMaker SDK's default bucket, for the job's files; created if missing".to_owned(),
        });
    }
    out.append(&mut sources);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn lines(plan: &Plan) -> Vec<String> {
        resources(plan)
            .into_iter()
            .map(|r| format!("{} {} {}: {}", r.origin.offline_action(), r.kind, r.name, r.because))
            .collect()
    }

    #[test]
    fn each_resource_has_a_reason() {
        let plan = sample::plan_with_all_nodes("full", "");
        let (job, source) = (crate::identity(&plan).training_job, archive::prefix(&plan, Fill::Mark));
        let role = names::role(&plan);
        let lines = lines(&plan);
        for line in [
            format!("create role {role}: `role create=#true`: SageMaker runs the job as this role"),
            format!("create role-policy {role}/trainc: least privilege: 25 statements"),
            "create file-system corpus: channel `tokens` reads it".to_owned(),
            "create file-system cold: `storage`".to_owned(),
            "use file-system fs-0123456789abcdef0: `storage`".to_owned(),
            format!(
                "create source {source}/sourcedir.tar.gz: `program`: the container downloads its code from it"
            ),
            format!("create training-job {job}: the job itself, on 2 instances"),
        ] {
            assert!(lines.contains(&line), "{line}\n{lines:#?}");
        }
        assert_eq!(lines.iter().filter(|line| line.starts_with("create association corpus/")).count(), 2);
        assert_eq!(lines.len(), 10);
    }

    /// A built-in algorithm has its own program: hyperparameters alone are no archive.
    #[test]
    fn hyperparameters_alone_are_not_uploaded() {
        let mut plan = sample::small_plan("algorithm", "");
        let packs = |plan: &Plan| {
            lines(plan).iter().any(|line| line.contains("sourcedir") || line.contains(" bucket "))
        };
        assert!(packs(&plan) && crate::archive_uri(&plan, "").is_some());
        let program = plan.job.program.as_mut().unwrap();
        (program.entry, program.source) = (trainc_ir::Field::Absent, trainc_ir::Field::Absent);
        let plan = trainc_plan::plan::decide_bound_values(plan);
        assert!(!packs(&plan), "{:?}", lines(&plan));
        assert_eq!(crate::archive_uri(&plan, ""), None);
    }

    #[test]
    fn existing_resources_are_used() {
        let plan =
            sample::small_plan("given", "role create=#false arn=\"arn:aws:iam::111122223333:role/training\"");
        assert_eq!(
            lines(&plan).first().map(String::as_str),
            Some("use role arn:aws:iam::111122223333:role/training: `role arn=`")
        );
        assert_eq!(lines(&sample::small_plan("here", "cluster \"local\" nodes=1")), Vec::<String>::new());
    }
}
