//! Predictions of the cost model. An unknown figure is `None`, never 0.

use super::extrapolation::Extrapolation;
use super::from_plan::Unknown;
use super::part_intervals::{PartInterval, Widths};
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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Lower end, in the figure's unit.
    pub low: f64,
    /// Upper end, in the figure's unit.
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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryParts<T = f64> {
    /// Resident weights.
    pub parameters: T,
    /// Resident gradients.
    pub gradients: T,
    /// Moments and 32-bit copies.
    pub optimizer: T,
    /// Memory of the backward pass.
    pub activations: T,
    /// Temporarily gathered units.
    pub gathered: T,
    /// Logits and loss.
    pub logits: T,
    /// Buffers of collectives and of the optimizer.
    pub buffers: T,
    /// CUDA context, allocator reserve.
    pub reserve: T,
}

impl MemoryParts {
    /// Returns the sum, bytes.
    pub fn total(&self) -> f64 {
        self.parameters
            + self.gradients
            + self.optimizer
            + self.activations
            + self.gathered
            + self.logits
            + self.buffers
            + self.reserve
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
/// compute: [`SpeedParts::exposed_communication`] holds its exposed part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Communication<T = f64> {
    /// All-reduces of a layer's tensor group.
    pub tensor: T,
    /// Sends between stages.
    pub pipeline: T,
    /// Tokens to their experts and back.
    pub experts: T,
    /// Keys and values around the ring of a context group, in parallel with attention.
    pub context: T,
    /// All-gather of parameters and reduce-scatter of gradients inside a shard group.
    pub gather: T,
    /// Of `gather`, the reduce-scatter.
    pub scatter: T,
    /// All-reduce of each shard's gradients over the replicas.
    pub replicas: T,
    /// All-reduce of whole gradients over all data ranks.
    pub gradients: T,
}

impl Communication {
    /// Returns each multiplied by a factor.
    pub(super) fn scaled(&self, factor: f64) -> Self {
        Self {
            tensor: factor * self.tensor,
            pipeline: factor * self.pipeline,
            experts: factor * self.experts,
            context: factor * self.context,
            gather: factor * self.gather,
            scatter: factor * self.scatter,
            replicas: factor * self.replicas,
            gradients: factor * self.gradients,
        }
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

/// TFLOP/s per GPU, by convention.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tflops {
    /// Forward and backward, no recomputation.
    pub model: f64,
    /// Including recomputation.
    pub hardware: f64,
    /// 6 N, frozen weights counted like others.
    pub six_n: f64,
    /// 8 N, likewise.
    pub eight_n: f64,
}

/// Parts of a step, in seconds (they add up to the total), or a value per part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpeedParts<T = f64> {
    /// The GPU computes.
    pub compute: T,
    /// The GPU waits for other GPUs.
    pub exposed_communication: T,
    /// The pipeline fills and drains.
    pub bubble: T,
    /// The GPU waits for the host's memory.
    pub offload: T,
    /// The optimizer's step.
    pub optimizer: T,
    /// The GPU waits for data; `None` if their rate is unknown, and data loading is assumed to keep up.
    pub input: Option<T>,
}

impl SpeedParts {
    /// Returns each multiplied by a factor.
    pub(super) fn scaled(&self, factor: f64) -> Self {
        Self {
            compute: factor * self.compute,
            exposed_communication: factor * self.exposed_communication,
            bubble: factor * self.bubble,
            offload: factor * self.offload,
            optimizer: factor * self.optimizer,
            input: self.input.map(|input| factor * input),
        }
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
    pub part_intervals: RunPartIntervals,
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

/// Intervals of the parts of a run, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunPartIntervals {
    /// Image, start of the processes, model.
    pub startup: Interval,
    /// Copying the data before the start; `None` if their size is unknown.
    pub download: Option<Interval>,
    /// Optimizer steps.
    pub training: Interval,
    /// Writing checkpoints.
    pub checkpoints: Interval,
    /// Evaluations; `None` if their number is unknown.
    pub evaluation: Option<Interval>,
    /// Time lost to interruptions; `None` without a rate, or if the run does not finish at the upper end.
    pub interruptions: Option<Interval>,
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

/// Parts of a run, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunParts {
    /// Image, start of the processes, model.
    pub startup: f64,
    /// Copying the data before the start; `None` if their size is unknown.
    pub download: Option<f64>,
    /// Optimizer steps.
    pub training: f64,
    /// Writing checkpoints.
    pub checkpoints: f64,
    /// Evaluations; `None` if their number is unknown.
    pub evaluation: Option<f64>,
}

impl RunParts {
    /// Returns the known part of the time before the first step, seconds. Excludes a download of unknown
    /// size, so the run takes longer than predicted; [`RunParts::download`] is then `None`, and a note in
    /// plan.json says so.
    pub fn startup_seconds(&self) -> f64 {
        self.startup + self.download.unwrap_or(0.0)
    }
}

/// Cost of checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Checkpoints {
    /// Bytes of one, for a full resumption.
    pub bytes: f64,
    /// Seconds to write one.
    pub seconds: f64,
    /// Interval, seconds.
    pub interval: Interval,
    /// The interval with the least expected loss (Young and Daly), seconds; `None` if the rate of node
    /// failures or interruptions is not given.
    pub best_interval_seconds: Option<f64>,
    /// The same at both ends of [`Self::interval`], seconds, at the given rate of node failures.
    pub best_interval: Option<Interval>,
}

/// A run with random interruptions at a known rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spot {
    /// Expected billed time, seconds.
    pub expected_seconds: f64,
    /// The same if a run without interruptions takes the low end of its interval.
    pub low_seconds: f64,
    /// Interval of the expected time, from that of the run without interruptions; `None` if the run does not
    /// finish at the upper end.
    pub interval: Option<Interval>,
    /// Time that nine in ten runs stay below, seconds; includes the variation of interruptions only, at the
    /// predicted step time.
    pub p90_seconds: f64,
    /// The same at both ends of the interval of a run without interruptions.
    pub p90_interval: Option<Interval>,
    /// Expected number of interruptions.
    pub interruptions: f64,
    /// The same at both ends of the interval of a run without interruptions.
    pub interruptions_interval: Option<Interval>,
    /// US dollars of the expected time, including repeated work; if prices are known.
    pub expected_usd: Option<f64>,
    /// US dollars of both ends of the expected time's interval.
    pub expected_usd_interval: Option<Interval>,
    /// US dollars of the time that nine in ten runs stay below.
    pub p90_usd: Option<f64>,
    /// US dollars of both ends of that time's interval.
    pub p90_usd_interval: Option<Interval>,
}

/// Parts of the cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostParts {
    /// Instances.
    pub instances: Cost,
    /// Storage volumes.
    pub volumes: Cost,
    /// File systems for the run's time.
    pub file_systems: Cost,
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
