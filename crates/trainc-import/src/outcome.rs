//! The outcome of a described job: status, time and cost.

use super::kdl::escape_line;
use serde_json::Value;
use trainc_catalog::prices;
use trainc_diag::text;

/// What a response contains in addition to the request.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `Completed`, `Failed`, …
    pub status: String,
    /// The failure reason reported by the service.
    pub reason: Option<String>,
    /// Seconds between start and end.
    pub training_seconds: Option<u64>,
    /// Billed seconds per instance.
    pub billable_seconds: Option<u64>,
    /// Instance types and their counts.
    pub instances: Vec<(String, u64)>,
    /// The region, from the job's ARN.
    pub region: Option<String>,
}

impl Outcome {
    /// Reads a response; `None` if it has no status.
    pub(super) fn from_response(answer: &Value) -> Option<Self> {
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let seconds = |name: &str| answer.get(name).and_then(Value::as_u64);
        let resources = answer.get("ResourceConfig");
        let one = |value: &Value| {
            Some((value.get("InstanceType")?.as_str()?.to_owned(), value.get("InstanceCount")?.as_u64()?))
        };
        let groups =
            resources.and_then(|resources| resources.get("InstanceGroups")).and_then(Value::as_array);
        let instances = match groups {
            Some(groups) if !groups.is_empty() => groups.iter().filter_map(one).collect(),
            _ => resources.and_then(one).into_iter().collect(),
        };
        Some(Self {
            status: text("TrainingJobStatus")?,
            reason: text("FailureReason"),
            training_seconds: seconds("TrainingTimeInSeconds"),
            billable_seconds: seconds("BillableTimeInSeconds"),
            instances,
            region: text("TrainingJobArn").and_then(|arn| arn.split(':').nth(3).map(str::to_owned)),
        })
    }

    /// Returns the on-demand cost of the billed time in US dollars, and the source of the prices.
    ///
    /// The service counts billable time once, whatever the number of instances (DescribeTrainingJob,
    /// BillableTimeInSeconds: "Multiply the billable time by the number of instances").
    pub fn cost(&self) -> Option<(f64, String)> {
        let hours = self.billable_seconds? as f64 / 3_600.0;
        let region = self.region.as_deref()?;
        let mut usd = 0.0;
        let mut source = String::new();
        if self.instances.is_empty() {
            return None;
        }
        for (instance, count) in &self.instances {
            let price = prices::newest(instance, region)?;
            usd += price.usd_per_hour * hours * *count as f64;
            source = format!("the catalogue's price of {}", price.provenance.date);
        }
        Some((usd, source))
    }

    /// Describes the outcome, one fact per line.
    pub fn lines(&self) -> Vec<String> {
        let mut out = Vec::new();
        let took = self
            .training_seconds
            .map_or_else(String::new, |seconds| format!(" after {}", text::duration(seconds)));
        let is_over = matches!(self.status.as_str(), "Completed" | "Failed" | "Stopped");
        let (verb, preposition) = if is_over { ("ended as", " after ") } else { ("is", " for ") };
        out.push(format!(
            "the job {verb} {}{}",
            escape_line(&self.status),
            took.replacen(" after ", preposition, 1)
        ));
        if let Some(reason) = &self.reason {
            // The last line of a traceback names the cause.
            let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
            out.push(format!("failure reason: {}", escape_line(&reason)));
        }
        if let Some(billed) = self.billable_seconds {
            let count: u64 = self.instances.iter().map(|(_, count)| count).sum();
            let on = text::count(count, "instance");
            let saved =
                self.training_seconds.filter(|took| *took > billed).map_or_else(String::new, |took| {
                    format!(
                        ", {:.0} % less than the training time (spot)",
                        100.0 * (1.0 - billed as f64 / took as f64)
                    )
                });
            out.push(match self.cost() {
                Some((usd, source)) => {
                    format!(
                        "billed: {} on {on}{saved}; {} on demand ({source})",
                        text::duration(billed),
                        text::dollars(usd)
                    )
                }
                None => format!(
                    "billed: {} on {on}{saved}; the catalogue has no price for it",
                    text::duration(billed)
                ),
            });
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The service puts the cause below the first line, e.g. `AlgorithmError: ExecuteUserScriptError:`.
    #[test]
    fn a_reason_is_shown_whole() {
        let answer = serde_json::json!({
            "TrainingJobStatus": "Failed",
            "FailureReason": "AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage \"CUDA out \
                of memory\"",
        });
        let lines = Outcome::from_response(&answer).unwrap().lines();
        let reason = "failure reason: AlgorithmError: ExecuteUserScriptError: ExitCode 1 ErrorMessage \"CUDA \
            out of memory\"";
        assert!(lines.iter().any(|line| line == reason), "{lines:?}");
    }

    #[test]
    fn a_finished_job_has_a_price() {
        let answer = serde_json::json!({
            "TrainingJobArn": "arn:aws:sagemaker:us-west-2:111122223333:training-job/x",
            "TrainingJobStatus": "Completed",
            "TrainingTimeInSeconds": 7200, "BillableTimeInSeconds": 3600,
            "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2},
        });
        let outcome = Outcome::from_response(&answer).unwrap();
        let price = prices::newest("ml.p4d.24xlarge", "us-west-2").unwrap().usd_per_hour;
        assert!((outcome.cost().unwrap().0 - 2.0 * price).abs() < 1e-9);
        assert!(outcome.lines().iter().any(|line| line.contains("50 % less")));
    }
}
