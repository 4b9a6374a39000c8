//! SageMaker: training jobs.

use super::errors::fault;
use super::raw_body::{RequestBody, ResponseBody};
use aws_sdk_sagemaker::Client;
use aws_sdk_sagemaker::operation::list_training_jobs::builders::ListTrainingJobsFluentBuilder;
use aws_sdk_sagemaker::types::{SortBy, SortOrder, Tag, TrainingJobStatus};
use serde_json::{Map, Value};
use trainc_apply::account::{JobSummary, Tags, TrainingJob, Transition};
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;

/// The members of CreateTrainingJob (botocore 1.44.5) that DescribeTrainingJob returns; it does not return
/// tags.
const REQUEST: &[&str] = &[
    "AlgorithmSpecification",
    "CheckpointConfig",
    "DebugHookConfig",
    "DebugRuleConfigurations",
    "EnableInterContainerTrafficEncryption",
    "EnableManagedSpotTraining",
    "EnableNetworkIsolation",
    "Environment",
    "ExperimentConfig",
    "HyperParameters",
    "InfraCheckConfig",
    "InputDataConfig",
    "MlflowConfig",
    "ModelPackageConfig",
    "OutputDataConfig",
    "ProfilerConfig",
    "ProfilerRuleConfigurations",
    "RemoteDebugConfig",
    "ResourceConfig",
    "RetryStrategy",
    "RoleArn",
    "ServerlessJobConfig",
    "SessionChainingConfig",
    "StoppingCondition",
    "TensorBoardOutputConfig",
    "TrainingJobName",
    "VpcConfig",
];

pub(super) async fn training_job(client: &Client, name: &str) -> Answer<TrainingJob> {
    let kept = ResponseBody::default();
    let asked = client.describe_training_job().training_job_name(name).customize().interceptor(kept.clone());
    asked.send().await.map_err(|error| fault(Call::DescribeTrainingJob, &error))?;
    Ok(job_of(&kept.json()))
}

/// Reads the raw response, so that members of the request can be compared by their names in the API.
fn job_of(answer: &Value) -> TrainingJob {
    let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let some = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
    let moment = |name: &str| answer.get(name).and_then(Value::as_f64);
    let seconds = |name: &str| answer.get(name).and_then(Value::as_u64);
    let transitions = answer.get("SecondaryStatusTransitions").and_then(Value::as_array);
    let request: Map<String, Value> = REQUEST
        .iter()
        .filter_map(|name| answer.get(*name).map(|value| ((*name).to_owned(), value.clone())))
        .filter(|(_, value)| !value.is_null())
        .collect();
    TrainingJob {
        name: text("TrainingJobName"),
        arn: text("TrainingJobArn"),
        status: text("TrainingJobStatus"),
        secondary: text("SecondaryStatus"),
        transitions: transitions.map(|all| all.iter().map(transition_of).collect()).unwrap_or_default(),
        failure: some("FailureReason"),
        created: moment("CreationTime").unwrap_or_default(),
        started: moment("TrainingStartTime"),
        ended: moment("TrainingEndTime"),
        billable_seconds: seconds("BillableTimeInSeconds"),
        training_seconds: seconds("TrainingTimeInSeconds"),
        model_artifacts: answer
            .pointer("/ModelArtifacts/S3ModelArtifacts")
            .and_then(Value::as_str)
            .map(str::to_owned),
        request: Value::Object(request),
    }
}

fn transition_of(value: &Value) -> Transition {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Transition {
        status: text("Status"),
        start: value.get("StartTime").and_then(Value::as_f64).unwrap_or_default(),
        end: value.get("EndTime").and_then(Value::as_f64),
        message: text("StatusMessage"),
    }
}

pub(super) async fn training_jobs(client: &Client, name_contains: &str) -> Answer<Vec<JobSummary>> {
    summaries(client.list_training_jobs().name_contains(name_contains)).await
}

pub(super) async fn running_jobs(client: &Client, stopping: bool) -> Answer<Vec<JobSummary>> {
    let with = |status| summaries(client.list_training_jobs().status_equals(status));
    let mut out = with(TrainingJobStatus::InProgress).await?;
    if !stopping {
        return Ok(out);
    }
    // Listed after those in progress, so that a job that is stopped in between is in at least one list.
    let stopping = with(TrainingJobStatus::Stopping).await?;
    out.extend(
        stopping.into_iter().filter(|one| out.iter().all(|known| known.name != one.name)).collect::<Vec<_>>(),
    );
    Ok(out)
}

/// Reads all pages: the service filters after paging, so an empty page need not be the last.
async fn summaries(asked: ListTrainingJobsFluentBuilder) -> Answer<Vec<JobSummary>> {
    let call = Call::ListTrainingJobs;
    let asked = asked.sort_by(SortBy::CreationTime).sort_order(SortOrder::Descending).max_results(100);
    let pages = asked.into_paginator().items().send();
    let found = pages.collect::<Result<Vec<_>, _>>().await.map_err(|error| fault(call, &error))?;
    Ok(found
        .iter()
        .map(|job| JobSummary {
            name: job.training_job_name().unwrap_or_default().to_owned(),
            arn: job.training_job_arn().unwrap_or_default().to_owned(),
            status: job.training_job_status().map_or_else(String::new, |status| status.as_str().to_owned()),
            created: job.creation_time().map_or(0.0, aws_smithy_types::DateTime::as_secs_f64),
        })
        .collect())
}

pub(super) async fn job_tags(client: &Client, arn: &str) -> Answer<Tags> {
    let pages = client.list_tags().resource_arn(arn).into_paginator().items().send();
    let found = pages.collect::<Result<Vec<_>, _>>().await.map_err(|error| fault(Call::ListTags, &error))?;
    Ok(found.into_iter().map(|tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default())).collect())
}

/// Sends the request unchanged: the bytes of `sagemaker/training-job.json` with its placeholders replaced.
pub(super) async fn create_training_job(client: &Client, request: &Value) -> Answer<()> {
    let asked = client
        .create_training_job()
        .training_job_name(request.get("TrainingJobName").and_then(Value::as_str).unwrap_or_default());
    let sent = asked.customize().interceptor(RequestBody::from_json(request)).send().await;
    sent.map_err(|error| fault(Call::CreateTrainingJob, &error))?;
    Ok(())
}

pub(super) async fn tag_job(client: &Client, arn: &str, tags: &Tags) -> Answer<()> {
    let mut asked = client.add_tags().resource_arn(arn);
    for (key, value) in tags {
        asked = asked.tags(Tag::builder().key(key).value(value).build());
    }
    asked.send().await.map_err(|error| fault(Call::AddTags, &error))?;
    Ok(())
}

pub(super) async fn stop_training_job(client: &Client, name: &str) -> Answer<()> {
    let asked = client.stop_training_job().training_job_name(name);
    asked.send().await.map_err(|error| fault(Call::StopTrainingJob, &error))?;
    Ok(())
}
