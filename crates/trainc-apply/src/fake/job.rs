//! A simulated training job: its states over time, and its outcome.

use super::pace::{fails_after, max_run_seconds, training_seconds};
use super::state::JobState;
use crate::account::Transition;
use serde::{Deserialize, Serialize};

/// Outcome of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It completes.
    #[default]
    Completes,
    /// A GPU runs out of memory on one host.
    OutOfMemory,
    /// A collective operation times out.
    Nccl,
    /// The volume is full.
    Disk,
    /// The program raises an exception.
    UserCode,
    /// The role lacks permission to read the data.
    Permission,
    /// The image cannot be pulled.
    Image,
    /// AWS has no capacity.
    NoCapacity,
}

/// Duration of each state of a simulated job, in seconds.
const STARTING: f64 = 120.0;
const DOWNLOADING: f64 = 180.0;
const UPLOADING: f64 = 40.0;
/// Seconds from SIGTERM to the end; the service allows two minutes (developer guide, "How Amazon SageMaker
/// stops training").
const STOPPING: f64 = 30.0;

impl Outcome {
    /// Returns the state in which the job fails, the seconds since its start, and the service's message. A
    /// program fails after `after` seconds of training.
    fn failure(self, after: f64) -> Option<(&'static str, f64, &'static str)> {
        let training = STARTING + DOWNLOADING + after;
        let script = "AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage \"\"";
        Some(match self {
            Self::Completes => return None,
            Self::OutOfMemory | Self::Nccl | Self::Disk | Self::UserCode => ("Training", training, script),
            Self::Permission => (
                "Downloading",
                STARTING + 20.0,
                "ClientError: Data download failed: AccessDenied (403): Access Denied when \
                    calling S3 GetObject",
            ),
            Self::Image => (
                "Downloading",
                STARTING + 20.0,
                "ClientError: Cannot pull the training image: manifest for the image was not found",
            ),
            Self::NoCapacity => (
                "Starting",
                60.0,
                "CapacityError: Unable to provision requested ML compute capacity. Please retry \
                    using a different ML instance type.",
            ),
        })
    }
}

/// Updates a job to its state at a time.
pub(super) fn advance_job(state: &mut JobState, now: f64) {
    if state.job.is_over() {
        return;
    }
    let start = state.job.created;
    let failure = state.outcome.failure(fails_after(state));
    let trained = start + STARTING + DOWNLOADING + training_seconds(state);
    let mut marks: Vec<(&str, f64, &str)> = vec![
        ("Starting", start, "Preparing the instances for training"),
        ("Downloading", start + STARTING, "Downloading the training image and the input data"),
        (
            "Training",
            start + STARTING + DOWNLOADING,
            "Training image download completed. Training in progress.",
        ),
        ("Uploading", trained, "Uploading generated training model"),
        ("Completed", trained + UPLOADING, "Training job completed"),
    ];
    if let Some((within, after, words)) = failure {
        let at = marks.iter().position(|(name, ..)| *name == within).map_or(marks.len(), |at| at + 1);
        marks.truncate(at);
        marks.push(("Failed", start + after, words));
    }
    if let Some(stopped) = state.stopped {
        marks.retain(|(_, from, _)| *from <= stopped);
        marks.push(("Stopping", stopped, "Stopping the training job"));
        marks.push(("Stopped", stopped + STOPPING, "Training job stopped"));
    }
    // Billed time counts from the download on.
    let limit = start + STARTING + max_run_seconds(state);
    if marks.last().is_some_and(|(_, end, _)| *end > limit) && state.stopped.is_none_or(|at| at > limit) {
        marks.retain(|(_, from, _)| *from <= limit);
        marks.push(("MaxRuntimeExceeded", limit, "Training job exceeded its maximum runtime"));
    }
    marks.retain(|(_, from, _)| *from <= now);
    let Some((last, since, words)) = marks.last().copied() else { return };
    let ends = marks.iter().skip(1).map(|(_, from, _)| Some(*from)).chain([None]);
    state.job.transitions = marks
        .iter()
        .zip(ends)
        .map(|((name, from, words), end)| Transition {
            status: (*name).to_owned(),
            start: *from,
            end,
            message: (*words).to_owned(),
        })
        .collect();
    last.clone_into(&mut state.job.secondary);
    // Billed from the download on (DescribeTrainingJob, TrainingStartTime).
    let began = marks.iter().find(|(name, ..)| *name == "Downloading").map(|(_, from, _)| *from);
    state.job.started = began;
    if let (Some(_), Some(chosen), Some(resources)) =
        (began, &state.chosen, state.job.request.pointer_mut("/ResourceConfig"))
    {
        resources["SelectedInstanceType"] = chosen.as_str().into();
    }
    let over = matches!(last, "Completed" | "Failed" | "Stopped" | "MaxRuntimeExceeded");
    let status = match last {
        // The service stops the job.
        "MaxRuntimeExceeded" => "Stopped",
        _ if over || last == "Stopping" => last,
        _ => "InProgress",
    };
    status.clone_into(&mut state.job.status);
    if last == "Failed" {
        state.job.failure = Some(words.to_owned());
    }
    if over {
        state.job.ended = Some(since);
        let seconds = began.map_or(0.0, |began| since - began).max(0.0);
        let whole = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
        state.job.training_seconds = Some(whole);
        // Simulated spot instances save two thirds.
        state.job.billable_seconds = Some(if state.job.is_spot() { whole / 3 } else { whole });
        if last == "Completed" {
            let output =
                state.job.request.pointer("/OutputDataConfig/S3OutputPath").and_then(|path| path.as_str());
            state.job.model_artifacts = output
                .map(|path| format!("{}/{}/output/model.tar.gz", path.trim_end_matches('/'), state.job.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Pace;

    /// By hand: two minutes of starting are not billed, and an hour from the download on is.
    #[test]
    fn a_job_stops_at_its_max_run() {
        let pace = Pace { step_seconds: 10.0, tokens_per_second: 1.0, mfu: 0.1 };
        let mut state = JobState { steps: 1_000, pace: Some(pace), ..JobState::default() };
        state.job.request = serde_json::json!({"StoppingCondition": {"MaxRuntimeInSeconds": 3_600}});
        advance_job(&mut state, 3_700.0);
        assert_eq!((state.job.status.as_str(), state.job.ended), ("InProgress", None));
        advance_job(&mut state, 4_000.0);
        assert_eq!((state.job.status.as_str(), state.job.ended), ("Stopped", Some(3_720.0)));
        assert_eq!(state.job.secondary, "MaxRuntimeExceeded");
        assert_eq!(state.job.billable_seconds, Some(3_600));
    }
}
