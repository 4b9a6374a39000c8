//! A training job as SageMaker describes it.

use serde::{Deserialize, Serialize};

/// One state that a job has been in (SecondaryStatusTransitions).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// SageMaker's own word, as `Downloading`.
    pub status: String,
    /// Seconds since 1970.
    pub start: f64,
    /// Seconds since 1970; none while it lasts.
    pub end: Option<f64>,
    /// SageMaker's own words.
    pub message: String,
}

/// A training job (DescribeTrainingJob).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingJob {
    /// Its name.
    pub name: String,
    /// Its ARN.
    pub arn: String,
    /// `InProgress`, `Completed`, `Failed`, `Stopping`, `Stopped`, `Deleting`.
    pub status: String,
    /// `Starting`, `Downloading`, `Training`, …
    pub secondary: String,
    /// All states so far, oldest first.
    pub transitions: Vec<Transition>,
    /// Why it failed.
    pub failure: Option<String>,
    /// When it was asked for, seconds since 1970.
    pub created: f64,
    /// When it began on its instances, seconds since 1970: from then on it is billed, the download of its data included
    /// (DescribeTrainingJob, TrainingStartTime).
    pub started: Option<f64>,
    /// When it left its instances, seconds since 1970: billed until then (DescribeTrainingJob, TrainingEndTime).
    pub ended: Option<f64>,
    /// Seconds that are billed for each instance, known at the end.
    pub billable_seconds: Option<u64>,
    /// Seconds of training, known at the end.
    pub training_seconds: Option<u64>,
    /// Where the model lies, known at the end.
    pub model_artifacts: Option<String>,
    /// The members of the request as the service gives them back, by the API's own names.
    pub request: serde_json::Value,
}

impl TrainingJob {
    /// Whether it has ended, one way or the other.
    pub fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "Completed" | "Failed" | "Stopped")
    }

    /// Returns true if the job failed because AWS had no instances for it, or because a quota of the account was full.
    pub fn lacked_capacity(&self) -> bool {
        let signs = ["CapacityError", "Unable to provision requested ML compute", "ResourceLimitExceeded"];
        self.status == "Failed"
            && self.failure.as_deref().is_some_and(|reason| signs.iter().any(|sign| reason.contains(sign)))
    }

    /// When its program began, seconds since 1970: later than `started`, by what its data and its image take.
    pub fn program_started(&self) -> Option<f64> {
        let training = self.transitions.iter().find(|one| one.status == "Training");
        training.map(|one| one.start).or(self.started)
    }

    /// Instances of all groups.
    pub fn instance_count(&self) -> u64 {
        let resources = self.request.get("ResourceConfig");
        let count =
            |value: &serde_json::Value| value.get("InstanceCount").and_then(serde_json::Value::as_u64);
        let groups =
            resources.and_then(|value| value.get("InstanceGroups")).and_then(|value| value.as_array());
        match groups.filter(|groups| !groups.is_empty()) {
            Some(groups) => groups.iter().filter_map(count).sum(),
            None => resources.and_then(count).unwrap_or(0),
        }
    }

    /// The instance type, where there is one.
    pub fn instance_type(&self) -> Option<&str> {
        self.request.pointer("/ResourceConfig/InstanceType").and_then(serde_json::Value::as_str)
    }

    /// Whether it runs on spot capacity.
    pub fn is_spot(&self) -> bool {
        self.request.get("EnableManagedSpotTraining").and_then(serde_json::Value::as_bool) == Some(true)
    }
}
