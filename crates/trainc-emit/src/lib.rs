//! AWS requests, policies, scripts and the source archive of a checked plan.
//!
//! In: a plan without errors. Out: a [`Bundle`] of files, byte for byte the same for the same plan. Never
//! fails on a checked plan. Accesses no account and no file system.

mod added;
pub mod archive;
pub mod canonical_json;
mod channels;
mod container;
mod estimator;
mod fill;
pub mod fsx;
pub mod iam;
mod launch_script;
mod metrics;
mod model_trainer;
mod names;
pub mod python;
mod request;
pub mod resources;
mod sagemaker;
#[cfg(test)]
pub(crate) mod sample;
mod shell;
mod start;
mod tags;
mod template;
#[cfg(test)]
mod tests;
mod unmapped;
mod worker;

use fill::Fill;
use serde_json::Value;
use trainc_diag::Code;
use trainc_ir::address::for_each_address;
use trainc_ir::digest::sha256_hex;
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::{Address, KeyPlace, Plan, s3};

pub use archive::basename as dependency_name;
pub use container::{KEY, WORKER_BINARY, WORKER_CONFIG};
pub use request::Tag;
pub use resources::{Resource, ResourceKind, Verb, resources, writes_to_default_bucket};
pub use sagemaker::LOG_LEVELS;
pub use shell::{is_shell_safe, quote, unquote};
pub use start::{PLAN_VARIABLE, planned_figures, probe_files};
pub use unmapped::UnmappedMembers;
pub use worker::{config as worker_config, uploads as worker_uploads};

/// Returns the codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    Vec::new()
}

/// The digest of a job and the names derived from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// SHA-256 of everything that determines the run.
    pub digest: String,
    /// Name of the training job.
    pub training_job: String,
}

impl Identity {
    /// Derives the names from a digest.
    pub fn new(plan: &Plan, digest: &str) -> Self {
        Self { digest: digest.to_owned(), training_job: names::training_job(plan, digest) }
    }
}

/// The output of emit for a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// The job's names.
    pub identity: Identity,
    /// The CreateTrainingJob request; `None` for a cluster that is not a SageMaker cluster.
    pub training_job: Option<Value>,
    /// Files by path, sorted.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Computes the identity of a job from its name, the request without tags, with marks for what only an
/// account knows, and the content of the source.
///
/// The digest covers the request, so it does not change with another spelling in the manifest or another
/// version of trainc that sends the same request.
pub fn identity(plan: &Plan) -> Identity {
    let mut marked = plan.with_marks();
    let source = archive::source_digest(&marked);
    if let Some(account) = plan.account() {
        mark_default_bucket(&mut marked, account);
    }
    let plan = &marked;
    let mut request = sagemaker::request(plan, None);
    if let Value::Object(members) = &mut request {
        for name in ["TrainingJobName", "Tags", "RoleArn"] {
            members.remove(name);
        }
    }
    sort_named_lists(&mut request);
    let mut shape = serde_json::Map::new();
    shape.insert("request".to_owned(), request);
    // Jobs that differ only in name must not share paths with `{{ job.digest }}`.
    shape.insert("job".to_owned(), Value::from(plan.job.name.value().map_or("", String::as_str)));
    shape.insert("region".to_owned(), Value::from(names::region(plan)));
    shape.insert("source".to_owned(), Value::from(source));
    // Engine `worker` reads the mesh from its config; it is not in the request.
    shape.insert("mesh".to_owned(), worker::digest_inputs(plan));
    let digest = sha256_hex(canonical_json::compact(&Value::Object(shape)).as_bytes());
    Identity::new(plan, &digest)
}

/// Writes the mark into the S3 addresses that name the default bucket with the account's ID: it is the bucket
/// that other addresses name with the mark.
fn mark_default_bucket(plan: &mut Plan, account: &str) {
    let bucket = |account: &str| format!("sagemaker-{}-{account}", names::region(plan));
    let (written, marked) = (bucket(account), bucket(names::ACCOUNT));
    for_each_address(&mut plan.job, &mut |field| {
        let is_default = |address: &&mut Address| s3::parse(address).is_some_and(|uri| uri.bucket == written);
        if let Some(address) = field.value_mut().filter(is_default) {
            *address = Address::new(address.replacen(&written, &marked, 1));
        }
    });
}

/// Sorts lists of named items, whose order does not matter.
pub fn sort_named_lists(request: &mut Value) {
    for (path, key) in [
        ("/InputDataConfig", "ChannelName"),
        ("/AlgorithmSpecification/MetricDefinitions", "Name"),
        ("/ResourceConfig/InstanceGroups", "InstanceGroupName"),
    ] {
        if let Some(Value::Array(items)) = request.pointer_mut(path) {
            items.sort_by_key(|item| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned());
        }
    }
}

/// Returns the request of a plan with its name and digest.
pub fn training_job_request(plan: &Plan, identity: &Identity) -> Value {
    sagemaker::request(plan, Some(identity))
}

/// Returns the name of a run of a digest: `<job>-<digest8>` for the first, `<job>-<digest8>-r2` for the
/// second.
pub fn run_name(plan: &Plan, digest: &str, run: u32) -> String {
    if run <= 1 { names::training_job(plan, digest) } else { names::repeated_job(plan, digest, run) }
}

/// Returns the name of the role that trainc creates for the job, regardless of the role in the manifest.
pub fn role_name(plan: &Plan) -> String {
    names::role(plan)
}

/// Returns the common prefix of the names of all runs of the job.
pub fn run_name_prefix(plan: &Plan) -> String {
    names::training_job_pattern(plan).trim_end_matches(['*', '-']).to_owned()
}

/// The placeholder for the ARN of a role that trainc creates.
pub const ROLE_ARN_MARK: &str = names::ROLE_ARN;

/// Returns the placeholders for ID and mount name of a file system that trainc creates.
pub fn storage_marks(name: &str) -> (String, String) {
    (format!("${{fsx.{name}.id}}"), format!("${{fsx.{name}.mount}}"))
}

/// Returns whether a member of a request, by its path with slashes or dots, is a placeholder that only apply
/// can resolve.
pub fn is_unresolved(path: &str, value: &str) -> bool {
    names::is_unresolved(path, value)
}

/// Returns the S3 URI of the source archive; `None` if trainc packs none.
pub fn archive_uri(plan: &Plan, digest: &str) -> Option<String> {
    plan.payload.is_packed().then(|| archive::packed_uri(plan, Fill::Digest(digest)))
}

/// Returns the S3 URI of the key by which the hosts of a job recognise each other. None where nothing of
/// trainc's listens.
pub fn key_uri(plan: &Plan, digest: &str) -> Option<String> {
    Some(match plan.payload.key? {
        KeyPlace::Archive => format!("{}/{KEY}", archive::prefix(plan, Fill::Digest(digest))),
        KeyPlace::Worker => format!("{}{KEY}", Fill::Digest(digest).text(&names::worker_prefix(plan))),
    })
}

/// Returns the command that starts the ranks of a job with the file of its engine, as far as it is the same
/// on all hosts; `None` if torchrun or the job's own program starts them.
pub fn launch_command(plan: &Plan) -> Option<String> {
    launch_script::command(plan)
}

/// Returns the S3 prefix of the worker's files of all versions of the job.
pub fn worker_home(plan: &Plan) -> String {
    names::worker_base_prefix(plan)
}

/// Returns the default bucket for uploads: that of the SageMaker SDK.
pub fn default_bucket(plan: &Plan) -> String {
    names::default_bucket(plan)
}

/// Returns the pattern of the names of all runs of the job, for policies: `<job>-*`.
pub fn job_pattern(plan: &Plan) -> String {
    names::training_job_pattern(plan)
}

/// Returns the S3 prefix of the source archives of all versions of the job; of this version if the manifest's
/// prefix has the job's digest.
pub fn archive_base_prefix(plan: &Plan) -> String {
    let prefix = names::source_base_prefix(plan);
    if prefix.contains(DIGEST_MARK) { Fill::Digest(&identity(plan).digest).text(&prefix) } else { prefix }
}

/// Returns whether SageMaker is asked for the job.
fn is_requested(plan: &Plan) -> bool {
    plan.on_sagemaker.is_some()
}

/// Emits all files of a plan, except its reports.
pub fn emit(plan: &Plan) -> Bundle {
    let identity = identity(plan);
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let training_job = is_requested(plan).then(|| training_job_request(plan, &identity));
    if let Some(request) = &training_job {
        files.push(("sagemaker/training-job.json".to_owned(), canonical_json::pretty(request).into_bytes()));
        if let Some(script) = estimator::script(plan, &identity, request) {
            files.push(("sagemaker/estimator.py".to_owned(), script.into_bytes()));
        }
        if let Some(script) = model_trainer::script(plan, &identity, request) {
            files.push(("sagemaker/model_trainer.py".to_owned(), script.into_bytes()));
        }
        files.extend(iam::files(plan, &identity.digest));
        files.extend(fsx::files(plan, &identity.digest));
    }
    files.extend(worker::files(plan, &identity.digest));
    // Without an archive the program's files are not uploaded.
    for file in archive::files(plan).iter().filter(|_| plan.payload.is_packed()) {
        files.push((format!("source/{}", file.path), file.bytes.to_vec()));
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    Bundle { identity, training_job, files }
}
