//! What the cost model says. A figure that cannot be known is `None`, never 0.

use super::extrapolation::Extrapolation;
use super::from_plan::Unknown;
use super::part_intervals::{PartInterval, Widths};

/// Both halves, and what a run of the plan takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// Memory of the fullest GPU.
    pub memory: Option<Memory>,
    /// Time of a step.
    pub speed: Option<Speed>,
    /// Time and money of the run.
    pub run: Option<Run>,
    /// Why there is no memory.
    pub no_memory: Option<Unknown>,
    /// Why there is no speed.
    pub no_speed: Option<Unknown>,
    /// Why there is no run.
    pub no_run: Option<Unknown>,
}

/// Where the true figure is expected nine times in ten.
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
    /// What the card offers; `None` where the card is not known.
    pub capacity_bytes: Option<f64>,
    /// Whether it fits.
    pub fits: Option<bool>,
    /// Where the peak is expected.
    pub interval: Interval,
    /// What one host needs beside.
    pub host_bytes: Option<f64>,
    /// Where that is expected, by bounds: of GPU jobs no run of the table measured a host.
    pub host_interval: Option<Interval>,
    /// The peak while a checkpoint is saved.
    pub peak_checkpoint_bytes: Option<f64>,
    /// Where that is expected, by the errors of a step's peaks: what was measured are these.
    pub peak_checkpoint_interval: Option<Interval>,
    /// Its parts.
    pub parts: MemoryParts,
    /// Where each part is expected.
    pub part_intervals: MemoryParts<PartInterval>,
}

impl Memory {
    /// How it stands to its card; `None` where the card is not known.
    pub fn fit(&self) -> Option<Fit> {
        Some(Fit::of(self.per_gpu_bytes, self.interval, self.capacity_bytes?))
    }
}

/// How a predicted memory stands to a card: the one judgement of plans, checks, edits and searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It fits even at the upper end of its interval.
    Surely,
    /// It fits, but not at the upper end: it may not.
    Maybe,
    /// It does not, but at the lower end of the interval.
    Hardly,
    /// It does not even there.
    Never,
}

impl Fit {
    /// Of a memory, its interval and what the card has, bytes.
    pub fn of(bytes: f64, interval: Interval, capacity: f64) -> Self {
        match capacity {
            card if interval.high <= card => Self::Surely,
            card if bytes <= card => Self::Maybe,
            card if interval.low <= card => Self::Hardly,
            _ => Self::Never,
        }
    }

    /// In words: `fits`, `may not fit`, `does not fit`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Surely => "fits",
            Self::Maybe => "may not fit",
            Self::Hardly | Self::Never => "does not fit",
        }
    }
}

/// Parts of a GPU's memory, bytes, and their sum is the whole; or what is said of each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryParts<T = f64> {
    /// Weights that stay.
    pub parameters: T,
    /// Gradients that stay.
    pub gradients: T,
    /// Moments and 32-bit copies.
    pub optimizer: T,
    /// What the backward pass needs.
    pub activations: T,
    /// Units gathered for the moment.
    pub gathered: T,
    /// Logits and loss.
    pub logits: T,
    /// Buffers of collectives and of the optimizer.
    pub buffers: T,
    /// CUDA context, allocator reserve.
    pub reserve: T,
}

impl MemoryParts {
    /// The sum, bytes.
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
    /// Over the whole cluster.
    pub tokens_per_second: f64,
    /// Sequences, over the whole cluster.
    pub samples_per_second: f64,
    /// Operations that the hardware does, TFLOP/s per GPU, recomputation included.
    pub tflops: Tflops,
    /// Model FLOPs over peak, a fraction.
    pub mfu: f64,
    /// Where the step time is expected, seconds.
    pub interval: Interval,
    /// In what it lies beyond the runs that were measured, which makes the interval wider.
    pub extrapolation: Extrapolation,
    /// Of what the interval is made.
    pub widths: Widths,
    /// Its parts.
    pub parts: SpeedParts,
    /// What goes over links in it, hidden behind work or waited for.
    pub communication: Communication,
}

/// Communication of a step by collective, seconds of one GPU, hidden and exposed together; or what is
/// said of each.
///
/// What tensor ranks, stages and experts exchange is waited for whole. The others run beside the passes: of them
/// [`SpeedParts::exposed_communication`] holds what the work does not hide.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Communication<T = f64> {
    /// All-reduces of a layer's tensor group.
    pub tensor: T,
    /// Sends between stages.
    pub pipeline: T,
    /// Tokens to their experts and back.
    pub experts: T,
    /// Keys and values around the ring of a context group, beside the attention.
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
    /// The sum, seconds.
    pub fn total(&self) -> f64 {
        self.waited() + self.beside()
    }

    /// What nothing hides, seconds.
    pub fn waited(&self) -> f64 {
        self.tensor + self.pipeline + self.experts
    }

    /// What runs beside the passes, seconds.
    pub fn beside(&self) -> f64 {
        self.context + self.gather + self.replicas + self.gradients
    }
}

/// TFLOP/s per GPU, by convention.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tflops {
    /// Forward and backward, no recomputation.
    pub model: f64,
    /// With what is computed again.
    pub hardware: f64,
    /// 6 N, frozen weights counted like others.
    pub six_n: f64,
    /// 8 N, likewise.
    pub eight_n: f64,
}

/// Parts of a step, seconds, and their sum is the whole; or what is said of each.
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
    /// The GPU waits for data; `None` where nothing says how fast they come, and they are taken to keep up.
    pub input: Option<T>,
}

impl SpeedParts {
    /// The sum, seconds.
    pub fn total(&self) -> f64 {
        self.compute
            + self.exposed_communication
            + self.bubble
            + self.offload
            + self.optimizer
            + self.input.unwrap_or(0.0)
    }
}

/// Time and money of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Billed time, seconds: the sum of the parts.
    pub seconds: f64,
    /// Where it is expected, seconds.
    pub interval: Interval,
    /// Its parts.
    pub parts: RunParts,
    /// Where these are expected.
    pub part_intervals: RunPartIntervals,
    /// Checkpoints, where the job writes any.
    pub checkpoint: Option<Checkpoints>,
    /// What interruptions make of it, where their rate is given and it ends.
    pub spot: Option<Spot>,
    /// Whether at the given rate of interruptions it takes more than a year even if its steps are as quick as can be.
    pub never_ends: bool,
    /// US dollars that are expected, where prices are known: with interruptions at a given rate those of the expected
    /// time, work that is done again included.
    pub cost_usd: Option<f64>,
    /// The same without the file systems whose price is not known: what it costs at least.
    pub least_usd: Option<f64>,
    /// Its parts.
    pub cost_parts: CostParts,
}

/// Where each part of a run is expected, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunPartIntervals {
    /// Image, start of the processes, model.
    pub startup: Interval,
    /// The data that are copied before the start; `None` where their size is not known.
    pub download: Option<Interval>,
    /// Optimizer steps.
    pub training: Interval,
    /// Writing checkpoints.
    pub checkpoints: Interval,
    /// What interruptions take; `None` where no rate is given, and where at the high end no end is.
    pub interruptions: Option<Interval>,
}

impl Run {
    /// Billed time that is expected, seconds: with what interruptions make of it, where their rate is given.
    pub fn expected_seconds(&self) -> f64 {
        self.spot.map_or(self.seconds, |spot| spot.expected_seconds)
    }

    /// Where that is expected, seconds; `None` where at the high end no end is.
    pub fn expected_interval(&self) -> Option<Interval> {
        match &self.spot {
            Some(spot) => spot.interval,
            None => Some(self.interval),
        }
    }

    /// Where the cost is expected, US dollars: all of it is paid by the time that the run lasts, with what interruptions at
    /// a given rate make of it.
    pub fn cost_interval(&self) -> Option<Interval> {
        match &self.spot {
            Some(spot) => spot.expected_usd_interval,
            None => Some(self.over_interval(self.cost_usd?)),
        }
    }

    /// The same of what is known of it.
    pub fn least_interval(&self) -> Option<Interval> {
        Some(self.over_interval(self.least_usd?))
    }

    fn over_interval(&self, usd: f64) -> Interval {
        let per_second = usd / self.seconds;
        Interval { low: per_second * self.interval.low, high: per_second * self.interval.high }
    }
}

/// Parts of a run, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunParts {
    /// Image, start of the processes, model.
    pub startup: f64,
    /// The data that are copied before the start; `None` where their size is not known.
    pub download: Option<f64>,
    /// Optimizer steps.
    pub training: f64,
    /// Writing checkpoints.
    pub checkpoints: f64,
}

impl RunParts {
    /// What is known of the time before the first step, seconds. A download of unknown size is left out of it and of what is
    /// summed from it: without it the run's time would not be known at all, and with it longer; [`RunParts::download`]
    /// stays `None`, and a note of plan.json says what is missing.
    pub fn start(&self) -> f64 {
        self.startup + self.download.unwrap_or(0.0)
    }
}

/// What checkpoints take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Checkpoints {
    /// Bytes of one, for a full resumption.
    pub bytes: f64,
    /// Seconds in which one is written.
    pub seconds: f64,
    /// Where that is expected, seconds.
    pub interval: Interval,
    /// The interval with the least expected loss (Young and Daly), seconds; `None` where nothing was given of how often
    /// nodes fail or are taken away.
    pub best_interval_seconds: Option<f64>,
    /// The same at both ends of [`Self::interval`], seconds; how often nodes fail is taken as it was given.
    pub best_interval: Option<Interval>,
}

/// A run with interruptions that come by chance at a known rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spot {
    /// Expected billed time, seconds.
    pub expected_seconds: f64,
    /// The same where a run without interruptions takes the low end of its interval.
    pub low_seconds: f64,
    /// Where the expected time lies as the run without interruptions does in its interval; `None` where at the high end
    /// no end is expected.
    pub interval: Option<Interval>,
    /// Time that nine runs in ten stay below, seconds; of the interruptions alone, at the predicted step time.
    pub p90_seconds: f64,
    /// The same at both ends of the interval of a run without interruptions.
    pub p90_interval: Option<Interval>,
    /// Interruptions that are expected.
    pub interruptions: f64,
    /// The same at both ends of the interval of a run without interruptions.
    pub interruptions_interval: Option<Interval>,
    /// US dollars of the expected time, work that is done again included; where prices are known.
    pub expected_usd: Option<f64>,
    /// US dollars of both ends of the expected time's interval.
    pub expected_usd_interval: Option<Interval>,
    /// US dollars of the time that nine runs in ten stay below.
    pub p90_usd: Option<f64>,
    /// US dollars of both ends of that time's interval.
    pub p90_usd_interval: Option<Interval>,
}

/// Parts of the cost, US dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostParts {
    /// Instances.
    pub instances: Option<f64>,
    /// Storage volumes.
    pub volumes: Option<f64>,
    /// File systems for the run's time.
    pub file_systems: Option<f64>,
    /// The same of those whose price is known.
    pub least_file_systems: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_between_the_ends_of_an_interval_is_no_certainty() {
        let interval = Interval { low: 8.0, high: 12.0 };
        let fits = [12.0, 11.9, 10.0, 9.9, 8.0, 7.9].map(|card| Fit::of(10.0, interval, card));
        assert_eq!(fits, [Fit::Surely, Fit::Maybe, Fit::Maybe, Fit::Hardly, Fit::Hardly, Fit::Never]);
        assert!(fits.is_sorted(), "a smaller card is never the better one");
    }
}
