//! The status of a job: its state, progress and cost.

use super::account::{TrainingJob, Transition};
use super::metrics::{MFU, Metrics};
use super::orphaned_jobs::is_over;
use serde::Serialize;
use trainc_diag::text;
use trainc_ir::mfu::{format_mfu, mfu_as_fraction};
use trainc_ir::{Cost, Plan, Price};

/// The status of a job, for people and for scripts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// The job's name in the manifest.
    pub job: String,
    /// The training job.
    pub training_job: String,
    /// The instance type; of several preferred types the one that SageMaker chose, null until then.
    pub instance_type: Option<String>,
    /// `TrainingJobStatus`.
    pub status: String,
    /// `SecondaryStatus`.
    pub secondary_status: String,
    /// All states so far, oldest first.
    pub transitions: Vec<Transition>,
    /// SageMaker's failure reason.
    pub failure_reason: Option<String>,
    /// Progress of the run, 0 to 100; null if no step is known.
    #[serde(rename = "progressPercentage")]
    pub progress_percentage: Option<f64>,
    /// Seconds until the last step at the rate of the steps so far, without start-up.
    #[serde(rename = "estimatedRemainingSeconds")]
    pub estimated_remaining_seconds: Option<u64>,
    /// Seconds from its creation to now or to its end.
    pub elapsed_seconds: u64,
    /// Billed seconds per instance, known at the end.
    pub billable_seconds: Option<u64>,
    /// Cost so far in US dollars: instances, volumes and file systems as in the plan; of a run of another
    /// version of the manifest the instances only.
    pub cost_usd: Option<f64>,
    /// True if the cost is an upper bound: a spot run is billed for less, which the service reports at its
    /// end.
    pub cost_is_upper_bound: bool,
    /// True if the cost is a lower bound: some instances have no known price.
    pub cost_is_lower_bound: bool,
    /// True if the cost is an estimate: only an EC2 price of the instances is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cost_is_estimate: bool,
    /// The same if the run lasts until its max-run: `run.most_usd` of the plan.
    pub most_usd: Option<f64>,
    /// Expected cost in US dollars: `run.cost_usd` of the plan; null without a prediction, or if the spot
    /// price is unknown.
    pub planned_usd: Option<f64>,
    /// The same at the on-demand price, which spot instances never exceed; null if the price of the run is
    /// known.
    pub planned_on_demand_usd: Option<f64>,
    /// Date of the price of the instances; null if it is a price of the user or not known.
    pub price_date: Option<String>,
    /// Predicted duration in seconds.
    pub planned_seconds: Option<u64>,
    /// Predicted tokens per second, over all ranks.
    pub planned_tokens_per_second: Option<f64>,
    /// The last values of the metrics in the log.
    pub metrics: serde_json::Map<String, serde_json::Value>,
    /// The URI of the model, known at the end.
    pub model_artifacts: Option<String>,
    /// True if the account is simulated: costs are then those of an equivalent real run.
    pub simulated: bool,
}

/// The plan's predictions for a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Planned {
    /// Billed seconds of the whole run.
    pub seconds: Option<f64>,
    /// Tokens per second, over all ranks.
    pub tokens_per_second: Option<f64>,
    /// True if the interval of [`Self::tokens_per_second`] comes from measured errors of the plan's setting.
    pub is_speed_measured: bool,
    /// Seconds before the first step: start and download.
    pub start_seconds: Option<f64>,
    /// Seconds of all steps, with checkpoints.
    pub steps_seconds: Option<f64>,
    /// Expected US dollars of the whole run.
    pub usd: Option<f64>,
    /// The same at the on-demand price; `None` if [`Self::usd`] is known.
    pub on_demand_usd: Option<f64>,
    /// US dollars per hour of the volumes and file systems.
    pub storage_usd_per_hour: f64,
}

/// Returns US dollars per hour of a job; `None` if a price is unknown, as that of spot instances.
pub fn usd_per_hour(plan: &Plan, planned: &Planned, job: &TrainingJob) -> Option<f64> {
    most_usd_per_hour(plan, planned, job).filter(|_| is_priced(plan))
}

/// Returns US dollars per hour of a job, at most: spot instances never exceed the on-demand price. `None` if
/// that is unknown.
pub fn most_usd_per_hour(plan: &Plan, planned: &Planned, job: &TrainingJob) -> Option<f64> {
    Some(instances_per_hour(plan, job).exact()? + planned.storage_usd_per_hour)
}

/// Returns the known part of the price of a job for an hour, a lower bound, US dollars; `None` if no part is
/// known.
pub fn known_usd_per_hour(plan: &Plan, planned: &Planned, job: &TrainingJob) -> Option<f64> {
    let storage = Cost::of_item(Some(planned.storage_usd_per_hour));
    let instances = instances_per_hour(plan, job);
    // No run is stopped by an estimated price.
    let billed = if instances.is_estimate() { Cost::UNKNOWN } else { instances };
    (billed + storage).at_least()
}

/// Returns the price of the instances of a job for an hour, of the type that runs.
fn instances_per_hour(plan: &Plan, job: &TrainingJob) -> Cost {
    plan.billed_per_hour(job.instance_type(), job.instance_count(), job.is_spot())
}

/// Returns the status of a job at a time, compared with the plan.
pub fn status(plan: &Plan, planned: &Planned, job: &TrainingJob, metrics: &Metrics, now: f64) -> Status {
    let end = job.ended.unwrap_or(now);
    // A discount on spot shortens the billed time of the instances only.
    let run = billed_so_far(job, end);
    let billed = job.billable_seconds.map_or(run, |seconds| seconds as f64);
    let instances = instances_per_hour(plan, job);
    let cost = instances
        .at_least()
        .map(|usd| round_cents((usd * billed + planned.storage_usd_per_hour * run) / 3_600.0));
    let hourly = most_usd_per_hour(plan, planned, job);
    let max_run =
        job.request.pointer("/StoppingCondition/MaxRuntimeInSeconds").and_then(serde_json::Value::as_f64);
    let (progress, remaining) = progress(plan, job, metrics, now);
    let usd = |seconds: f64| hourly.map(|usd| round_cents(usd * seconds / 3_600.0));
    Status {
        job: plan.job.name.value().cloned().unwrap_or_default(),
        training_job: job.name.clone(),
        instance_type: job.instance_type().map(str::to_owned),
        status: job.status.clone(),
        secondary_status: job.secondary.clone(),
        transitions: job.transitions.clone(),
        failure_reason: job.failure.clone(),
        progress_percentage: progress,
        estimated_remaining_seconds: remaining,
        elapsed_seconds: whole_seconds(end - job.created),
        billable_seconds: job.billable_seconds,
        cost_usd: cost,
        cost_is_upper_bound: job.is_spot() && job.billable_seconds.is_none(),
        cost_is_lower_bound: cost.is_some() && !instances.is_complete,
        cost_is_estimate: cost.is_some() && instances.is_estimate(),
        most_usd: max_run.and_then(usd),
        planned_usd: planned.usd.map(round_cents),
        planned_on_demand_usd: planned.on_demand_usd.map(round_cents),
        price_date: plan.instance_prices().filter_map(|price| price.date.clone()).min(),
        planned_seconds: planned.seconds.map(whole_seconds),
        planned_tokens_per_second: planned.tokens_per_second.map(f64::round),
        metrics: metrics
            .latest()
            .into_iter()
            .map(|(name, value)| (name, serde_json::Value::from(value)))
            .collect(),
        model_artifacts: job.model_artifacts.clone(),
        simulated: false,
    }
}

/// Returns true if the plan has a price for the run; spot prices are unknown unless the user gave one.
fn is_priced(plan: &Plan) -> bool {
    !plan.is_spot() || plan.price().is_some_and(Price::is_user_price)
}

/// Returns the seconds billed up to a time: from TrainingStartTime to TrainingEndTime (DescribeTrainingJob),
/// without waits for spot capacity. It only increases until the service reports the final value, and is 0 for
/// a run without instances.
pub fn billed_so_far(job: &TrainingJob, end: f64) -> f64 {
    let Some(start) = job.started else { return 0.0 };
    let waits = job.transitions.iter().filter(|one| {
        matches!(
            one.status.as_str(),
            "Interrupted" | "Starting" | "Pending" | "LaunchingMLInstances" | "PreparingTrainingStack"
        )
    });
    let waited: f64 =
        waits.map(|one| (one.end.unwrap_or(end).min(end) - one.start.max(start)).max(0.0)).sum();
    (end - start - waited).max(0.0)
}

fn progress(plan: &Plan, job: &TrainingJob, metrics: &Metrics, now: f64) -> (Option<f64>, Option<u64>) {
    if job.status == "Completed" {
        return (Some(100.0), Some(0));
    }
    let steps = plan.run.steps.as_ref().map(|steps| steps.value as f64).filter(|steps| *steps > 0.0);
    let (Some(steps), Some(step), Some(start)) = (steps, metrics.get("step"), job.program_started()) else {
        return (None, None);
    };
    let done = (step / steps).clamp(0.0, 1.0);
    // By the times of the steps, otherwise by the logged rate, otherwise including start-up. The last is an
    // upper bound, since a program may log the rate of one host or one GPU.
    let most = (now - start) / step;
    let by_rate = || {
        let tokens = plan.batch.as_ref()?.global_tokens? as f64;
        metrics.get(super::metrics::RATE).filter(|rate| *rate > 0.0).map(|rate| (tokens / rate).min(most))
    };
    let of_step = metrics.step_seconds().or_else(by_rate).unwrap_or(most);
    let remaining = (step > 0.0 && !job.is_over()).then(|| whole_seconds(of_step * (steps - step).max(0.0)));
    ((Some((done * 1000.0).round() / 10.0)), remaining)
}

/// Returns the last logged step and the plan's last step, if the log ends well before.
pub fn early_end(plan: &Plan, last: f64) -> Option<(u64, u64)> {
    /// Fraction of the steps that a log must reach.
    const MOST_OF: f64 = 0.9;
    let steps = plan.run.steps.as_ref()?.value;
    (last < steps as f64 * MOST_OF).then(|| (whole_seconds(last), steps))
}

/// Describes a completed run whose log ends well before the plan's last step.
pub fn describe_early_end((last, steps): (u64, u64)) -> String {
    format!(
        "the last step in its log is {} of {}: the program ended early or logs few of its steps",
        text::group_digits(last),
        text::group_digits(steps)
    )
}

fn whole_seconds(seconds: f64) -> u64 {
    std::time::Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default().as_secs()
}

fn round_cents(usd: f64) -> f64 {
    // Adding zero turns -0.0 into 0.0.
    (usd * 100.0).round() / 100.0 + 0.0
}

impl Status {
    /// Sets whether the account is simulated.
    #[must_use]
    pub fn simulated(mut self, simulated: bool) -> Self {
        self.simulated = simulated;
        self
    }

    /// Returns the last logged step and the plan's last step, if a completed run's log ends well before.
    /// Programs do not log every step, so the last tenth of the steps may be missing.
    pub fn early_end_steps(&self, plan: &Plan) -> Option<(u64, u64)> {
        let step = self.metrics.get("step").and_then(serde_json::Value::as_f64)?;
        if self.status == "Completed" { early_end(plan, step) } else { None }
    }

    /// Returns the note on simulated costs.
    fn simulated_note(&self) -> &'static str {
        if self.simulated { " (simulated: nothing is billed)" } else { "" }
    }

    /// Returns the cost in US dollars as text, and whether more may follow: `at most $6.33` and `" so far"`.
    fn cost_and_more(&self) -> Option<(String, &'static str)> {
        let usd = self.cost_usd?;
        // Before the first cent there is nothing to bound.
        let bound = match (self.cost_is_upper_bound, self.cost_is_lower_bound) {
            // A part of the prices bounds an upper bound on neither side.
            (true, true) => return None,
            (true, false) if usd > 0.0 => "at most ",
            (false, true) => "at least ",
            _ => "",
        };
        let so_far = if is_over(&self.status) { "" } else { " so far" };
        let estimated = if self.cost_is_estimate { "an estimated " } else { "" };
        Some((format!("{bound}{estimated}{}", text::dollars(usd)), so_far))
    }

    /// Describes the cost so far, `$6.33 so far`, or that of an ended run, `$12.32 for 1h 44m 15s billed`;
    /// `None` if the price is not known.
    pub fn describe_cost(&self) -> Option<String> {
        let (usd, so_far) = self.cost_and_more()?;
        let cost = match self.billable_seconds {
            Some(billed) => format!("{usd} for {} billed", text::duration(billed)),
            None => format!("{usd}{so_far}"),
        };
        Some(cost + self.simulated_note())
    }

    /// Returns the last values of the metrics as text: first those with canonical names, in display order.
    pub fn figures(&self) -> Vec<(&str, String)> {
        let planned =
            self.planned_rate().map_or_else(String::new, |planned| format!(" of {planned} planned"));
        let mut out = self.last_values();
        let rates = out.iter_mut().filter(|(name, _)| *name == super::metrics::RATE);
        rates.for_each(|(_, figure)| figure.push_str(&planned));
        out
    }

    /// Returns the planned tokens per second as text.
    fn planned_rate(&self) -> Option<String> {
        Some(text::group_digits(whole_seconds(self.planned_tokens_per_second?)))
    }

    /// Returns what every [line](Self::line) is compared with, for the head of the lines: the planned speed,
    /// and whether the account is simulated.
    pub fn head(&self) -> Vec<String> {
        let speed = self.planned_rate().map(|rate| format!("speed: {rate} tokens/s planned"));
        let simulated = self.simulated.then(|| "simulated: nothing is billed".to_owned());
        speed.into_iter().chain(simulated).collect()
    }

    fn last_values(&self) -> Vec<(&str, String)> {
        let words = super::metrics::names();
        let rank = |name: &str| words.iter().position(|word| *word == name).unwrap_or(words.len());
        let mut out: Vec<(&str, String)> = self
            .metrics
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), figure(name, value.as_f64()?))))
            .collect();
        out.sort_by_key(|(name, _)| rank(name));
        out
    }

    /// Returns the remaining time, e.g. `3h 20m left`.
    pub fn left(&self) -> Option<String> {
        let seconds = self.estimated_remaining_seconds.filter(|seconds| *seconds > 0)?;
        Some(format!("{} left", text::rounded_duration(seconds as f64)))
    }

    /// Formats state, progress, metrics and cost on one line, which many like it follow.
    pub fn line(&self) -> String {
        let mut parts = vec![self.secondary_status.clone()];
        if let Some(percent) = self.progress_percentage.filter(|_| self.status == "InProgress") {
            parts.push(format!("{}%", text::short_number(percent)));
        }
        parts.extend(self.last_values().into_iter().map(|(name, figure)| format!("{name} {figure}")));
        if let Some(left) = self.left() {
            parts.push(left);
        }
        if let Some((usd, so_far)) = self.cost_and_more() {
            parts.push(format!("{usd}{so_far}"));
        }
        parts.join(", ")
    }
}

/// Formats a value for display.
fn figure(name: &str, value: f64) -> String {
    if name == MFU {
        format_mfu(mfu_as_fraction(value))
    } else if name == "step" || (value >= 1_000.0 && value.fract() == 0.0) {
        text::group_digits(whole_seconds(value))
    } else {
        format!("{value}")
    }
}
