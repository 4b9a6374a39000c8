//! Time and cost of a run: start, download, steps, checkpoints; instances, volumes, file systems;
//! interruptions.

use super::bills::Bills;
use super::constants::{Constants, Name};
use super::from_plan::Unknown;
use super::layout::{GpuKind, Layout};
use super::memory::{WIDER_MOMENTS, resumed_bytes_per_parameter, wide_moments};
use super::prediction::{Checkpoints, CostParts, Interval, Run, RunParts, Speed, Spot};
use super::speed::forward_share;
use super::spot::predict_spot_run;
use trainc_ir::hardware::Instance;
use trainc_ir::{CheckpointInterval, Cluster, EvaluationInterval, Plan, Price, Storage};

const GIB: f64 = 1_073_741_824.0;
const HOUR: f64 = 3_600.0;

/// Bytes of a token in a packed data set, read once.
const TOKEN_BYTES: f64 = 4.0;

/// Interval of the time around the steps (start, download, saves), as shares of its prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Around {
    low: f64,
    high: f64,
}

impl Around {
    /// Reads the shares from a file of constants.
    pub fn from_constants(constants: &Constants) -> Self {
        Self { low: constants.get(Name::AroundLow), high: constants.get(Name::AroundHigh) }
    }

    /// Returns the interval of predicted seconds.
    pub fn interval_around(self, predicted: f64) -> Interval {
        Interval { low: self.low * predicted, high: self.high * predicted }
    }
}

/// Inputs of time and cost of a run other than layout and speed, read once for all layouts.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// Optimizer steps.
    steps: f64,
    /// Seconds before the first step: start, and download if known.
    startup: f64,
    download: Option<f64>,
    evaluation: Option<Evaluation>,
    /// Checkpoint interval, if the job writes checkpoints.
    every: Option<CheckpointInterval>,
    checkpoints: bool,
    /// Bytes per second that a node writes, and the maximum that file systems accept.
    node_rate: f64,
    shared_rate: Option<f64>,
    barrier: f64,
    /// Mean seconds between failures of one node: as given, and as measured elsewhere.
    node_failures: Option<f64>,
    usual_failures: f64,
    /// Losses of one node per hour, if a rate is given: spot interruptions, failures, or both.
    losses: Option<f64>,
    around: Around,
    bills: Bills,
}

impl Terms {
    /// Returns the terms of a plan, or what is missing.
    pub fn from_plan(plan: &Plan, constants: &Constants) -> Result<Self, Unknown> {
        let gpu = plan.machine.as_ref().and_then(|machine| machine.gpu.as_deref());
        let constants = constants.for_gpu(gpu.and_then(GpuKind::from_name));
        let steps = plan.run.steps.as_ref().ok_or(Unknown("the number of steps is unknown"))?.value as f64;
        let checkpoint = plan.job.checkpoint.as_ref();
        let cluster = plan.job.cluster.as_ref();
        // Checkpoints that are synchronised with S3 are written to the instances' local disks.
        let local = checkpoint.is_some_and(|checkpoint| checkpoint.s3.value().is_some());
        let shared =
            plan.job.storage.iter().filter_map(file_system_bytes_per_second).fold(f64::NAN, f64::max);
        let free = plan.instance.as_ref().is_some_and(|instance| instance.ebs_volume_ignored);
        Ok(Self {
            steps,
            startup: constants.get(Name::Startup) + compile_seconds(plan, constants),
            evaluation: Evaluation::from_plan(plan),
            download: download_seconds(plan, constants),
            every: checkpoint.and_then(|checkpoint| checkpoint.every.get()),
            checkpoints: checkpoint.is_some(),
            node_rate: constants.get(Name::Checkpoint),
            shared_rate: (!local && !shared.is_nan()).then_some(shared),
            barrier: constants.get(Name::Barrier),
            node_failures: cluster
                .and_then(|cluster| cluster.node_mtbf_seconds.get())
                .map(|seconds| seconds as f64),
            usual_failures: constants.get(Name::NodeFailures),
            losses: cluster.and_then(Cluster::node_losses_per_hour),
            around: Around::from_constants(constants),
            bills: Bills::from_plan(plan, plan.rank_price(), free),
        })
    }

    /// Returns the terms of the same job on instances of another type, at their price if known.
    #[must_use]
    pub fn on_instance(&self, plan: &Plan, instance: &Instance, price: Option<&Price>) -> Self {
        Self { bills: Bills::from_plan(plan, price, instance.ebs_volume_ignored), ..self.clone() }
    }

    /// Returns the terms of the same job with `times` times the steps.
    #[must_use]
    pub fn with_steps_scaled(&self, share: f64) -> Self {
        Self { steps: self.steps * share, ..self.clone() }
    }

    /// Returns the expected billed seconds of such a run, including node losses at a given rate; `None` if at
    /// that rate the run is not expected to finish.
    pub fn expected_seconds(&self, run: &Run) -> Option<f64> {
        if self.losses.is_some() { run.spot.map(|spot| spot.expected_seconds) } else { Some(run.seconds) }
    }

    /// Returns the maximum US dollars of `nodes` nodes for `seconds` seconds: for spot instances at the
    /// on-demand price, if known.
    pub fn most_usd(&self, nodes: f64, seconds: f64) -> Option<f64> {
        let bills = Bills { instance: self.bills.instance_at_most, ..self.bills.clone() };
        bills.cost_of_nodes(nodes, seconds).total_usd().filter(|usd| usd.is_finite())
    }

    /// Returns true if a price of the instances is known, at least the on-demand price.
    pub fn has_instance_price(&self) -> bool {
        self.bills.instance_at_most.is_complete
    }

    /// Returns the terms of the same job with other checkpoints.
    #[must_use]
    pub fn with_checkpoints(&self, every: CheckpointInterval) -> Self {
        Self { every: Some(every), ..self.clone() }
    }

    /// Predicts the run of a layout whose step time is known.
    pub fn predict_run(&self, layout: &Layout, speed: &Speed) -> Run {
        let nodes = layout.hardware.nodes;
        let training = self.steps * speed.step_seconds;
        let evaluation = match &self.evaluation {
            Some(evaluation) => evaluation.seconds(layout, speed, self.steps),
            None => Some(0.0),
        };
        let bytes = checkpoint_bytes(layout);
        let rate = nodes * self.node_rate;
        let save = bytes / self.shared_rate.map_or(rate, |shared| rate.min(shared)) + self.barrier;
        let losses = self.losses.unwrap_or(0.0) * nodes / HOUR;
        // Without a given rate of node failures, the usual rate determines the checkpoint interval.
        let usual = if self.node_failures.is_some() { 0.0 } else { nodes / self.usual_failures.max(1.0) };
        let failures = 1.0 / (usual + losses);
        let best = best_checkpoint_interval(save, failures);
        // Seconds of training between two saves, given the seconds of a step.
        let between = |step: f64| match self.every {
            Some(CheckpointInterval::Steps(n)) => Some((n as f64).max(1.0) * step),
            Some(CheckpointInterval::Seconds(seconds)) => Some((seconds as f64).max(1.0)),
            Some(CheckpointInterval::Optimal) => Some(best),
            None => None,
        };
        let saves = match self.every {
            Some(CheckpointInterval::Steps(n)) => (self.steps / (n as f64).max(1.0)).floor(),
            _ => between(speed.step_seconds).map_or(0.0, |between| (training / between).floor()),
        };
        let mut parts = RunParts {
            startup: self.startup,
            download: self.download,
            training,
            checkpoints: saves * save,
            evaluation,
            interruptions: None,
        };
        let around = parts.startup_seconds() + parts.checkpoints;
        let evaluated = evaluation.unwrap_or(0.0);
        let seconds = around + training + evaluated;
        let at_speed = |step: f64| self.steps * step + evaluated * step / speed.step_seconds;
        let steps = Interval { low: at_speed(speed.interval.low), high: at_speed(speed.interval.high) };
        let beside = self.around.interval_around(around);
        let interval = Interval { low: beside.low + steps.low, high: beside.high + steps.high };
        let (start_between, save_between) =
            (self.around.interval_around(parts.startup_seconds()), self.around.interval_around(save));
        let interrupted = |start: f64, step: f64, save: f64| {
            let training = at_speed(step);
            predict_spot_run(losses, start, training, between(step).unwrap_or(training), save)
        };
        let spot = self.losses.map(|_| {
            // The ends assume the ends of the interval without interruptions.
            let low = interrupted(start_between.low, speed.interval.low, save_between.low);
            let high = interrupted(start_between.high, speed.interval.high, save_between.high);
            let ends = high.expected_seconds <= NEVER;
            let between = |low, high| ends.then_some(Interval { low, high });
            Spot {
                low_seconds: low.expected_seconds,
                interval: between(low.expected_seconds, high.expected_seconds),
                p90_interval: between(low.p90_seconds, high.p90_seconds),
                interruptions_interval: between(low.interruptions, high.interruptions),
                ..interrupted(parts.startup_seconds(), speed.step_seconds, save)
            }
        });
        let never_ends = spot.is_some_and(|spot| spot.low_seconds.is_nan() || spot.low_seconds > NEVER);
        let spot = spot.filter(|spot| spot.expected_seconds <= NEVER);
        parts.interruptions = spot.map(|spot| spot.expected_seconds - seconds);
        let cost_parts = match (self.losses, spot) {
            (Some(_), None) => CostParts::default(),
            _ => self.bills.cost_of_nodes(nodes, spot.map_or(seconds, |spot| spot.expected_seconds)),
        };
        let cost = |seconds: f64| self.bills.cost_of_nodes(nodes, seconds).total();
        let usd = |seconds: f64| cost(seconds).exact();
        let in_dollars = |seconds: Option<Interval>| {
            let Interval { low, high } = seconds?;
            let (low, high) = (cost(low), cost(high));
            low.exact().zip(high.exact()).map(|_| Interval { low: low.low_usd, high: high.high_usd })
        };
        let spot = spot.map(|spot| Spot {
            expected_usd: cost_parts.total_usd(),
            expected_usd_interval: in_dollars(spot.interval),
            p90_usd: usd(spot.p90_seconds),
            p90_usd_interval: in_dollars(spot.p90_interval),
            ..spot
        });
        let part_intervals = RunParts {
            startup: self.around.interval_around(parts.startup),
            download: parts.download.map(|seconds| self.around.interval_around(seconds)),
            training: Interval {
                low: self.steps * speed.interval.low,
                high: self.steps * speed.interval.high,
            },
            evaluation: evaluation.map(|seconds| Interval {
                low: seconds * speed.interval.low / speed.step_seconds,
                high: seconds * speed.interval.high / speed.step_seconds,
            }),
            checkpoints: self.around.interval_around(parts.checkpoints),
            interruptions: spot.and_then(|spot| spot.interval).map(|expected| Interval {
                low: (expected.low - interval.low).max(0.0),
                high: (expected.high - interval.high).max(0.0),
            }),
        };
        let rate_is_given = self.losses.is_some();
        Run {
            seconds,
            interval,
            parts,
            part_intervals,
            checkpoint: self.checkpoints.then_some(Checkpoints {
                bytes,
                seconds: save,
                interval: save_between,
                best_interval_seconds: rate_is_given.then_some(best),
                best_interval: rate_is_given.then(|| Interval {
                    low: best_checkpoint_interval(save_between.low, failures),
                    high: best_checkpoint_interval(save_between.high, failures),
                }),
            }),
            spot,
            never_ends,
            cost_usd: cost_parts.total_usd(),
            least_usd: cost_parts.least_usd(),
            cost_parts,
        }
    }
}

/// Evaluation during the run.
#[derive(Clone, Debug, PartialEq)]
struct Evaluation {
    every: EvaluationInterval,
    /// Sequences of one evaluation.
    sequences: f64,
    /// Number of epochs, if the run is as long as so many.
    epochs: Option<f64>,
    /// Sequences of an epoch, if known.
    epoch: Option<f64>,
}

impl Evaluation {
    fn from_plan(plan: &Plan) -> Option<Self> {
        let written = plan.job.train.evaluate.as_ref()?;
        let dataset = plan.job.train.dataset.as_ref();
        let length = plan.job.train.sequence_length.get();
        let by_tokens = || Some(dataset?.tokens.get()? as f64 / length.filter(|length| *length > 0)? as f64);
        Some(Self {
            // The worker's plan has decided when it evaluates, if it has the data for it.
            every: match &plan.worker {
                Some(worker) => EvaluationInterval::Steps(worker.run.evaluation_interval_steps?),
                None => written.every.get()?,
            },
            sequences: written.sequences.get()? as f64,
            epochs: plan.job.train.epochs.get(),
            epoch: dataset.and_then(|dataset| dataset.sequences.get()).map(|n| n as f64).or_else(by_tokens),
        })
    }

    /// Returns the seconds of all evaluations of a run of `steps` steps; `None` if their number is unknown.
    ///
    /// Each is the forward part of the training's work on as many sequences, with those of the fullest rank.
    fn seconds(&self, layout: &Layout, speed: &Speed, steps: f64) -> Option<f64> {
        let times = match self.every {
            EvaluationInterval::Steps(every) => (steps / (every as f64).max(1.0)).floor(),
            // The last batch of an epoch may be smaller than the others.
            EvaluationInterval::Epoch => match self.epochs {
                Some(epochs) => epochs.floor(),
                None => (steps / (self.epoch? / layout.work.global_sequences).ceil().max(1.0)).floor(),
            },
        };
        let at_once = layout.work.sequences_at_once();
        let readers = layout.work.global_sequences / (at_once * layout.work.passes).max(1.0);
        let of_a_rank = (self.sequences / readers.max(1.0)).ceil();
        let in_passes = speed.step_seconds - speed.parts.optimizer - speed.parts.input.unwrap_or(0.0);
        let pass = forward_share(layout) * in_passes / layout.work.passes.max(1.0);
        Some(times * of_a_rank * pass / at_once)
    }
}

/// Returns the seconds of the compilation in the first step.
fn compile_seconds(plan: &Plan, constants: &Constants) -> f64 {
    if plan.job.train.compile.get() == Some(true) { constants.get(Name::Compile) } else { 0.0 }
}

/// Returns the bytes of a full resumption, of all ranks together: weights, their 32-bit copy if the system
/// keeps one, and the moments; for an adapter only its own.
pub fn checkpoint_bytes(layout: &Layout) -> f64 {
    let wide = if layout.lora.is_none() { WIDER_MOMENTS * wide_moments(layout) } else { 0.0 };
    let trained = layout.lora.map_or(layout.model.parameters, |lora| lora.trainable);
    trained * resumed_bytes_per_parameter(layout) + wide
}

/// Returns the bandwidth of a file system, bytes per second.
fn file_system_bytes_per_second(storage: &Storage) -> Option<f64> {
    let per_tib = storage.throughput_mb_s_tib.get()? as f64 * 1e6;
    Some(storage.capacity_bytes.get()? as f64 / (1024.0 * GIB) * per_tib)
}

/// Returns Daly's higher-order estimate of the interval with the least loss, given the seconds of a save and
/// between failures (Daly 2006, eq. 37); Young's first-order one is its leading term.
pub fn best_checkpoint_interval(save: f64, failures: f64) -> f64 {
    if save >= 2.0 * failures {
        return failures;
    }
    let ratio = save / (2.0 * failures);
    (2.0 * save * failures).sqrt() * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - save
}

/// Returns the seconds to copy the data before the start, if a channel copies it; `None` if the manifest does
/// not state its size.
fn download_seconds(plan: &Plan, constants: &Constants) -> Option<f64> {
    let copied = plan
        .job
        .channels
        .iter()
        .any(|channel| channel.s3.value().is_some() && plan.job.input_mode(channel) == "file");
    if !copied {
        return Some(0.0);
    }
    let dataset = plan.job.train.dataset.as_ref()?;
    let tokens = dataset.tokens.get().map(|tokens| tokens as f64).or_else(|| {
        let sequences = dataset.sequences.get()?;
        Some(sequences as f64 * plan.job.train.sequence_length.get()? as f64)
    })?;
    Some(tokens * TOKEN_BYTES / constants.get(Name::Download))
}

/// Seconds above which a run is reported as never finishing: a year; the service stops every job within a
/// month.
const NEVER: f64 = 365.0 * 24.0 * HOUR;

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::Cost;

    #[test]
    fn the_best_interval_is_youngs_for_short_saves() {
        let young = (2.0_f64 * 20.0 * 1e6).sqrt();
        let daly = best_checkpoint_interval(20.0, 1e6);
        assert!((daly / (young - 20.0) - 1.0).abs() < 0.01, "{daly} {young}");
        assert_eq!(best_checkpoint_interval(10.0, 4.0), 4.0);
    }

    fn terms() -> Terms {
        Terms {
            steps: 1_000.0,
            startup: 300.0,
            evaluation: None,
            download: None,
            every: Some(CheckpointInterval::Seconds(86_400)),
            checkpoints: true,
            node_rate: 2e9,
            shared_rate: None,
            barrier: 3.0,
            node_failures: None,
            usual_failures: 2e7,
            losses: None,
            around: Around { low: 0.6, high: 2.0 },
            bills: Bills { instance: Cost::of_item(Some(10.0)), ..Bills::default() },
        }
    }

    /// Returns terms with nodes that fail once in `seconds` seconds.
    fn failing(seconds: f64) -> Terms {
        Terms { node_failures: Some(seconds), losses: Some(HOUR / seconds), ..terms() }
    }

    /// Without a rate the time is unknown, and at a rate at which the run never finishes it is infinite.
    #[test]
    fn what_cannot_be_known_is_none() {
        let architecture = trainc_ir::architecture::Architecture::from_dimensions(
            trainc_ir::architecture::Family::GPT2,
            &trainc_ir::architecture::Dimensions {
                hidden: Some(1_024),
                layers: Some(4),
                heads: Some(16),
                ..Default::default()
            },
        );
        let model = architecture.map(|(a, _)| super::super::Model::from_architecture(&a, a.default_class()));
        let layout = super::super::samples::one_gpu(model.unwrap());
        let speed =
            Speed { step_seconds: 100.0, interval: Interval { low: 90.0, high: 110.0 }, ..Speed::default() };
        let run = |terms: &Terms| terms.predict_run(&layout, &speed);
        let best = |run: &Run| run.checkpoint.and_then(|checkpoint| checkpoint.best_interval_seconds);
        let plain = run(&terms());
        assert_eq!((best(&plain), plain.spot, plain.never_ends), (None, None, false));
        assert!((plain.seconds - 300.0 - 100_000.0 - plain.parts.checkpoints).abs() < 1e-6, "{plain:?}");
        let fails = run(&failing(1e7));
        assert!(best(&fails).is_some() && fails.spot.unwrap().expected_seconds > fails.seconds);
        assert_eq!(failing(1e7).expected_seconds(&fails), fails.spot.map(|spot| spot.expected_seconds));
        let rare = run(&Terms { losses: Some(0.01), ..terms() });
        let spot = rare.spot.unwrap();
        assert!(best(&rare).is_some() && !rare.never_ends && spot.low_seconds < spot.expected_seconds);
        // The expectation lies in its interval, which begins at the low end and is wider than the steps'
        // alone.
        let (expected, tenth) = (spot.interval.unwrap(), spot.p90_interval.unwrap());
        assert!((expected.low - spot.low_seconds).abs() < 1e-9 && expected.high > spot.expected_seconds);
        assert!(tenth.low < spot.p90_seconds && spot.p90_seconds < tenth.high, "{tenth:?}");
        // At both ends interruptions only add to the run without them.
        assert!(expected.low > rare.interval.low && expected.high > rare.interval.high, "{expected:?}");
        let usd = spot.expected_usd_interval.zip(spot.expected_usd);
        assert!(usd.is_none_or(|(interval, usd)| interval.low < usd && usd < interval.high), "{usd:?}");
        assert_eq!(rare.cost_interval(), spot.expected_usd_interval);
        let often = Terms { losses: Some(0.01), ..terms() };
        assert_eq!(often.expected_seconds(&rare), Some(spot.expected_seconds));
        assert_eq!(terms().expected_seconds(&plain), Some(plain.seconds));
        let ever = run(&Terms { losses: Some(100.0), ..terms() });
        assert_eq!((ever.spot, ever.never_ends, ever.cost_usd), (None, true, None));
        let hopeless = Terms { losses: Some(100.0), ..terms() };
        assert_eq!(hopeless.expected_seconds(&ever), None);
        // The spot price is unknown; the on-demand price of two instances for half an hour is the maximum.
        let bills = Bills {
            instance_at_most: Cost::of_item(Some(10.0)),
            beside: Cost::ZERO,
            volumes_beside: Cost::ZERO,
            file_systems: Cost::ZERO,
            ..Bills::default()
        };
        let unpriced = Terms { bills, ..terms() };
        assert_eq!((run(&unpriced).cost_usd, unpriced.most_usd(2.0, 1_800.0)), (None, Some(10.0)));
    }

    /// By hand: a save of 20 s is expected to take 12 to 40; Young's interval for failures 100,000 s apart,
    /// sqrt(2 s f), is then 1,549 to 2,828 s around 2,000, minus the save and with Daly's small terms.
    #[test]
    fn a_save_and_the_best_interval_have_an_interval() {
        for (low, high, failures) in [(12.0, 40.0, 1e5), (1e4, 4e4, 1e4), (3e4, 1e5, 1e4)] {
            assert!(
                best_checkpoint_interval(low, failures) <= best_checkpoint_interval(high, failures),
                "{low} {high} {failures}"
            );
        }
        let young = |save: f64| (2.0 * save * 1e5_f64).sqrt();
        assert!((young(12.0) - 1_549.2).abs() < 0.1 && (young(40.0) - 2_828.4).abs() < 0.1);
        for save in [12.0, 20.0, 40.0] {
            let found = best_checkpoint_interval(save, 1e5);
            assert!((found + save - young(save)).abs() < 0.006 * young(save), "{found}");
        }
        let model = trainc_ir::architecture::Architecture::from_dimensions(
            trainc_ir::architecture::Family::GPT2,
            &trainc_ir::architecture::Dimensions {
                hidden: Some(1_024),
                layers: Some(4),
                heads: Some(16),
                ..Default::default()
            },
        )
        .map(|(a, _)| super::super::Model::from_architecture(&a, a.default_class()));
        let layout = super::super::samples::one_gpu(model.unwrap());
        let speed =
            Speed { step_seconds: 100.0, interval: Interval { low: 90.0, high: 110.0 }, ..Speed::default() };
        let found = failing(1e5).predict_run(&layout, &speed).checkpoint.unwrap();
        let near =
            |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
        near(found.interval.low, 0.6 * found.seconds);
        near(found.interval.high, 2.0 * found.seconds);
        let (best, between) = (found.best_interval_seconds.unwrap(), found.best_interval.unwrap());
        assert!(between.low < best && best < between.high, "{found:?}");
        let unknown = terms().predict_run(&layout, &speed).checkpoint.unwrap();
        assert_eq!((unknown.best_interval_seconds, unknown.best_interval), (None, None));
    }

    /// 8 ranks with micro-batches of 4, so that the fullest has 63 of 500 sequences.
    #[test]
    fn an_evaluation_is_the_forward_part_of_its_passes() {
        let mut layout = crate::samples::h100_fsdp();
        layout.work.micro_batch_size = 4.0;
        (layout.work.passes, layout.work.global_sequences) = (2.0, 64.0);
        (layout.recompute, layout.lora) = (crate::Recompute::None, None);
        let speed = Speed { step_seconds: 12.0, ..Speed::default() };
        let of = |every, epochs, epoch| Evaluation { every, sequences: 500.0, epochs, epoch };
        let steps = |evaluation: Evaluation| evaluation.seconds(&layout, &speed, 1_000.0);
        let every = EvaluationInterval::Steps(300);
        // A third of the 6 seconds of a pass with 4 sequences, thrice in a thousand steps.
        let seconds = steps(of(every, None, None)).unwrap();
        assert!((seconds - 3.0 * 63.0 * 0.5).abs() < 1e-6, "{seconds}");
        assert_eq!(steps(of(EvaluationInterval::Steps(2_000), None, None)), Some(0.0));
        assert_eq!(steps(of(EvaluationInterval::Epoch, None, None)), None);
        // 499.02 batches are 500 steps.
        let twice = steps(of(EvaluationInterval::Epoch, None, Some(31_937.0))).unwrap();
        assert!((twice - 2.0 * 63.0 * 0.5).abs() < 1e-6, "{twice}");
        let ten = steps(of(EvaluationInterval::Epoch, Some(10.0), Some(65.0))).unwrap();
        assert!((ten - 10.0 * 63.0 * 0.5).abs() < 1e-6, "{ten}");
    }

    #[test]
    fn the_best_interval_has_the_least_waste() {
        let (save, failures) = (60.0, 20_000.0);
        let waste = |interval: f64| save / interval + (interval + save) / (2.0 * failures);
        let best = best_checkpoint_interval(save, failures);
        assert!(waste(best) <= waste(best * 1.3) && waste(best) <= waste(best / 1.3));
    }
}
