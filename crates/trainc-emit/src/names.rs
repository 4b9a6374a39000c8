//! Names of a job's resources: deterministic, and within the limits of AWS.

use trainc_ir::Plan;
use trainc_ir::digest::sha256_hex;

/// The placeholder for the account.
pub(super) const ACCOUNT: &str = trainc_ir::ACCOUNT_MARK;
/// The placeholder for the ARN of a role that trainc creates.
pub(super) const ROLE_ARN: &str = "${role_arn}";

/// The longest training job name (CreateTrainingJob, TrainingJobName).
const JOB_NAME_LIMIT: usize = 63;
/// The longest role name (CreateRole, RoleName).
const ROLE_NAME_LIMIT: usize = 64;

/// Returns `<job>-<first 8 of the digest>`, with the job's name truncated to fit.
pub(super) fn training_job(plan: &Plan, digest: &str) -> String {
    append_suffix(job(plan), digest.get(..8).unwrap_or(digest), JOB_NAME_LIMIT)
}

/// Returns `<job>-<first 8 of the digest>-r<run>`, truncated likewise.
pub(super) fn repeated_job(plan: &Plan, digest: &str, run: u32) -> String {
    append_suffix(job(plan), &format!("{}-r{run}", digest.get(..8).unwrap_or(digest)), JOB_NAME_LIMIT)
}

fn append_suffix(name: &str, suffix: &str, limit: usize) -> String {
    let room = limit.saturating_sub(suffix.len() + 1);
    let cut: String = name.chars().take(room).collect();
    format!("{}-{suffix}", cut.trim_end_matches('-'))
}

fn job(plan: &Plan) -> &str {
    plan.job.name.value().map_or("", String::as_str)
}

pub(super) fn region(plan: &Plan) -> &str {
    plan.job.region.value().map_or("", String::as_str)
}

pub(super) fn partition(plan: &Plan) -> &str {
    plan.region.as_ref().map_or("aws", |region| region.partition.as_str())
}

/// Returns the account, or its placeholder.
pub(super) fn account(plan: &Plan) -> &str {
    plan.account().unwrap_or(ACCOUNT)
}

/// Returns the ARN of the job's role, or its placeholder.
pub(super) fn role_arn(plan: &Plan) -> String {
    let given = plan.job.role.as_ref().and_then(|role| role.arn.value());
    given.or(plan.account_facts.role_arn.as_ref()).map_or(ROLE_ARN, String::as_str).to_owned()
}

/// Returns `trainc-<job>-<8 hex>`. The digest includes the region, since IAM is global and jobs are regional, but not the
/// account, since role names are per account.
pub(super) fn role(plan: &Plan) -> String {
    let identity = sha256_hex(format!("role\n{}\n{}", region(plan), job(plan)).as_bytes());
    append_suffix(&format!("trainc-{}", job(plan)), identity.get(..8).unwrap_or(&identity), ROLE_NAME_LIMIT)
}

/// Returns the pattern of the names of all runs, for policies: `<job>-*`. A long name is truncated further than by
/// [`training_job`], so that the pattern also matches a repeated run, `<job>-<digest8>-r2`.
pub(super) fn training_job_pattern(plan: &Plan) -> String {
    /// A hyphen, eight digits of the digest, and room for `-r999`.
    const SUFFIX: usize = 1 + 8 + 5;
    let room = JOB_NAME_LIMIT - SUFFIX;
    let job = job(plan);
    if job.chars().count() <= room {
        return format!("{job}-*");
    }
    let cut: String = job.chars().take(room).collect();
    format!("{}*", cut.trim_end_matches('-'))
}

/// Returns whether trainc packs a source archive: not if it is in S3 already, for a container with its own entry point, or
/// for a program without code, which only has hyperparameters and variables for the image's own program.
pub(super) fn has_archive(plan: &Plan) -> bool {
    plan.job.program.as_ref().is_some_and(|program| {
        let has_code = !(program.entry.is_absent() && program.source.is_absent() && program.git.is_absent());
        has_code && program.entrypoint.is_empty() && program.s3.value().is_none()
    })
}

/// Returns the default bucket of the SageMaker SDK.
pub(super) fn default_bucket(plan: &Plan) -> String {
    format!("sagemaker-{}-{}", region(plan), account(plan))
}

/// Returns the value of `sagemaker_program`.
pub(super) fn sagemaker_program(plan: &Plan) -> String {
    let Some(program) = &plan.job.program else { return String::new() };
    let entry = program.entry.value().cloned().unwrap_or_default();
    let is_direct = program.secrets.is_empty() && !super::start::is_started(plan);
    if is_direct { entry } else { super::archive::SECRETS_SHIM.to_owned() }
}

/// Returns whether the program is a script that the training toolkit of the image starts, instead of an entry point of the
/// image or the job.
pub(super) fn is_script(plan: &Plan) -> bool {
    plan.job
        .program
        .as_ref()
        .is_some_and(|program| program.entrypoint.is_empty() && !program.entry.is_absent())
        && !super::launch_script::is_used(plan)
}

/// Returns whether the code is in a channel: a container with network isolation cannot download it, and one without the
/// toolkit does not.
pub(super) fn code_in_channel(plan: &Plan) -> bool {
    code_channel_name(plan).is_some()
}

/// Returns the name of the channel with the code, if there is one. The toolkit requires `code`.
pub(super) fn code_channel_name(plan: &Plan) -> Option<String> {
    if super::launch_script::is_used(plan) {
        return Some(super::launch_script::channel_name(plan));
    }
    let isolated = plan.job.network.as_ref().and_then(|network| network.isolation.get()) == Some(true);
    (isolated && is_script(plan) && !plan.is_worker()).then(|| "code".to_owned())
}

/// The number of digits of the source digest in its S3 prefix.
pub(super) const SOURCE_DIGITS: usize = 16;

/// Returns the S3 prefix of the source archive, which ends with the digest of its content.
pub(super) fn source_prefix(plan: &Plan) -> String {
    let digest = super::archive::source_digest(plan);
    format!("{}/{}", source_base_prefix(plan), digest.get(..SOURCE_DIGITS).unwrap_or(&digest))
}

/// Returns the S3 prefix of the archives of all versions of the source.
pub(super) fn source_base_prefix(plan: &Plan) -> String {
    let upload = plan.job.program.as_ref().and_then(|program| program.upload.value());
    match upload {
        Some(upload) => upload.trim_end_matches('/').to_owned(),
        None => format!("s3://{}/trainc/{}/source", default_bucket(plan), job(plan)),
    }
}

/// Returns the S3 URI of the code channel: the archive, or a prefix that contains only the archive.
pub(super) fn code_channel(plan: &Plan) -> String {
    let s3 = plan.job.program.as_ref().and_then(|program| program.s3.value());
    s3.cloned().unwrap_or_else(|| source_prefix(plan))
}

/// Returns the location of the archive for the toolkit.
pub(super) fn submit_directory(plan: &Plan) -> String {
    if code_in_channel(plan) {
        return "/opt/ml/input/data/code/sourcedir.tar.gz".to_owned();
    }
    if let Some(s3) = plan.job.program.as_ref().and_then(|program| program.s3.value()) {
        return s3.clone();
    }
    format!("{}/sourcedir.tar.gz", source_prefix(plan))
}

/// Returns the ID of a file system that trainc creates, or its placeholder.
pub(super) fn storage_id(plan: &Plan, name: &str) -> String {
    let known = plan.account_facts.file_systems.get(name).map(|(id, _)| id.clone());
    known.unwrap_or_else(|| format!("${{fsx.{name}.id}}"))
}

/// Returns the mount name of a file system that trainc creates, or its placeholder.
pub(super) fn storage_mount(plan: &Plan, name: &str) -> String {
    let known = plan.account_facts.file_systems.get(name).and_then(|(_, mount)| mount.clone());
    known.unwrap_or_else(|| format!("${{fsx.{name}.mount}}"))
}

/// Returns whether a member of a request is an unresolved placeholder. The path decides, since texts of the user may look the
/// same.
pub(super) fn is_unresolved(path: &str, value: &str) -> bool {
    let last = path.rsplit(['/', '.']).next().unwrap_or(path);
    match last {
        "RoleArn" if value == ROLE_ARN => true,
        "RoleArn" | "TrainingPlanArn" | "DatasetArn" | "HubContentArn" | "KmsKeyId" | "VolumeKmsKeyId" => {
            value.split(':').nth(4) == Some(ACCOUNT)
        }
        "FileSystemId" => value.starts_with("${fsx."),
        "DirectoryPath" => value.starts_with("/${fsx."),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_truncated_before_the_digest() {
        let long = "a".repeat(80);
        let name = append_suffix(&long, "12345678", JOB_NAME_LIMIT);
        assert_eq!(name.len(), 63);
        assert!(name.ends_with("a-12345678"));
        // A hyphen at the truncation is dropped, to avoid two in a row.
        assert_eq!(
            append_suffix(&format!("{}-b", "a".repeat(53)), "12345678", JOB_NAME_LIMIT),
            format!("{}-12345678", "a".repeat(53))
        );
    }
}
