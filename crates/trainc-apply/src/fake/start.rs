//! CreateTrainingJob in the simulated account, with the checks of the service.

use super::job::Outcome;
use super::state::{Account, JobState};
use crate::account::{Tags, TrainingJob};
use crate::calls::Call;
use crate::cloud::Answer;
use crate::fault::Fault;
use serde_json::Value;

fn refused(call: Call, code: &str, text: &str) -> Fault {
    Fault::from_answer(call, Some(400), code, text)
}

fn text(request: &Value, path: &str) -> String {
    request.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Starts a job, or returns the service's error.
pub(super) fn start(account: &mut Account, request: &Value, name: &str, now: f64) -> Answer<()> {
    let call = Call::CreateTrainingJob;
    if account.jobs.contains_key(name) {
        let text = format!(
            "Training job names must be unique within an AWS account and region, and a training \
                job with this name already exists ({name})"
        );
        return Err(refused(call, "ResourceInUse", &text));
    }
    let arn = text(request, "/RoleArn");
    let role = account.roles.values().find(|state| state.role.arn == arn);
    let made = arn.contains(":role/trainc/");
    let unready = match role {
        Some(state) => now - state.written < account.assume_seconds,
        None => made || !account.furnished,
    };
    if unready {
        let text = format!(
            "Could not assume role {arn}. Please ensure that the role exists and allows \
                principal 'sagemaker.amazonaws.com' to assume the role."
        );
        return Err(refused(call, "ValidationException", &text));
    }
    if role.is_some_and(|state| state.policies.is_empty()) {
        return Err(refused(call, "ValidationException", "Access denied to OutputDataConfig S3 bucket"));
    }
    check_mounts(account, request)?;
    let job = TrainingJob {
        name: name.to_owned(),
        arn: format!("arn:aws:sagemaker:{}:{}:training-job/{name}", account.region, account.account),
        created: now,
        request: request.clone(),
        ..TrainingJob::default()
    };
    let chosen = choose_type(account, &job)?;
    let list = request.get("Tags").and_then(Value::as_array).cloned().unwrap_or_default();
    let tags: Tags = list.iter().map(|tag| (text(tag, "/Key"), text(tag, "/Value"))).collect();
    let is_scarce = chosen.is_none() && has_preferences(&job);
    let outcome = if is_scarce {
        Outcome::NoCapacity
    } else if account.without_capacity > 0 {
        account.without_capacity -= 1;
        Outcome::NoCapacity
    } else {
        account.outcome
    };
    let mut state =
        JobState { job, tags, steps: account.steps, pace: account.pace, outcome, stopped: None, chosen };
    super::job::advance_job(&mut state, now);
    account.jobs.insert(name.to_owned(), state);
    Ok(())
}

/// Checks that every file system exists with the mount name in the request.
fn check_mounts(account: &Account, request: &Value) -> Answer<()> {
    let channels = request.get("InputDataConfig").and_then(Value::as_array).cloned().unwrap_or_default();
    for channel in &channels {
        let Some(source) = channel.pointer("/DataSource/FileSystemDataSource") else { continue };
        let (id, path) = (text(source, "/FileSystemId"), text(source, "/DirectoryPath"));
        let Some(state) = account.file_systems.get(&id) else { continue };
        let mount = state.system.mount.clone().unwrap_or_default();
        let right = path.trim_start_matches('/').split('/').next() == Some(mount.as_str());
        if state.system.lifecycle == "CREATING" || !right {
            let message = format!("File system {id} is not available at {path}");
            return Err(refused(Call::CreateTrainingJob, "ValidationException", &message));
        }
    }
    if has_placeholder(request) {
        return Err(refused(
            Call::CreateTrainingJob,
            "ValidationException",
            "1 validation error detected: ${",
        ));
    }
    Ok(())
}

/// Returns true if the request contains an unresolved placeholder.
fn has_placeholder(request: &Value) -> bool {
    let channels = request.get("InputDataConfig").and_then(Value::as_array).into_iter().flatten();
    let mut places = vec![("RoleArn", text(request, "/RoleArn"))];
    for channel in channels {
        for member in ["FileSystemId", "DirectoryPath"] {
            places.push((member, text(channel, &format!("/DataSource/FileSystemDataSource/{member}"))));
        }
    }
    places.iter().any(|(member, value)| trainc_emit::is_unresolved(member, value))
}

const PREFERENCES: &str = "/ResourceConfig/InstancePreferences";

fn has_preferences(job: &TrainingJob) -> bool {
    job.request.pointer(PREFERENCES).is_some()
}

/// Returns the first preferred instance type with capacity and quota; `None` if there is none, or without
/// preferences. If no type has enough quota, the first refuses the job.
fn choose_type(account: &Account, job: &TrainingJob) -> Answer<Option<String>> {
    let preferences = job.request.pointer(PREFERENCES).and_then(Value::as_array).cloned();
    let Some(preferences) = preferences else { return check_quota(account, job, None).map(|()| None) };
    let names: Vec<String> = preferences.iter().map(|one| text(one, "/InstanceType")).collect();
    let fits: Vec<&String> =
        names.iter().filter(|name| check_quota(account, job, Some(name.as_str())).is_ok()).collect();
    match names.first() {
        Some(first) if fits.is_empty() => check_quota(account, job, Some(first.as_str())).map(|()| None),
        _ => Ok(fits.into_iter().find(|name| !account.unavailable.contains(*name)).cloned()),
    }
}

/// Checks the quota of the job's instance type, or of one of its preferred types.
fn check_quota(account: &Account, job: &TrainingJob, preferred: Option<&str>) -> Answer<()> {
    use trainc_catalog::quotas::{Usage, instance};
    let Some(kind) = preferred.or(job.instance_type()) else { return Ok(()) };
    let usage = if job.is_spot() { Usage::Spot } else { Usage::OnDemand };
    let Some(quota) = instance(kind, usage) else { return Ok(()) };
    let Some(limit) = quota.code.as_ref().and_then(|code| account.quotas.get(code)) else { return Ok(()) };
    let used: u64 = account
        .jobs
        .values()
        .filter(|other| !other.job.is_over() && other.job.instance_type() == Some(kind))
        .map(|other| other.job.instance_count())
        .sum();
    if (used + job.instance_count()) as f64 > *limit {
        let text = format!(
            "The account-level service limit '{}' is {limit} Instances, with current utilization \
                of {used} Instances and a request delta of {} Instances. Please use AWS Service Quotas to \
                request an increase for this quota.",
            quota.name,
            job.instance_count()
        );
        return Err(refused(Call::CreateTrainingJob, "ResourceLimitExceeded", &text));
    }
    Ok(())
}
