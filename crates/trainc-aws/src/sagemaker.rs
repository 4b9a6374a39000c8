//! SageMaker: training jobs.

use super::client::{Client, List, members};
use super::errors::foreign_answer;
use serde::Deserialize;
use serde_json::{Map, Value, json};
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
    let call = Call::DescribeTrainingJob;
    let answer = client.json(call, &json!({ "TrainingJobName": name })).await?;
    job_of(&answer).ok_or_else(|| foreign_answer(call, 200))
}

/// Reads the response so that members of the request can be compared by their names in the API.
fn job_of(answer: &Value) -> Option<TrainingJob> {
    let some = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
    let moment = |name: &str| answer.get(name).and_then(Value::as_f64);
    let seconds = |name: &str| answer.get(name).and_then(Value::as_u64);
    let transitions = answer.get("SecondaryStatusTransitions").and_then(Value::as_array);
    let request: Map<String, Value> = REQUEST
        .iter()
        .filter_map(|name| answer.get(*name).map(|value| ((*name).to_owned(), value.clone())))
        .filter(|(_, value)| !value.is_null())
        .collect();
    Some(TrainingJob {
        name: some("TrainingJobName")?,
        arn: some("TrainingJobArn")?,
        status: some("TrainingJobStatus")?,
        secondary: some("SecondaryStatus").unwrap_or_default(),
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
    })
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

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SummaryAnswer {
    training_job_name: String,
    training_job_arn: Option<String>,
    training_job_status: Option<String>,
    creation_time: Option<f64>,
}

/// The response to a creation.
#[derive(Debug, Deserialize)]
struct CreatedAnswer {
    /// Required, so that an answer of another sender counts as a lost one.
    #[serde(rename = "TrainingJobArn")]
    _arn: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TagAnswer {
    key: String,
    value: Option<String>,
}

pub(super) async fn training_jobs(client: &Client, name_contains: &str) -> Answer<Vec<JobSummary>> {
    summaries(client, "NameContains", name_contains).await
}

pub(super) async fn running_jobs(client: &Client, stopping: bool) -> Answer<Vec<JobSummary>> {
    let mut out = summaries(client, "StatusEquals", "InProgress").await?;
    if !stopping {
        return Ok(out);
    }
    // Listed after those in progress, so that a job that is stopped in between is in at least one list.
    let stopping = summaries(client, "StatusEquals", "Stopping").await?;
    out.extend(
        stopping.into_iter().filter(|one| out.iter().all(|known| known.name != one.name)).collect::<Vec<_>>(),
    );
    Ok(out)
}

/// Lists jobs with a filter, the newest first.
async fn summaries(client: &Client, filter: &str, value: &str) -> Answer<Vec<JobSummary>> {
    let asked = members([
        ("MaxResults", Some(100.into())),
        ("SortBy", Some("CreationTime".into())),
        ("SortOrder", Some("Descending".into())),
        (filter, Some(value.into())),
    ]);
    let found: Vec<SummaryAnswer> =
        client.json_list(Call::ListTrainingJobs, asked, List::Required("TrainingJobSummaries")).await?;
    Ok(found
        .into_iter()
        .map(|job| JobSummary {
            name: job.training_job_name,
            arn: job.training_job_arn.unwrap_or_default(),
            status: job.training_job_status.unwrap_or_default(),
            created: job.creation_time.unwrap_or_default(),
        })
        .collect())
}

pub(super) async fn job_tags(client: &Client, arn: &str) -> Answer<Tags> {
    let asked = members([("ResourceArn", Some(arn.into()))]);
    let found: Vec<TagAnswer> = client.json_list(Call::ListTags, asked, List::Optional("Tags")).await?;
    Ok(found.into_iter().map(|tag| (tag.key, tag.value.unwrap_or_default())).collect())
}

/// Sends the request unchanged: the bytes of `sagemaker/training-job.json` with its placeholders replaced.
pub(super) async fn create_training_job(client: &Client, request: &Value) -> Answer<()> {
    let _: CreatedAnswer = client.json(Call::CreateTrainingJob, request).await?;
    Ok(())
}

pub(super) async fn tag_job(client: &Client, arn: &str, tags: &Tags) -> Answer<()> {
    let tags: Vec<Value> = tags.iter().map(|(key, value)| json!({ "Key": key, "Value": value })).collect();
    client.tell(Call::AddTags, &json!({ "ResourceArn": arn, "Tags": tags })).await
}

pub(super) async fn stop_training_job(client: &Client, name: &str) -> Answer<()> {
    client.tell(Call::StopTrainingJob, &json!({ "TrainingJobName": name })).await
}
