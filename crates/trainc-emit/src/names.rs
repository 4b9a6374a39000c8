//! Names of a job's resources: deterministic, and within the limits of AWS.

use trainc_ir::Plan;
use trainc_ir::digest::sha256_hex;
use trainc_ir::plan::DIGEST_MARK;

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
    let given = plan.job.role.as_ref().and_then(|role| role.arn.text());
    given.or(plan.account_facts.role_arn.as_deref()).unwrap_or(ROLE_ARN).to_owned()
}

/// Returns `trainc-<job>-<8 hex>`. The digest includes the region, since IAM is global and jobs are regional,
/// but not the account, since role names are per account.
pub(super) fn role(plan: &Plan) -> String {
    let identity = sha256_hex(format!("role\n{}\n{}", region(plan), job(plan)).as_bytes());
    append_suffix(&format!("trainc-{}", job(plan)), identity.get(..8).unwrap_or(&identity), ROLE_NAME_LIMIT)
}

/// Returns the pattern of the names of all runs, for policies: `<job>-*`. A long name is truncated further
/// than by [`training_job`], so that the pattern also matches a repeated run, `<job>-<digest8>-r2`.
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

/// Returns the default bucket of the SageMaker SDK.
pub(super) fn default_bucket(plan: &Plan) -> String {
    format!("sagemaker-{}-{}", region(plan), account(plan))
}

/// Returns the S3 prefix of the archives of all versions of the source.
pub(super) fn source_base_prefix(plan: &Plan) -> String {
    let upload = plan.job.program.as_ref().and_then(|program| program.upload.text());
    match upload {
        Some(upload) => upload.trim_end_matches('/').to_owned(),
        None => format!("s3://{}/trainc/{}/source", default_bucket(plan), job(plan)),
    }
}

/// Returns the S3 prefix of the worker's files; below it each job has a prefix with its digest.
pub(super) fn worker_base_prefix(plan: &Plan) -> String {
    format!("s3://{}/trainc/{}/worker", default_bucket(plan), job(plan))
}

/// Returns the S3 prefix of the worker's files of this job.
pub(super) fn worker_prefix(plan: &Plan) -> String {
    format!("{}/{DIGEST_MARK}/", worker_base_prefix(plan))
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

/// Returns whether a member of a request is an unresolved placeholder. The path decides, since texts of the
/// user may look the same.
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
