//! Figures of a run compared with their predictions.

use super::steps::{Measured, Median};
use schemars::JsonSchema;
use serde::Serialize;
use trainc_ir::{Plan, TrainingJob};
use trainc_predict::bills::storage_usd_per_hour;
use trainc_predict::memory::{MeasuredAs, MemoryConstants, peak_by_instrument};
use trainc_predict::run::Around;
use trainc_predict::{Constants, Interval, Layout, Memory, Prediction, Speed};

/// Description of a finished job by the service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// `Completed`, `Failed`, `Stopped`, `InProgress`.
    pub status: String,
    /// Number of instances.
    pub instances: u64,
    /// Their type, if the service reports one.
    pub instance: Option<String>,
    /// Seconds until the image was loaded and the first step began, if known.
    pub startup: Option<f64>,
    /// Seconds to copy the data.
    pub download: Option<f64>,
    /// Seconds to find and prepare instances (`Starting`, `LaunchingMLInstances`, `PreparingTrainingStack`,
    /// `Pending`); they are not billed.
    pub provisioning: Option<f64>,
    /// Seconds to download the container's image (`DownloadingTrainingImage`).
    pub image: Option<f64>,
    /// Seconds to upload the model (`Uploading`).
    pub upload: Option<f64>,
    /// Seconds from the first step to the last.
    pub training: Option<f64>,
    /// Seconds of the whole run: billed on demand, trained on spot.
    pub seconds: Option<f64>,
    /// Billed seconds per instance.
    pub billed: Option<f64>,
}

impl Job {
    /// Returns the figures of a described job and its log.
    pub fn from_training_job(job: &TrainingJob, measured: &Measured) -> Self {
        let lasted = |names: &[&str]| {
            let spans = job.transitions.iter().filter(|one| names.contains(&one.status.as_str()));
            let times: Vec<f64> = spans.filter_map(|one| Some(one.end? - one.start)).collect();
            (!times.is_empty()).then(|| times.iter().sum::<f64>())
        };
        let image = lasted(&["DownloadingTrainingImage"]);
        let step = measured.step_seconds.map(|median| median.value);
        // The first line follows the steps that it counts.
        let first = measured
            .times
            .zip(step)
            .zip(job.program_started())
            .map(|((((time, step), _), each), started)| (time - step as f64 * each - started).max(0.0));
        let training = measured.times.zip(step).map(|(((from, first), (to, last)), each)| {
            let before = if last > first { first as f64 * each } else { 0.0 };
            to - from + before
        });
        // Without times in the log, the service's own state also includes the start of the script.
        let training = training.filter(|seconds| *seconds > 0.0).or_else(|| lasted(&["Training"]));
        let billed = job.billable_seconds.map(|seconds| seconds as f64);
        Self {
            name: job.name.clone(),
            status: job.status.clone(),
            instances: job.instance_count(),
            instance: job.instance_type().map(str::to_owned),
            startup: first.map(|first| first + image.unwrap_or(0.0)),
            download: lasted(&["Downloading"]),
            provisioning: lasted(&["Starting", "Pending", "LaunchingMLInstances", "PreparingTrainingStack"]),
            image,
            upload: lasted(&["Uploading"]),
            training,
            seconds: if job.is_spot() { job.training_seconds.map(|seconds| seconds as f64) } else { billed },
            billed,
        }
    }

    /// Returns true if it completed.
    pub fn is_completed(&self) -> bool {
        self.status == "Completed"
    }
}

/// Whole that a figure is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The whole step.
    Step,
    /// A part of a step; all of them add up to it.
    StepPart,
    /// Communication per step, hidden or exposed.
    Links,
    /// Memory of the fullest GPU.
    Memory,
    /// A part of it; all of them add up to the memory in the plan.
    MemoryPart,
    /// The run, from the request to its end.
    Run,
}

impl Group {
    /// Returns its word in the machine-readable output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::StepPart => "step_part",
            Self::Links => "links",
            Self::Memory => "memory",
            Self::MemoryPart => "memory_part",
            Self::Run => "run",
        }
    }
}

/// One figure, predicted and measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name in plan.json.
    pub key: &'static str,
    /// Whole that it is a part of.
    pub group: Group,
    /// Prediction.
    pub predicted: Option<f64>,
    /// 90 % interval of the prediction.
    pub interval: Option<Interval>,
    /// Measurement, the median if there are several.
    pub measured: Option<f64>,
    /// Quartiles, if the measurement is a median.
    pub median: Option<Median>,
}

impl Row {
    /// Returns a figure without a measurement.
    fn predicted_only(key: &'static str, group: Group, value: f64) -> Self {
        Self { key, group, predicted: Some(value), interval: None, measured: None, median: None }
    }

    /// Returns the relative difference: measured over predicted, minus one.
    pub fn difference(&self) -> Option<f64> {
        let (measured, predicted) = (self.measured?, self.predicted.filter(|predicted| *predicted > 0.0)?);
        Some(measured / predicted - 1.0)
    }

    /// Returns true if the measurement is inside the interval.
    pub fn is_inside_interval(&self) -> Option<bool> {
        let (measured, interval) = (self.measured?, self.interval?);
        Some(interval.low <= measured && measured <= interval.high)
    }
}

/// Returns the MFU of a measured step: the same model FLOP over the same peak in a different time.
fn mfu_at_step_time(speed: &Speed, step: Median) -> Option<Median> {
    let of = |seconds: f64| speed.mfu * speed.step_seconds / seconds;
    (step.low > 0.0).then(|| Median {
        value: of(step.value),
        low: of(step.high),
        high: of(step.low),
        of: step.of,
    })
}

/// Returns the parts of a step, which add up to it, and its communication; parts that are 0 are omitted.
fn step_parts(speed: &Speed, measured: &Measured) -> Vec<Row> {
    let (parts, links) = (&speed.parts, &speed.communication);
    let (ends, over) = (speed.part_intervals(), speed.communication_intervals());
    let gathered =
        Interval { low: over.gather.low - over.scatter.low, high: over.gather.high - over.scatter.high };
    let waits = [
        ("compute_seconds", parts.compute, ends.compute),
        ("exposed_communication_seconds", parts.exposed_communication, ends.exposed_communication),
        ("bubble_seconds", parts.bubble, ends.bubble),
        ("offload_seconds", parts.offload, ends.offload),
        ("optimizer_seconds", parts.optimizer, ends.optimizer),
        // An unknown wait is assumed to be 0.
        ("input_seconds", parts.input.unwrap_or(0.0), ends.input.unwrap_or_default()),
    ]
    .map(|(key, seconds, ends)| (key, Group::StepPart, seconds, ends));
    let links = [
        ("all_gather_seconds", links.gather - links.scatter, gathered),
        ("reduce_scatter_seconds", links.scatter, over.scatter),
        ("replicas_all_reduce_seconds", links.replicas, over.replicas),
        ("gradients_all_reduce_seconds", links.gradients, over.gradients),
        ("tensor_all_reduce_seconds", links.tensor, over.tensor),
        ("context_ring_seconds", links.context, over.context),
        ("pipeline_send_seconds", links.pipeline, over.pipeline),
        ("experts_all_to_all_seconds", links.experts, over.experts),
    ]
    .map(|(key, seconds, ends)| (key, Group::Links, seconds, ends));
    waits
        .into_iter()
        .chain(links)
        .filter_map(|(key, group, seconds, ends)| {
            let median = match key {
                "optimizer_seconds" => measured.optimizer_seconds,
                "input_seconds" => measured.input_seconds,
                _ => None,
            };
            let is_known = key != "input_seconds" || parts.input.is_some();
            (seconds > 0.0 || median.is_some()).then(|| Row {
                interval: is_known.then_some(ends),
                measured: median.map(|median| median.value),
                median,
                ..Row::predicted_only(key, group, seconds)
            })
        })
        .collect()
}

/// Returns a note on the parts of GPU memory that the instrument does not count.
pub fn describe_uncounted_memory(kind: MeasuredAs) -> Option<&'static str> {
    match kind {
        MeasuredAs::Allocated => Some(
            "memory counts allocated tensors, predicted and measured: `plan` adds the \
                allocator's reserve and the context of CUDA and NCCL",
        ),
        MeasuredAs::Reserved => Some(
            "memory counts what the allocator reserved, predicted and measured: `plan` adds the \
                context of CUDA and NCCL",
        ),
        MeasuredAs::Whole => None,
    }
}

/// Returns the parts of a GPU's memory; no log distinguishes them.
fn memory_parts(memory: &Memory) -> Vec<Row> {
    let (parts, ends) = (&memory.parts, &memory.part_intervals);
    let all = [
        ("parameters_bytes", parts.parameters, ends.parameters),
        ("gradients_bytes", parts.gradients, ends.gradients),
        ("optimizer_bytes", parts.optimizer, ends.optimizer),
        ("activations_bytes", parts.activations, ends.activations),
        ("gathered_bytes", parts.gathered, ends.gathered),
        ("logits_bytes", parts.logits, ends.logits),
        ("buffers_bytes", parts.buffers, ends.buffers),
        ("reserve_bytes", parts.reserve, ends.reserve),
    ];
    all.into_iter()
        .filter(|(_, bytes, _)| *bytes > 0.0)
        .map(|(key, bytes, ends)| Row {
            interval: Some(ends.interval),
            ..Row::predicted_only(key, Group::MemoryPart, bytes)
        })
        .collect()
}

/// Returns all figures that were measured or predicted, those of the step first.
pub fn rows(
    plan: &Plan,
    prediction: &Prediction,
    constants: &Constants,
    measured: &Measured,
    job: Option<&Job>,
) -> Vec<Row> {
    let speed = prediction.speed.as_ref();
    let run = prediction.run.as_ref();
    let layout = Layout::from_plan(plan).ok();
    // A rate is a constant divided by the step time.
    let rate = |value: f64| {
        let speed = speed?;
        let work = value * speed.step_seconds;
        Some(Interval { low: work / speed.interval.high, high: work / speed.interval.low })
    };
    let step = |key, predicted: Option<f64>, interval, median: Option<Median>| Row {
        key,
        group: Group::Step,
        predicted,
        interval,
        measured: median.map(|median| median.value),
        median,
    };
    let mut out = vec![step(
        "step_seconds",
        speed.map(|speed| speed.step_seconds),
        speed.map(|speed| speed.interval),
        measured.step_seconds,
    )];
    if let Some(speed) = speed {
        out.extend(step_parts(speed, measured));
    }
    out.extend([
        step(
            "tokens_per_second",
            speed.map(|speed| speed.tokens_per_second),
            speed.and_then(|speed| rate(speed.tokens_per_second)),
            measured.tokens_per_second,
        ),
        step(
            "samples_per_second",
            speed.map(|speed| speed.samples_per_second),
            speed.and_then(|speed| rate(speed.samples_per_second)),
            measured.samples_per_second,
        ),
        step(
            "mfu",
            speed.map(|speed| speed.mfu),
            speed.and_then(|speed| rate(speed.mfu)),
            measured.mfu.or_else(|| mfu_at_step_time(speed?, measured.step_seconds?)),
        ),
        Row { measured: measured.loss, ..step("loss", None, None, None) },
    ]);
    if let Some((bytes, kind)) = measured.memory {
        let same = layout
            .as_ref()
            .map(|it| peak_by_instrument(it, kind, &MemoryConstants::from_constants(constants)));
        // The interval of the total, scaled to what the instrument counts.
        let whole = prediction.memory.as_ref();
        out.push(Row {
            key: "memory_bytes",
            group: Group::Memory,
            predicted: same,
            interval: same.zip(whole).map(|(same, whole)| Interval {
                low: same * whole.interval.low / whole.per_gpu_bytes,
                high: same * whole.interval.high / whole.per_gpu_bytes,
            }),
            measured: Some(bytes),
            median: None,
        });
    } else if let Some(memory) = &prediction.memory {
        out.push(Row {
            interval: Some(memory.interval),
            ..Row::predicted_only("memory_bytes", Group::Memory, memory.per_gpu_bytes)
        });
    }
    if let Some(memory) = &prediction.memory {
        out.extend(memory_parts(memory));
    }
    let Some(job) = job else { return out };
    let whole = job.is_completed();
    let mut part = |key, predicted: Option<f64>, interval: Option<Interval>, measured: Option<f64>| {
        out.push(Row { key, group: Group::Run, predicted, interval, measured, median: None });
    };
    let around = |seconds: f64| Around::from_constants(constants).interval_around(seconds);
    part("provisioning_seconds", None, None, job.provisioning);
    // With the download: the service no longer reports the image apart from the data (DescribeTrainingJob,
    // SecondaryStatus).
    let startup = run.map(|run| run.parts.startup + run.parts.download.unwrap_or(0.0));
    let started = job.startup.map(|seconds| seconds + job.download.unwrap_or(0.0));
    part("startup_seconds", startup, startup.map(around), started);
    part("image_seconds", None, None, job.image);
    part("download_seconds", None, None, job.download);
    // For a job that did not complete, the remaining figures say nothing about the whole.
    let ended = |value: Option<f64>| value.filter(|_| whole);
    let training = run.map(|run| run.parts.training);
    let ratio = speed
        .map(|speed| (speed.interval.low / speed.step_seconds, speed.interval.high / speed.step_seconds));
    part(
        "training_seconds",
        training,
        training
            .zip(ratio)
            .map(|(seconds, (low, high))| Interval { low: seconds * low, high: seconds * high }),
        ended(job.training),
    );
    let checkpoints = run.map(|run| run.parts.checkpoints).filter(|seconds| *seconds > 0.0);
    part("checkpoints_seconds", checkpoints, checkpoints.map(around), None);
    part("upload_seconds", None, None, job.upload);
    // Includes the given interruptions, as the cost does.
    let expected = run.map(|run| (run.expected_seconds(), run.expected_interval()));
    let between = expected.and_then(|(_, interval)| interval);
    part("run_seconds", expected.map(|(seconds, _)| seconds), between, ended(job.seconds));
    let is_spot = plan.job.cluster.as_ref().is_some_and(|cluster| cluster.spot.is_some());
    // As in the prediction: the instances, their volumes and the file systems of the job. A discount on spot
    // shortens the billed time of the instances only.
    let hourly = plan.billed_per_hour(job.instance.as_deref(), job.instances, is_spot);
    // A cost by an estimated price is not measured.
    let hourly = hourly.exact().filter(|_| !hourly.is_estimate());
    let usd = hourly.zip(job.billed).map(|(hourly, billed)| {
        (hourly * billed + storage_usd_per_hour(plan) * job.seconds.unwrap_or(billed)) / 3_600.0
    });
    part(
        "cost_usd",
        run.and_then(|run| run.cost_usd),
        run.and_then(trainc_predict::Run::cost_interval),
        ended(usd),
    );
    out
}
