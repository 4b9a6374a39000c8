//! Predictions of the cost model. An unknown figure is `None`, never 0.

use super::extrapolation::Extrapolation;
use super::from_plan::Unknown;
use super::part_intervals::{PartInterval, Widths};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use trainc_ir::Cost;

/// Memory and speed of a layout, and the run of the plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// Memory of the fullest GPU.
    pub memory: Option<Memory>,
    /// Time of a step.
    pub speed: Option<Speed>,
    /// Time and cost of the run.
    pub run: Option<Run>,
    /// Number of finished runs of the job itself that the run is taken from, if its steps are not predicted.
    pub finished_runs: Option<usize>,
    /// Reason why memory is unknown.
    pub no_memory: Option<Unknown>,
    /// Reason why the speed is unknown.
    pub no_speed: Option<Unknown>,
    /// Reason why the run is unknown.
    pub no_run: Option<Unknown>,
}

/// 90 % interval of the true figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// Lower bound, in the figure's unit.
    pub low: f64,
    /// Upper bound, in the figure's unit.
    pub high: f64,
}

/// Memory of the fullest GPU at the peak of a step, bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The sum of the parts.
    pub per_gpu_bytes: f64,
    /// Usable memory of the GPU; `None` if it is unknown.
    pub capacity_bytes: Option<f64>,
    /// True if it fits.
    pub fits: Option<bool>,
    /// Interval of the peak.
    pub interval: Interval,
    /// Additional memory of one host.
    pub host_bytes: Option<f64>,
    /// Interval from bounds: no measured run of a GPU job reports host memory.
    pub host_interval: Option<Interval>,
    /// The peak while a checkpoint is saved.
    pub peak_checkpoint_bytes: Option<f64>,
    /// Interval from the errors of measured peaks of a step.
    pub peak_checkpoint_interval: Option<Interval>,
    /// Its parts.
    pub parts: MemoryParts,
    /// Intervals of the parts.
    pub part_intervals: MemoryParts<PartInterval>,
}

impl Memory {
    /// Returns the comparison with its GPU; `None` if the GPU is unknown.
    pub fn fit(&self) -> Option<Fit> {
        Some(Fit::from_bytes(self.per_gpu_bytes, self.interval, self.capacity_bytes?))
    }

    /// Returns whether a host with this memory in bytes has enough; true if one of the two is unknown.
    pub fn fits_host(&self, has: Option<f64>) -> bool {
        self.host_bytes.zip(has).is_none_or(|(needs, has)| needs <= has)
    }
}

/// Comparison of a predicted memory with a GPU, shared by plans, checks, edits and searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It fits even at the upper end of its interval.
    Surely,
    /// It fits, but not at the upper end of its interval: it may not fit.
    Maybe,
    /// It does not fit, except at the lower end of the interval.
    Hardly,
    /// It does not fit even at the lower end.
    Never,
}

impl Fit {
    /// Compares a memory and its interval with the card's memory, all in bytes.
    pub fn from_bytes(bytes: f64, interval: Interval, capacity: f64) -> Self {
        match capacity {
            card if interval.high <= card => Self::Surely,
            card if bytes <= card => Self::Maybe,
            card if interval.low <= card => Self::Hardly,
            _ => Self::Never,
        }
    }

    /// Returns a phrase: `fits`, `may not fit`, `does not fit`.
    pub fn as_phrase(self) -> &'static str {
        match self {
            Self::Surely => "fits",
            Self::Maybe => "may not fit",
            Self::Hardly | Self::Never => "does not fit",
        }
    }
}

/// Parts of a GPU's memory, in bytes (they add up to the total), or a value per part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct MemoryParts<T = f64> {
    /// Stored weights, bytes.
    pub parameters: T,
    /// Stored gradients, bytes.
    pub gradients: T,
    /// Stored optimizer states, bytes: moments and 32-bit copies.
    pub optimizer: T,
    /// Activations saved for the backward pass, bytes.
    pub activations: T,
    /// Parameters gathered for the running layer, bytes.
    pub gathered: T,
    /// Logits and their gradient, bytes.
    pub logits: T,
    /// Buffers of collectives and of the optimizer, bytes.
    pub buffers: T,
    /// CUDA context, fragmentation and the like, bytes.
    pub reserve: T,
}

impl<T> MemoryParts<T> {
    /// Applies a function to every part.
    pub fn map<U>(self, to: impl Fn(T) -> U) -> MemoryParts<U> {
        MemoryParts {
            parameters: to(self.parameters),
            gradients: to(self.gradients),
            optimizer: to(self.optimizer),
            activations: to(self.activations),
            gathered: to(self.gathered),
            logits: to(self.logits),
            buffers: to(self.buffers),
            reserve: to(self.reserve),
        }
    }

    /// Returns the parts in the order of the members.
    pub fn values(self) -> [T; 8] {
        [
            self.parameters,
            self.gradients,
            self.optimizer,
            self.activations,
            self.gathered,
            self.logits,
            self.buffers,
            self.reserve,
        ]
    }
}

impl MemoryParts {
    /// Returns the sum, bytes.
    pub fn total(&self) -> f64 {
        self.values().into_iter().sum()
    }
}

/// Time of an optimizer step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Speed {
    /// The sum of the parts, seconds.
    pub step_seconds: f64,
    /// Tokens per second of the whole cluster.
    pub tokens_per_second: f64,
    /// Sequences per second of the whole cluster.
    pub samples_per_second: f64,
    /// Operations that the hardware performs, TFLOP/s per GPU, including recomputation.
    pub tflops: Tflops,
    /// Model FLOPs over the peak in the precision of the products, a fraction.
    pub mfu: f64,
    /// Interval of the step time, seconds.
    pub interval: Interval,
    /// Extrapolation beyond the measured runs, which widens the interval.
    pub extrapolation: Extrapolation,
    /// Half-widths that make up the interval, without measured runs of the user.
    pub widths: Widths,
    /// What measured runs of the user say about it; `None` if there are none with enough in common.
    pub evidence: Option<super::Conditioned>,
    /// Its parts.
    pub parts: SpeedParts,
    /// Communication, hidden or exposed.
    pub communication: Communication,
}

impl Speed {
    /// Returns true if measured errors of this layout's own setting, or measured runs of the layout itself,
    /// determine the whole interval.
    pub fn is_measured(&self) -> bool {
        self.evidence.is_some_and(|runs| runs.is_measured()) || self.extrapolation.is_measured()
    }

    /// Returns true if an enforced budget may stop a job that is slower than this: its setting was measured, and
    /// no table of runs, to which anyone may add, has changed it.
    pub fn can_stop_a_job(&self) -> bool {
        self.evidence.is_none() && self.extrapolation.is_measured()
    }
}

/// Communication of a step by collective, in seconds of one GPU, hidden and exposed together, or a value per
/// collective.
///
/// Communication of tensor parallelism, pipeline stages and experts is fully exposed. The rest overlaps with
/// compute: `exposed_communication` of the parts is its exposed part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Communication<T = f64> {
    /// All-reduces of a layer's tensor group, fully exposed, seconds.
    pub tensor: T,
    /// Sends between stages, fully exposed, seconds.
    pub pipeline: T,
    /// Tokens to their experts and back, fully exposed, seconds.
    pub experts: T,
    /// Keys and values around the ring of a context group, during attention, seconds.
    pub context: T,
    /// All-gather of parameters and reduce-scatter of gradients inside a shard group, seconds.
    pub gather: T,
    /// Of `gather`, the reduce-scatter, seconds.
    #[serde(skip)]
    pub scatter: T,
    /// All-reduce of each shard's gradients over the replicas, seconds.
    pub replicas: T,
    /// All-reduce of whole gradients over all data ranks, seconds.
    pub gradients: T,
}

impl<T> Communication<T> {
    /// Applies a function to every collective.
    pub fn map<U>(self, to: impl Fn(T) -> U) -> Communication<U> {
        Communication {
            tensor: to(self.tensor),
            pipeline: to(self.pipeline),
            experts: to(self.experts),
            context: to(self.context),
            gather: to(self.gather),
            scatter: to(self.scatter),
            replicas: to(self.replicas),
            gradients: to(self.gradients),
        }
    }
}

impl Communication {
    /// Returns each multiplied by a factor.
    pub(super) fn scaled(&self, factor: f64) -> Self {
        self.map(|seconds| factor * seconds)
    }

    /// Returns the sum, seconds.
    pub fn total(&self) -> f64 {
        self.exposed_seconds() + self.overlapped_seconds()
    }

    /// Returns the exposed time, seconds.
    pub fn exposed_seconds(&self) -> f64 {
        self.tensor + self.pipeline + self.experts
    }

    /// Returns the seconds in parallel with the passes.
    pub fn overlapped_seconds(&self) -> f64 {
        self.context + self.gather + self.replicas + self.gradients
    }
}

/// TFLOP/s per GPU, by convention, or a value per convention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Tflops<T = f64> {
    /// Forward and backward, without recomputation.
    pub model: T,
    /// With recomputation.
    pub hardware: T,
    /// 6 × parameters × tokens, frozen weights counted like others.
    pub six_n: T,
    /// 8 × parameters × tokens, likewise.
    pub eight_n: T,
}

impl<T> Tflops<T> {
    /// Applies a function to every convention.
    pub fn map<U>(self, to: impl Fn(T) -> U) -> Tflops<U> {
        Tflops {
            model: to(self.model),
            hardware: to(self.hardware),
            six_n: to(self.six_n),
            eight_n: to(self.eight_n),
        }
    }
}

/// Parts of a step, in seconds (they add up to the total), or a value per part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SpeedParts<T = f64> {
    /// Compute, seconds.
    pub compute: T,
    /// Communication not hidden behind compute, seconds.
    pub exposed_communication: T,
    /// Pipeline bubble, seconds: the pipeline fills and drains.
    pub bubble: T,
    /// Copies to and from the host, seconds.
    pub offload: T,
    /// The optimizer, seconds.
    pub optimizer: T,
    /// Waiting for data, seconds: the time by which reading a step's sequences exceeds the rest of the step.
    /// Null if the read rate is not known; data loading is then assumed to keep up.
    pub input: Option<T>,
}

impl<T> SpeedParts<T> {
    /// Applies a function to every part.
    pub fn map<U>(self, to: impl Fn(T) -> U) -> SpeedParts<U> {
        SpeedParts {
            compute: to(self.compute),
            exposed_communication: to(self.exposed_communication),
            bubble: to(self.bubble),
            offload: to(self.offload),
            optimizer: to(self.optimizer),
            input: self.input.map(to),
        }
    }
}

impl SpeedParts {
    /// Returns each multiplied by a factor.
    pub(super) fn scaled(&self, factor: f64) -> Self {
        self.map(|seconds| factor * seconds)
    }

    /// Returns the sum, seconds.
    pub fn total(&self) -> f64 {
        self.compute
            + self.exposed_communication
            + self.bubble
            + self.offload
            + self.optimizer
            + self.input.unwrap_or(0.0)
    }
}

/// Time and cost of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Billed time, seconds: the sum of the parts.
    pub seconds: f64,
    /// Interval, seconds.
    pub interval: Interval,
    /// Its parts.
    pub parts: RunParts,
    /// Their intervals.
    pub part_intervals: RunParts<Interval>,
    /// Checkpoints, if the job writes any.
    pub checkpoint: Option<Checkpoints>,
    /// Time with interruptions, if their rate is given and the run finishes.
    pub spot: Option<Spot>,
    /// True if at the given rate of interruptions it takes more than a year even with the fastest expected
    /// steps.
    pub never_ends: bool,
    /// Expected US dollars, if prices are known: with interruptions at a given rate those of the expected
    /// time, including repeated work.
    pub cost_usd: Option<f64>,
    /// The same without the file systems of unknown price: a lower bound of the cost.
    pub least_usd: Option<f64>,
    /// Its parts.
    pub cost_parts: CostParts,
}

impl Run {
    /// Returns the expected billed time, seconds, including interruptions if their rate is given.
    pub fn expected_seconds(&self) -> f64 {
        self.spot.map_or(self.seconds, |spot| spot.expected_seconds)
    }

    /// Returns the interval of the expected time, seconds; `None` if the run does not finish at the upper
    /// end.
    pub fn expected_interval(&self) -> Option<Interval> {
        match &self.spot {
            Some(spot) => spot.interval,
            None => Some(self.interval),
        }
    }

    /// Returns the interval of the cost in US dollars, which is proportional to the time of the run,
    /// including interruptions at a given rate.
    pub fn cost_interval(&self) -> Option<Interval> {
        match &self.spot {
            Some(spot) => spot.expected_usd_interval,
            None => Some(self.interval_of_cost(self.cost_usd?)),
        }
    }

    /// Returns the interval of the known part of the cost.
    pub fn least_cost_interval(&self) -> Option<Interval> {
        Some(self.interval_of_cost(self.least_usd?))
    }

    /// Returns the interval of an amount in US dollars that is proportional to the time of the run, at the
    /// ends of estimated prices.
    pub fn interval_of_cost(&self, usd: f64) -> Interval {
        let per_second = usd / self.seconds;
        let (low, high) = self.cost_parts.total().shares();
        Interval { low: per_second * self.interval.low * low, high: per_second * self.interval.high * high }
    }
}

/// Parts of a run, seconds, or a value per part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct RunParts<T = f64> {
    /// Start of image, processes and model, seconds.
    pub startup: T,
    /// Data download before the start, seconds; null if its size is not known.
    pub download: Option<T>,
    /// Optimizer steps, seconds.
    pub training: T,
    /// Writing checkpoints, seconds.
    pub checkpoints: T,
    /// Evaluations during the run, seconds; 0 without `evaluate`, null if their number is not known.
    pub evaluation: Option<T>,
    /// Time lost to interruptions and node failures at the given rates, repeated work and restarts, seconds;
    /// null if neither `node-mtbf` nor `interruptions-per-hour` is set, and if the run would never finish at
    /// that rate.
    pub interruptions: Option<T>,
}

impl<T> RunParts<T> {
    /// Applies a function to every part.
    pub fn map<U>(self, to: impl Fn(T) -> U) -> RunParts<U> {
        RunParts {
            startup: to(self.startup),
            download: self.download.map(&to),
            training: to(self.training),
            checkpoints: to(self.checkpoints),
            evaluation: self.evaluation.map(&to),
            interruptions: self.interruptions.map(&to),
        }
    }
}

impl RunParts {
    /// Returns the known part of the time before the first step, seconds. Excludes a download of unknown
    /// size, so the run takes longer than predicted; [`RunParts::download`] is then `None`, and a note in
    /// plan.json says so.
    pub fn startup_seconds(&self) -> f64 {
        self.startup + self.download.unwrap_or(0.0)
    }
}

/// Checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Checkpoints {
    /// Size of a checkpoint for a full resumption, bytes.
    #[serde(serialize_with = "serialize_count")]
    #[schemars(with = "u64")]
    pub bytes: f64,
    /// Time to write a checkpoint, seconds.
    pub seconds: f64,
    /// Interval of the time to write a checkpoint.
    #[serde(rename = "seconds_interval")]
    pub interval: Interval,
    /// The optimal checkpoint interval (Young, Daly), seconds; null if neither `node-mtbf` nor an
    /// interruption rate is set.
    pub best_interval_seconds: Option<f64>,
    /// The optimal interval at both bounds of `seconds_interval`, at the given failure rate; null if the
    /// optimal interval is.
    #[serde(rename = "best_interval_seconds_interval")]
    pub best_interval: Option<Interval>,
}

/// Rounds an amount, of bytes or a count, to a whole number.
pub fn round_to_u64(amount: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 or more")]
    let whole = amount.max(0.0).round() as u64;
    whole
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn serialize_count<S: Serializer>(amount: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(round_to_u64(*amount))
}

/// The run with random interruptions at the given rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Spot {
    /// Expected billed time, seconds.
    pub expected_seconds: f64,
    /// The same if a run without interruptions takes the low end of its interval.
    #[serde(skip)]
    pub low_seconds: f64,
    /// The expected time at both bounds of the step time, at the given interruption rate, equal to
    /// `run.interval`; null if at the upper bound the run would never finish.
    #[serde(rename = "expected_seconds_interval")]
    pub interval: Option<Interval>,
    /// The 90th percentile of the billed time, seconds; includes the variation of interruptions only, at the
    /// predicted step time.
    pub p90_seconds: f64,
    /// `p90_seconds` at both bounds of the step time.
    #[serde(rename = "p90_seconds_interval")]
    pub p90_interval: Option<Interval>,
    /// Expected number of interruptions.
    pub interruptions: f64,
    /// Expected interruptions at both bounds of `expected_seconds_interval`; null if that is.
    pub interruptions_interval: Option<Interval>,
    /// Cost of the expected time, including repeated work, US dollars; null if a price is not known.
    pub expected_usd: Option<f64>,
    /// Cost of both bounds of `expected_seconds_interval`; null if that or a price is not known.
    pub expected_usd_interval: Option<Interval>,
    /// Cost of `p90_seconds`, US dollars.
    pub p90_usd: Option<f64>,
    /// Cost of both bounds of `p90_seconds_interval`; null if that or a price is not known.
    pub p90_usd_interval: Option<Interval>,
}

/// Parts of the cost, or a value per part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct CostParts<T = Cost> {
    /// Instances, US dollars.
    pub instances: T,
    /// Storage volumes, US dollars.
    pub volumes: T,
    /// File systems for the run time, US dollars.
    pub file_systems: T,
}

impl<T> CostParts<T> {
    /// Applies a function to every part.
    pub fn map<U>(self, to: impl Fn(T) -> U) -> CostParts<U> {
        CostParts {
            instances: to(self.instances),
            volumes: to(self.volumes),
            file_systems: to(self.file_systems),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_between_the_ends_of_an_interval_is_no_certainty() {
        let interval = Interval { low: 8.0, high: 12.0 };
        let fits = [12.0, 11.9, 10.0, 9.9, 8.0, 7.9].map(|card| Fit::from_bytes(10.0, interval, card));
        assert_eq!(fits, [Fit::Surely, Fit::Maybe, Fit::Maybe, Fit::Hardly, Fit::Hardly, Fit::Never]);
        assert!(fits.is_sorted(), "a smaller card is never the better one");
    }
}
