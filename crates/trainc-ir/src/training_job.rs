//! A training job as SageMaker describes it.

use serde::{Deserialize, Serialize};

/// A state of a job, past or present (SecondaryStatusTransitions).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// The status in SageMaker's spelling, such as `Downloading`.
    pub status: String,
    /// Start, seconds since 1970.
    pub start: f64,
    /// End, seconds since 1970; `None` for the current state.
    pub end: Option<f64>,
    /// SageMaker's message.
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
    /// The failure reason, if it failed.
    pub failure: Option<String>,
    /// Time of creation, seconds since 1970.
    pub created: f64,
    /// Start on its instances, seconds since 1970: it is billed from then on, including the download of its data
    /// (DescribeTrainingJob, TrainingStartTime).
    pub started: Option<f64>,
    /// End on its instances, seconds since 1970: it is billed until then (DescribeTrainingJob, TrainingEndTime).
    pub ended: Option<f64>,
    /// Seconds that are billed for each instance, known at the end.
    pub billable_seconds: Option<u64>,
    /// Seconds of training, known at the end.
    pub training_seconds: Option<u64>,
    /// Location of the model, known at the end.
    pub model_artifacts: Option<String>,
    /// The members of the request as the service returns them, named as in the API.
    pub request: serde_json::Value,
}

impl TrainingJob {
    /// Returns whether it completed, failed or was stopped.
    pub fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "Completed" | "Failed" | "Stopped")
    }

    /// Returns whether the job failed because AWS had no capacity for it, or because it exceeded a quota.
    pub fn lacked_capacity(&self) -> bool {
        let signs = ["CapacityError", "Unable to provision requested ML compute", "ResourceLimitExceeded"];
        self.status == "Failed"
            && self.failure.as_deref().is_some_and(|reason| signs.iter().any(|sign| reason.contains(sign)))
    }

    /// Returns the start of its program, seconds since 1970: later than `started` by the download of data and image.
    pub fn program_started(&self) -> Option<f64> {
        let training = self.transitions.iter().find(|one| one.status == "Training");
        training.map(|one| one.start).or(self.started)
    }

    /// Returns the number of instances, over all groups.
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

    /// Returns the instance type, if the request has one outside of groups.
    pub fn instance_type(&self) -> Option<&str> {
        self.request.pointer("/ResourceConfig/InstanceType").and_then(serde_json::Value::as_str)
    }

    /// Returns whether it runs on spot capacity.
    pub fn is_spot(&self) -> bool {
        self.request.get("EnableManagedSpotTraining").and_then(serde_json::Value::as_bool) == Some(true)
    }
}
