//! What the account must hold for a plan: the emitted definitions, with the account filled in.

use super::account::{Caller, Tags, Upload};
use crate::emit::fsx::{CreateDataRepositoryAssociation, CreateFileSystem};
use crate::emit::iam::{self, CreateRole};
use crate::emit::{self, ACCOUNT_MARK, Identity, ROLE_ARN_MARK, Tag, archive};
use crate::ir::Plan;
use crate::ir::digest::sha256_hex;
use serde_json::Value;

/// Everything that a plan needs in an account, named.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The job's name in the manifest.
    pub job: String,
    /// The job's digest.
    pub digest: String,
    /// The region.
    pub region: String,
    /// The account.
    pub account: String,
    /// The role that trainc makes.
    pub role: Option<WantedRole>,
    /// The name that a role which trainc makes for the job has, also where the manifest names another one.
    pub role_name: String,
    /// The role that the job runs as, made or given.
    pub role_arn: String,
    /// File systems that trainc makes.
    pub file_systems: Vec<WantedFileSystem>,
    /// The bucket that trainc makes if it is missing.
    pub bucket: Option<String>,
    /// What is uploaded: the source archive, the worker's files.
    pub uploads: Vec<WantedObject>,
    /// What the name of every run of this job begins with.
    pub stem: String,
    /// The names of the runs of this digest: the first, and how the others are made.
    pub run_names: Vec<String>,
    /// CreateTrainingJob of the first run; ids of file systems are still open.
    pub request: Value,
}

/// A role that trainc makes.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedRole {
    /// CreateRole.
    pub create: CreateRole,
    /// The inline policy, as JSON text.
    pub policy: String,
    /// The ARN that it has.
    pub arn: String,
    /// Runs of other digests that run as it now: what they may do stays in its policy until they end.
    pub beside: Vec<String>,
}

/// A file system that trainc makes, with its links.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedFileSystem {
    /// Its name in the manifest.
    pub name: String,
    /// CreateFileSystem.
    pub create: CreateFileSystem,
    /// Its associations; the id of the file system is still open.
    pub associations: Vec<WantedAssociation>,
    /// Whether it goes, with all data in it, once its job has completed.
    pub delete_after_job: bool,
}

/// An association that trainc makes.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedAssociation {
    /// `<file system>/<8 digits>`, as its tag `trainc:resource` says it.
    pub name: String,
    /// CreateDataRepositoryAssociation.
    pub create: CreateDataRepositoryAssociation,
}

/// An object that trainc uploads.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedObject {
    /// `source`, `worker`.
    pub kind: &'static str,
    /// Where it goes, `s3://bucket/key`.
    pub uri: String,
    /// What is sent.
    pub upload: Upload,
}

/// The most runs of one digest that have a name.
const MOST_RUNS: u32 = 999;

impl Desired {
    /// What a checked plan needs in the account of the caller; none for a cluster that is not SageMaker's.
    pub fn of(plan: &Plan, caller: &Caller) -> Option<Self> {
        if !plan.deployable {
            return None;
        }
        let account = caller.account.as_str();
        let identity = emit::identity(plan);
        let role = role(plan, &identity, caller);
        let role_arn = match (&role, plan.job.role.as_ref().and_then(|role| role.arn.value())) {
            (Some(role), _) => role.arn.clone(),
            (None, Some(given)) => given.clone(),
            (None, None) => String::new(),
        };
        let mut uploads: Vec<WantedObject> = archive_of(plan, account).into_iter().collect();
        uploads.extend(worker_of(plan, &identity, account));
        let default = here(&emit::default_bucket(plan), account);
        let bucket = uploads.iter().any(|object| object.upload.bucket == default).then_some(default);
        let mut request = emit::training_job(plan, &identity);
        fill(&mut request, &[(ACCOUNT_MARK, account), (ROLE_ARN_MARK, &role_arn)]);
        Some(Self {
            job: plan.job.name.value().cloned().unwrap_or_default(),
            region: plan.job.region.value().cloned().unwrap_or_default(),
            account: account.to_owned(),
            role,
            role_name: emit::role_name(plan),
            role_arn,
            file_systems: file_systems(plan, &identity, account),
            bucket,
            uploads,
            stem: emit::run_stem(plan),
            run_names: (1..=MOST_RUNS).map(|run| emit::run_name(plan, &identity.digest, run)).collect(),
            request,
            digest: identity.digest,
        })
    }

    /// Which run of this digest has a name, from 1.
    pub fn run_of(&self, name: &str) -> Option<usize> {
        self.run_names.iter().position(|known| known == name).map(|at| at + 1)
    }

    /// The name of a run of this digest, from 1.
    pub fn name_of_run(&self, run: usize) -> Option<&str> {
        self.run_names.get(run.checked_sub(1)?).map(String::as_str)
    }

    /// The tags of the training job.
    pub fn job_tags(&self) -> Tags {
        let tags = self.request.get("Tags").and_then(Value::as_array);
        let word =
            |tag: &Value, key: &str| tag.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        tags.into_iter().flatten().map(|tag| (word(tag, "Key"), word(tag, "Value"))).collect()
    }

    /// Lets the job run as the role that is there: one that was taken over keeps its path, and with it its ARN.
    pub fn run_as(&mut self, arn: &str) {
        let Some(role) = self.role.as_mut().filter(|role| role.arn != arn && !arn.is_empty()) else { return };
        let before = std::mem::replace(&mut role.arn, arn.to_owned());
        fill(&mut self.request, &[(&before, arn)]);
        arn.clone_into(&mut self.role_arn);
    }

    /// Leaves the runs beside this one what the role's policy allows them.
    pub fn run_beside(&mut self, policy: &str, runs: &[String]) {
        let Some(role) = self.role.as_mut().filter(|_| !runs.is_empty()) else { return };
        role.policy = super::diff::union(&role.policy, policy);
        role.beside = runs.to_vec();
    }

    /// The request under the name of a run, with the file systems that exist by now: name, id and mount name.
    pub fn request_as(&self, name: &str, file_systems: &[(String, String, String)]) -> Value {
        let mut request = self.request.clone();
        let first = self.run_names.first().cloned().unwrap_or_default();
        if let Value::Object(members) = &mut request {
            members.insert("TrainingJobName".to_owned(), Value::from(name));
            if let Some(Value::String(said)) =
                members.get_mut("HyperParameters").and_then(|all| all.get_mut("sagemaker_job_name"))
            {
                *said = said.replace(&first, name);
            }
        }
        for (storage, id, mount) in file_systems {
            let (id_mark, mount_mark) = emit::storage_marks(storage);
            fill(&mut request, &[(&id_mark, id), (&mount_mark, mount)]);
        }
        request
    }
}

/// What the account's own words put in the place of marks.
fn fill(value: &mut Value, words: &[(&str, &str)]) {
    match value {
        Value::String(text) => {
            for (mark, word) in words {
                if text.contains(mark) {
                    *text = text.replace(mark, word);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, words)),
        Value::Object(members) => members.values_mut().for_each(|item| fill(item, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A text with the account filled in.
pub(super) fn here(text: &str, account: &str) -> String {
    text.replace(ACCOUNT_MARK, account)
}

fn here_tags(tags: &mut [Tag], account: &str) {
    for tag in tags {
        tag.value = here(&tag.value, account);
    }
}

/// Tags as the account gives them back.
pub fn tags_of(tags: &[Tag]) -> Tags {
    tags.iter().map(|tag| (tag.key.clone(), tag.value.clone())).collect()
}

fn role(plan: &Plan, identity: &Identity, caller: &Caller) -> Option<WantedRole> {
    let mut create = iam::create_role(plan, &identity.digest)?;
    let account = caller.account.as_str();
    create.assume_role_policy_document = here(&create.assume_role_policy_document, account);
    create.permissions_boundary = create.permissions_boundary.map(|arn| here(&arn, account));
    here_tags(&mut create.tags, account);
    let policy = serde_json::to_value(iam::policy(plan)).map(|value| emit::canonical::compact(&value));
    let partition =
        plan.region.as_ref().map_or_else(|| caller.partition(), |region| region.partition.as_str());
    let path = create.path.as_deref().unwrap_or("/");
    let arn = format!("arn:{partition}:iam::{account}:role{path}{}", create.role_name);
    Some(WantedRole { policy: here(&policy.unwrap_or_default(), account), create, arn, beside: Vec::new() })
}

fn file_systems(plan: &Plan, identity: &Identity, account: &str) -> Vec<WantedFileSystem> {
    emit::fsx::file_systems(plan, &identity.digest)
        .into_iter()
        .map(|system| {
            let mut create = system.create;
            here_tags(&mut create.tags, account);
            let associations = system
                .associations
                .into_iter()
                .map(|mut create| {
                    here_tags(&mut create.tags, account);
                    create.data_repository_path = here(&create.data_repository_path, account);
                    let name = create
                        .tags
                        .iter()
                        .find(|tag| tag.key == "trainc:resource")
                        .and_then(|tag| tag.value.strip_prefix("association/"))
                        .unwrap_or_default()
                        .to_owned();
                    WantedAssociation { name, create }
                })
                .collect();
            let delete_after_job = plan.job.storage.iter().any(|storage| {
                storage.name.value() == Some(&system.name) && storage.delete_after_job.get() == Some(true)
            });
            WantedFileSystem { name: system.name, create, associations, delete_after_job }
        })
        .collect()
}

fn archive_of(plan: &Plan, account: &str) -> Option<WantedObject> {
    let uri = here(&emit::archive_uri(plan)?, account);
    // Packing into memory fails for no archive that can be read.
    let bytes = archive::tar_gz(&archive::files(plan)).ok()?;
    object("source", uri, bytes, kms_of(plan), account)
}

/// The binary and the config of engine `worker`: their address holds the job's digest, which holds theirs.
fn worker_of(plan: &Plan, identity: &Identity, account: &str) -> Vec<WantedObject> {
    emit::worker_uploads(plan, &identity.digest)
        .into_iter()
        .filter_map(|(uri, bytes)| {
            object("worker", here(&uri, account), bytes.to_vec(), kms_of(plan), account)
        })
        .collect()
}

/// The output's key encrypts what is uploaded for the job as well.
fn kms_of(plan: &Plan) -> Option<String> {
    plan.job.output.as_ref().and_then(|output| output.kms.value().cloned())
}

/// What goes to an address; the account must own the bucket where its name says that it is the account's.
pub fn object(
    kind: &'static str,
    uri: String,
    bytes: Vec<u8>,
    kms: Option<String>,
    account: &str,
) -> Option<WantedObject> {
    let (bucket, key) = split_uri(&uri).map(|(bucket, key)| (bucket.to_owned(), key.to_owned()))?;
    let owner = bucket.ends_with(account).then(|| account.to_owned());
    let upload = Upload { bucket, key, sha256: sha256_hex(&bytes), bytes, kms, owner };
    Some(WantedObject { kind, uri, upload })
}

/// The bucket and the key of `s3://bucket/key`, or of a web address of S3; an empty key for a whole bucket.
pub fn split_uri(uri: &str) -> Option<(&str, &str)> {
    let parts = crate::ir::s3::parse(uri)?;
    Some((parts.bucket, parts.key)).filter(|(bucket, _)| !bucket.is_empty())
}
