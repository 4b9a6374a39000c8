//! From a checked plan to what AWS takes: requests, policies, scripts, the source archive.
//!
//! In: a plan without errors. Out: a [`Bundle`] of files, byte for byte the same for the same plan. Total: it
//! cannot fail on a checked plan. Knows no account and no file system.

pub mod archive;
pub mod canonical;
mod channels;
mod estimator;
pub mod fsx;
pub mod iam;
mod launch;
mod names;
pub mod python;
mod request;
pub mod resources;
mod sagemaker;
#[cfg(test)]
pub(crate) mod sample;
mod shell;
mod tags;
mod template;
mod unmapped;
mod worker;

use serde_json::Value;
use trainc_diag::Code;
use trainc_ir::Plan;
use trainc_ir::digest::sha256_hex;
use trainc_ir::plan::DIGEST_MARK;

pub use archive::{SECRETS_SHIM, basename as dependency_name};
pub use launch::{Launcher, launcher, launcher_words, python_str, smp_name};
pub use request::Tag;
pub use resources::{Resource, resources};
pub use sagemaker::{raw as raw_member, takes_debugger};
pub use shell::{is_plain, quoted, unquoted};
pub use unmapped::UnmappedMembers;
pub use worker::{
    BINARY as WORKER_BINARY, CONFIG as WORKER_CONFIG, config as worker_config, home as worker_home,
    uploads as worker_uploads,
};

/// The codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    Vec::new()
}

/// A job's names: made from its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// SHA-256 over all that shapes the run.
    pub digest: String,
    /// Name of the training job.
    pub training_job: String,
}

impl Identity {
    /// The names that a digest gives.
    pub fn of(plan: &Plan, digest: &str) -> Self {
        Self { digest: digest.to_owned(), training_job: names::training_job(plan, digest) }
    }
}

/// Everything that a plan becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// The job's names.
    pub identity: Identity,
    /// CreateTrainingJob, as it is sent; none for a cluster that is not SageMaker's.
    pub training_job: Option<Value>,
    /// Files by path, sorted.
    pub files: Vec<(String, Vec<u8>)>,
}

/// The digest of all that shapes the job: its name, the request without tags and what only apply knows, and the
/// content of the source.
///
/// Computed over the request, so that a new spelling in the language, or a new version of trainc that sends the
/// same, is the same job.
pub fn identity(plan: &Plan) -> Identity {
    let plan = &*plan.offline();
    let mut request = sagemaker::request(plan, "", "");
    if let Value::Object(members) = &mut request {
        for name in ["TrainingJobName", "Tags", "RoleArn"] {
            members.remove(name);
        }
        if let Some(Value::Object(hyperparameters)) = members.get_mut("HyperParameters") {
            hyperparameters.remove("sagemaker_job_name");
            hyperparameters.remove("sagemaker_submit_directory");
        }
    }
    sort_named(&mut request);
    let mut shape = serde_json::Map::new();
    shape.insert("request".to_owned(), request);
    // Two jobs that are alike but for their names must not share what `{{ job.digest }}` keeps apart.
    shape.insert("job".to_owned(), Value::from(plan.job.name.value().map_or("", String::as_str)));
    shape.insert("region".to_owned(), Value::from(names::region(plan)));
    shape.insert("source".to_owned(), Value::from(archive::source_digest(plan)));
    // Engine `worker` reads it from its config: it does not stand in the request.
    shape.insert("mesh".to_owned(), worker::shape(plan));
    // A job of this name in another account is the same job: the account is no part of its shape.
    let mut text = canonical::compact(&Value::Object(shape));
    for (filled, written) in &plan.known.filled {
        text = text.replace(filled, written);
    }
    if let Some(account) = plan.account() {
        text = text.replace(
            &format!("sagemaker-{}-{account}", names::region(plan)),
            &format!("sagemaker-{}-{}", names::region(plan), names::ACCOUNT),
        );
    }
    let digest = sha256_hex(text.as_bytes());
    Identity::of(plan, &digest)
}

/// Named things have no order: a job whose channels were written the other way round is the same job.
pub fn sort_named(request: &mut Value) {
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

/// The request of a plan under its own name, with the digest in its texts.
pub fn training_job(plan: &Plan, identity: &Identity) -> Value {
    let mut request = sagemaker::request(plan, &identity.training_job, &identity.digest);
    replace_mark(&mut request, &identity.digest);
    request
}

fn replace_mark(value: &mut Value, digest: &str) {
    match value {
        Value::String(text) => {
            if text.contains(DIGEST_MARK) {
                *text = text.replace(DIGEST_MARK, digest);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_mark(item, digest)),
        Value::Object(members) => members.values_mut().for_each(|item| replace_mark(item, digest)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The name of a deliberate further run of the same digest: `<job>-<digest8>-r2`. The first run has no number.
pub fn run_name(plan: &Plan, digest: &str, run: u32) -> String {
    if run <= 1 { names::training_job(plan, digest) } else { names::repeated_job(plan, digest, run) }
}

/// The name of the role that trainc makes for the job: the same whatever the manifest says of its role.
pub fn role_name(plan: &Plan) -> String {
    names::role(plan)
}

/// What all runs of the job have at the start of their names, whatever their digest.
pub fn run_stem(plan: &Plan) -> String {
    names::training_job_pattern(plan).trim_end_matches(['*', '-']).to_owned()
}

/// What stands for the ARN of a role that trainc makes.
pub const ROLE_ARN_MARK: &str = names::ROLE_ARN;

/// What stands for the id and for the mount name of a file system that trainc makes.
pub fn storage_marks(name: &str) -> (String, String) {
    (format!("${{fsx.{name}.id}}"), format!("${{fsx.{name}.mount}}"))
}

/// Whether a member of a request, `/InputDataConfig/0/…/FileSystemId` or the same with dots, waits for what only an
/// account knows.
pub fn stands_open(path: &str, value: &str) -> bool {
    names::stands_open(path, value)
}

/// Where the source archive of this plan lies, where trainc packs one.
pub fn archive_uri(plan: &Plan) -> Option<String> {
    (plan.deployable && names::has_archive(plan))
        .then(|| format!("{}/sourcedir.tar.gz", names::source_prefix(plan)))
}

/// The bucket of trainc's own uploads where none is named: the SageMaker SDK's default.
pub fn default_bucket(plan: &Plan) -> String {
    names::default_bucket(plan)
}

/// The names of all runs of all versions of the job, as policies say it: `<job>-*`.
pub fn job_pattern(plan: &Plan) -> String {
    names::training_job_pattern(plan)
}

/// Where the source archives of all versions of the job lie.
pub fn archive_home(plan: &Plan) -> String {
    names::source_home(plan)
}

/// Everything that a plan becomes, but for the plan's own reports.
pub fn emit(plan: &Plan) -> Bundle {
    let identity = identity(plan);
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let training_job = plan.deployable.then(|| training_job(plan, &identity));
    if let Some(request) = &training_job {
        files.push(("sagemaker/training-job.json".to_owned(), canonical::pretty(request).into_bytes()));
        if let Some(script) = estimator::script(plan, &identity, request) {
            files.push(("sagemaker/estimator.py".to_owned(), script.into_bytes()));
        }
    }
    files.extend(iam::files(plan, &identity.digest));
    files.extend(fsx::files(plan, &identity.digest));
    files.extend(worker::files(plan, &identity.digest));
    // Where no archive is packed the program's files go nowhere.
    for file in archive::files(plan).iter().filter(|_| names::has_archive(plan)) {
        files.push((format!("source/{}", file.path), file.bytes.to_vec()));
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    Bundle { identity, training_job, files }
}
