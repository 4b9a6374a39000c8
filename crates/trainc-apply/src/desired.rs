//! The resources that a plan requires in an account: the emitted definitions with the values of the account.

use super::account::{Caller, Tags, Upload};
use super::ledger::Item;
use super::verdict::{self, Verdict};
use serde_json::Value;
use trainc_emit::ResourceKind;
use trainc_emit::fsx::{CreateDataRepositoryAssociation, CreateFileSystem};
use trainc_emit::iam::{self, CreateRole};
use trainc_emit::{self as emit, Identity, Tag, archive};
use trainc_ir::Plan;
use trainc_ir::digest::sha256_hex;

/// The resources that a plan requires in an account.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The job's name in the manifest.
    pub job: String,
    /// The job's digest.
    pub digest: String,
    /// The region.
    pub region: String,
    /// The account ID.
    pub account: String,
    /// The role that trainc creates.
    pub role: Option<WantedRole>,
    /// Name of the role that trainc would create for the job, even if the manifest names another role.
    pub role_name: String,
    /// ARN of the role that the job runs as, created or existing.
    pub role_arn: String,
    /// File systems that trainc creates.
    pub file_systems: Vec<WantedFileSystem>,
    /// The bucket that trainc creates if it is missing.
    pub bucket: Option<String>,
    /// Uploads: the source archive and the files of the worker.
    pub uploads: Vec<WantedObject>,
    /// Destination of the key of the job's hosts: of engine `worker`, or of an enforced budget.
    pub key: Option<WantedKey>,
    /// Common prefix of the names of all runs of this job.
    pub stem: String,
    /// CreateTrainingJob request of the first run, without the IDs of file systems.
    pub request: Value,
    /// The plan with the values of the account, from which requests are created.
    plan: Box<Plan>,
}

/// A role that trainc creates.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedRole {
    /// CreateRole request.
    pub create: CreateRole,
    /// The inline policy, as JSON text.
    pub policy: String,
    /// Its ARN.
    pub arn: String,
    /// Runs of other digests that currently use the role; their permissions stay in its policy until they
    /// end.
    pub concurrent_runs: Vec<String>,
}

/// A file system that trainc creates, with its links.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedFileSystem {
    /// Its name in the manifest.
    pub name: String,
    /// CreateFileSystem request.
    pub create: CreateFileSystem,
    /// Its associations, without the ID of the file system.
    pub associations: Vec<WantedAssociation>,
    /// True if it is deleted with all its data once its job has completed.
    pub delete_after_job: bool,
}

/// An association that trainc creates.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedAssociation {
    /// `<file system>/<8 digits>`, as in its tag `trainc:resource`.
    pub name: String,
    /// CreateDataRepositoryAssociation request.
    pub create: CreateDataRepositoryAssociation,
}

/// An object that trainc uploads.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedObject {
    /// Its kind.
    pub kind: ResourceKind,
    /// The destination, `s3://bucket/key`.
    pub uri: String,
    /// The upload.
    pub upload: Upload,
}

/// A random key, written once when the first run of a job starts. Its content exists only in the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedKey {
    /// Kind of the objects next to it.
    pub kind: ResourceKind,
    /// The destination, `s3://bucket/key`.
    pub uri: String,
    /// The bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// KMS key that encrypts it; without one, S3 encrypts with AES-256.
    pub kms: Option<String>,
    /// The account that must own the bucket: S3 denies the request otherwise.
    pub owner: String,
}

/// Maximum number of runs of a digest: the common prefix of the names leaves room for three digits.
pub const MOST_RUNS: u32 = 999;

impl Desired {
    /// Returns the resources that a checked plan requires in the caller's account.
    ///
    /// # Errors
    ///
    /// Fails for a cluster outside SageMaker.
    pub fn new(plan: &Plan, caller: &Caller) -> Result<Self, Box<Verdict>> {
        verdict::require_sagemaker(plan)?;
        let account = caller.account.as_str();
        let identity = emit::identity(plan);
        let mut here = Box::new(plan.clone().with_account(account));
        let plan = &*here;
        let role = role(plan, &identity, caller);
        let role_arn = match (&role, plan.job.role.as_ref().and_then(|role| role.arn.text())) {
            (Some(role), _) => role.arn.clone(),
            (None, Some(given)) => given.to_owned(),
            (None, None) => String::new(),
        };
        let mut uploads: Vec<WantedObject> = archive_of(plan, &identity).into_iter().collect();
        uploads.extend(worker_of(plan, &identity));
        let default = emit::default_bucket(plan);
        let is_used = uploads.iter().any(|object| object.upload.bucket == default)
            || emit::writes_to_default_bucket(plan);
        let bucket = is_used.then_some(default);
        let file_systems = file_systems(plan, &identity);
        here.account_facts.role_arn = Some(role_arn.clone());
        let plan = &*here;
        Ok(Self {
            job: plan.job.name.value().cloned().unwrap_or_default(),
            region: plan.job.region.value().cloned().unwrap_or_default(),
            account: account.to_owned(),
            role,
            role_name: emit::role_name(plan),
            role_arn,
            file_systems,
            bucket,
            uploads,
            key: key_of(plan, &identity),
            stem: emit::run_name_prefix(plan),
            request: emit::training_job_request(plan, &identity),
            digest: identity.digest,
            plan: here,
        })
    }

    /// Returns the resources of a kind that trainc creates, without the training job, whose name depends on
    /// its runs.
    pub fn items(&self, kind: ResourceKind) -> Vec<Item> {
        let names: Vec<String> = match kind {
            ResourceKind::Role => self.role.iter().map(|role| role.create.role_name.clone()).collect(),
            ResourceKind::RolePolicy => {
                let name = |role: &WantedRole| format!("{}/{}", role.create.role_name, iam::POLICY_NAME);
                self.role.iter().map(name).collect()
            }
            ResourceKind::FileSystem => self.file_systems.iter().map(|system| system.name.clone()).collect(),
            ResourceKind::Association => {
                let links = self.file_systems.iter().flat_map(|system| &system.associations);
                links.map(|link| link.name.clone()).collect()
            }
            ResourceKind::Bucket => self.bucket.iter().cloned().collect(),
            ResourceKind::Source | ResourceKind::Worker => {
                let uploads = self.uploads.iter().filter(|object| object.kind == kind);
                uploads.map(|object| object.uri.clone()).collect()
            }
            ResourceKind::TrainingJob => Vec::new(),
        };
        names.iter().map(|name| Item::new(kind, name)).collect()
    }

    /// Returns the account that must own a bucket.
    pub fn bucket_owner(&self, bucket: &str) -> &str {
        bucket_owner(&self.plan, bucket)
    }

    /// Returns the number of the run of this digest with this name, from 1.
    pub fn run_number(&self, name: &str) -> Option<usize> {
        let run = match name.rsplit_once("-r") {
            // A digest is hexadecimal and contains no `r`, but a job's name may.
            Some((_, digits)) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok()?
            }
            _ => 1,
        };
        (self.name_of_run(run).as_deref() == Some(name)).then_some(run)
    }

    /// Returns the name of a run of this digest, counted from 1; `None` beyond the maximum.
    pub fn name_of_run(&self, run: usize) -> Option<String> {
        let run = u32::try_from(run).ok().filter(|run| (1..=MOST_RUNS).contains(run))?;
        Some(emit::run_name(&self.plan, &self.digest, run))
    }

    /// Returns true for the name of a run of this job, of any digest. The name contains only the beginning of
    /// a long job name.
    pub(crate) fn is_run(&self, name: &str) -> bool {
        job_name_of_run(name).is_some_and(|job| self.job.starts_with(job) && job.starts_with(&self.stem))
    }

    /// Returns the tags of the training job.
    pub fn job_tags(&self) -> Tags {
        let tags = self.request.get("Tags").and_then(Value::as_array);
        let word =
            |tag: &Value, key: &str| tag.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        tags.into_iter().flatten().map(|tag| (word(tag, "Key"), word(tag, "Value"))).collect()
    }

    /// Makes the job run as the existing role: an adopted role keeps its path, and therefore its ARN.
    pub fn set_role_arn(&mut self, arn: &str) {
        let Some(role) = self.role.as_mut().filter(|role| role.arn != arn && !arn.is_empty()) else { return };
        arn.clone_into(&mut role.arn);
        arn.clone_into(&mut self.role_arn);
        self.plan.account_facts.role_arn = Some(arn.to_owned());
        self.request = emit::training_job_request(&self.plan, &Identity::new(&self.plan, &self.digest));
    }

    /// Keeps the permissions of concurrent runs in the role's policy.
    pub fn keep_permissions_of(&mut self, policy: &str, runs: &[String]) {
        let Some(role) = self.role.as_mut().filter(|_| !runs.is_empty()) else { return };
        role.policy = super::policy::union(&role.policy, policy);
        role.concurrent_runs = runs.to_vec();
    }

    /// Returns the request for a run with this name and the existing file systems, given by name, ID and
    /// mount name.
    pub fn request_for_run(&self, name: &str, file_systems: &[(String, String, String)]) -> Value {
        let mut plan = self.plan.clone();
        plan.account_facts.file_systems = file_systems
            .iter()
            .map(|(storage, id, mount)| (storage.clone(), (id.clone(), Some(mount.clone()))))
            .collect();
        let run = Identity { digest: self.digest.clone(), training_job: name.to_owned() };
        emit::training_job_request(&plan, &run)
    }
}

/// Returns the job in the name of a run: `<job>-<8 digits of a digest>`, followed by `-r2` for the second
/// run.
pub(crate) fn job_name_of_run(run: &str) -> Option<&str> {
    let digit = |c: char| c.is_ascii_digit();
    let first = match run.rsplit_once("-r") {
        Some((first, number)) if !number.is_empty() && number.chars().all(digit) => first,
        _ => run,
    };
    let (job, digest) = first.rsplit_once('-')?;
    (digest.len() == 8 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) && !job.is_empty())
        .then_some(job)
}

/// Converts tags to the form of the account.
pub fn tags_of(tags: &[Tag]) -> Tags {
    tags.iter().map(|tag| (tag.key.clone(), tag.value.clone())).collect()
}

fn role(plan: &Plan, identity: &Identity, caller: &Caller) -> Option<WantedRole> {
    let create = iam::create_role(plan, &identity.digest)?;
    let account = caller.account.as_str();
    let policy = serde_json::to_value(iam::policy(plan)).map(|value| emit::canonical_json::compact(&value));
    let partition =
        plan.region.as_ref().map_or_else(|| caller.partition(), |region| region.partition.as_str());
    let path = create.path.as_deref().unwrap_or("/");
    let arn = format!("arn:{partition}:iam::{account}:role{path}{}", create.role_name);
    Some(WantedRole { policy: policy.unwrap_or_default(), create, arn, concurrent_runs: Vec::new() })
}

fn file_systems(plan: &Plan, identity: &Identity) -> Vec<WantedFileSystem> {
    emit::fsx::file_systems(plan, &identity.digest)
        .into_iter()
        .map(|system| {
            let associations = system
                .associations
                .into_iter()
                .map(|create| {
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
            WantedFileSystem { name: system.name, create: system.create, associations, delete_after_job }
        })
        .collect()
}

fn archive_of(plan: &Plan, identity: &Identity) -> Option<WantedObject> {
    let uri = emit::archive_uri(plan, &identity.digest)?;
    // Packing a readable archive into memory cannot fail.
    let bytes = archive::tar_gz(&archive::files(plan)).ok()?;
    wanted_object(ResourceKind::Source, uri, bytes, plan)
}

/// Returns the binary and the config of engine `worker`. Their URIs contain the job's digest, which covers
/// their digests.
fn worker_of(plan: &Plan, identity: &Identity) -> Vec<WantedObject> {
    emit::worker_uploads(plan, &identity.digest)
        .into_iter()
        .filter_map(|(uri, bytes)| wanted_object(ResourceKind::Worker, uri, bytes.to_vec(), plan))
        .collect()
}

fn key_of(plan: &Plan, identity: &Identity) -> Option<WantedKey> {
    let uri = emit::key_uri(plan, &identity.digest)?;
    let (bucket, key) = split_uri(&uri).map(|(bucket, key)| (bucket.to_owned(), key.to_owned()))?;
    let owner = bucket_owner(plan, &bucket).to_owned();
    let kind = if plan.is_worker() { ResourceKind::Worker } else { ResourceKind::Source };
    Some(WantedKey { kind, uri, bucket, key, kms: kms_of(plan), owner })
}

/// Returns the KMS key of the output, which also encrypts the job's uploads.
fn kms_of(plan: &Plan) -> Option<String> {
    plan.job.output.as_ref().and_then(|output| output.kms.text().map(str::to_owned))
}

/// Returns the account that must own a bucket: that of the manifest's `bucket`, else that of the job.
pub(crate) fn bucket_owner<'a>(plan: &'a Plan, bucket: &str) -> &'a str {
    plan.job.bucket_owner(bucket).or_else(|| plan.account()).unwrap_or_default()
}

/// Returns the upload for a URI.
fn wanted_object(kind: ResourceKind, uri: String, bytes: Vec<u8>, plan: &Plan) -> Option<WantedObject> {
    let (bucket, key) = split_uri(&uri).map(|(bucket, key)| (bucket.to_owned(), key.to_owned()))?;
    let owner = bucket_owner(plan, &bucket).to_owned();
    let upload = Upload { bucket, key, sha256: sha256_hex(&bytes), bytes, kms: kms_of(plan), owner };
    Some(WantedObject { kind, uri, upload })
}

/// Returns bucket and key of `s3://bucket/key` or of an S3 URL; the key of a whole bucket is empty.
pub fn split_uri(uri: &str) -> Option<(&str, &str)> {
    let parts = trainc_ir::s3::parse(uri)?;
    Some((parts.bucket, parts.key)).filter(|(bucket, _)| !bucket.is_empty())
}
