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
    /// Start on its instances, seconds since 1970: it is billed from then on, including the download of its
    /// data (DescribeTrainingJob, TrainingStartTime).
    pub started: Option<f64>,
    /// End on its instances, seconds since 1970: it is billed until then (DescribeTrainingJob,
    /// TrainingEndTime).
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

    /// Returns the start of its program, seconds since 1970: later than `started` by the download of data and
    /// image.
    pub fn program_started(&self) -> Option<f64> {
        let training = self.transitions.iter().find(|one| one.status == "Training");
        training.map(|one| one.start).or(self.started)
    }

    /// Returns the number of instances, over all groups; of several preferred types that of the chosen one.
    pub fn instance_count(&self) -> u64 {
        let Some(resources) = self.request.get("ResourceConfig") else { return 0 };
        let number =
            |value: &serde_json::Value, name: &str| value.get(name).and_then(serde_json::Value::as_u64);
        let count = |value: &serde_json::Value| number(value, "InstanceCount");
        let list = |name: &str| resources.get(name).and_then(serde_json::Value::as_array);
        if let Some(groups) = list("InstanceGroups").filter(|groups| !groups.is_empty()) {
            return groups.iter().filter_map(count).sum();
        }
        let preferred = || {
            let chosen = self.instance_type()?;
            let mut each = list("InstancePreferences")?.iter();
            count(
                each.find(|one| one.get("InstanceType").and_then(serde_json::Value::as_str) == Some(chosen))?,
            )
        };
        let selected = number(resources, "SelectedInstanceCount");
        selected.or_else(|| count(resources)).or_else(preferred).unwrap_or(0)
    }

    /// Returns the instance type, if the request has one outside of groups. Of several preferred types it is
    /// the one that the service chose, which is unknown until then (DescribeTrainingJob,
    /// `ResourceConfig.SelectedInstanceType`).
    pub fn instance_type(&self) -> Option<&str> {
        self.chosen_type().or_else(|| self.request.pointer("/ResourceConfig/InstanceType")?.as_str())
    }

    /// Returns the instance type that the service chose of several preferred ones; `None` until then.
    pub fn chosen_type(&self) -> Option<&str> {
        self.request.pointer("/ResourceConfig/SelectedInstanceType")?.as_str()
    }

    /// Returns whether it runs on spot capacity.
    pub fn is_spot(&self) -> bool {
        self.request.get("EnableManagedSpotTraining").and_then(serde_json::Value::as_bool) == Some(true)
    }
}
