//! The members of plan.json that are predicted: memory, speed, run.

use super::json::{
    Checkpoint, Communication, CostParts, CostPartsInterval, Evidence, Interval, Memory, MemoryParts,
    PartInterval, Run, RunParts, RunPartsInterval, Speed, SpeedParts, Spot, Tflops, TflopsInterval,
};
use super::sections::round_to_u64;
use super::{Subject, cost};
use trainc_ir::{Cost, Plan, Price};
use trainc_predict::bills::on_demand_cost;
use trainc_predict::{self as predict, Prediction, UNDECIDED_LAYOUT};

fn interval(interval: predict::Interval) -> Interval {
    Interval { low: interval.low, high: interval.high }
}

pub(super) fn memory(prediction: &Prediction, capacity_bytes: Option<u64>) -> Memory {
    let Some(memory) = &prediction.memory else { return Memory { capacity_bytes, ..Memory::default() } };
    let parts = &memory.parts;
    let parts = [
        parts.parameters,
        parts.gradients,
        parts.optimizer,
        parts.activations,
        parts.gathered,
        parts.logits,
        parts.buffers,
        parts.reserve,
    ]
    .map(round_to_u64);
    let [parameters, gradients, optimizer, activations, gathered, logits, buffers, reserve] = parts;
    Memory {
        // The sum of the rounded parts, so that they add up.
        per_gpu_bytes: Some(parts.iter().copied().fold(0, u64::saturating_add)),
        capacity_bytes,
        fits: memory.fits,
        interval: Some(interval(memory.interval)),
        host_bytes: memory.host_bytes.map(round_to_u64),
        host_bytes_interval: memory.host_interval.map(interval),
        peak_checkpoint_bytes: memory.peak_checkpoint_bytes.map(round_to_u64),
        peak_checkpoint_bytes_interval: memory.peak_checkpoint_interval.map(interval),
        parts: MemoryParts {
            parameters: Some(parameters),
            gradients: Some(gradients),
            optimizer: Some(optimizer),
            activations: Some(activations),
            gathered: Some(gathered),
            logits: Some(logits),
            buffers: Some(buffers),
            reserve: Some(reserve),
        },
        parts_interval: parts_interval(&memory.part_intervals),
    }
}

/// Rounds the intervals to bytes; those of counted parts equal the figure.
fn parts_interval(parts: &predict::MemoryParts<predict::PartInterval>) -> MemoryParts<PartInterval> {
    let say = |part: predict::PartInterval| {
        let predict::PartInterval { interval: predict::Interval { low, high }, basis } = part;
        Some(PartInterval { low: low.round(), high: high.round(), origin: basis.as_str() })
    };
    MemoryParts {
        parameters: say(parts.parameters),
        gradients: say(parts.gradients),
        optimizer: say(parts.optimizer),
        activations: say(parts.activations),
        gathered: say(parts.gathered),
        logits: say(parts.logits),
        buffers: say(parts.buffers),
        reserve: say(parts.reserve),
    }
}

fn speed_parts<T, U>(parts: predict::SpeedParts<T>, say: impl Fn(T) -> U) -> SpeedParts<U> {
    SpeedParts {
        compute: Some(say(parts.compute)),
        exposed_communication: Some(say(parts.exposed_communication)),
        bubble: Some(say(parts.bubble)),
        offload: Some(say(parts.offload)),
        optimizer: Some(say(parts.optimizer)),
        input: parts.input.map(say),
    }
}

/// Converts the communication; `gather` includes the reduce-scatter.
fn communication<T, U>(links: predict::Communication<T>, say: impl Fn(T) -> U) -> Communication<U> {
    Communication {
        tensor: Some(say(links.tensor)),
        pipeline: Some(say(links.pipeline)),
        experts: Some(say(links.experts)),
        context: Some(say(links.context)),
        gather: Some(say(links.gather)),
        replicas: Some(say(links.replicas)),
        gradients: Some(say(links.gradients)),
    }
}

/// Returns the interval of a rate from that of the step time.
fn rate_interval(rate: f64, speed: &predict::Speed) -> Interval {
    let work = rate * speed.step_seconds;
    Interval { low: work / speed.interval.high, high: work / speed.interval.low }
}

/// Returns the measured runs that the step time is conditioned on.
pub(super) fn evidence(subject: &Subject) -> Option<Evidence> {
    let Prediction { speed, finished_runs, .. } = subject.prediction;
    let of_steps = speed.as_ref().and_then(|speed| speed.evidence).map(|used| (used.same, used.near));
    let (same, near) = of_steps.or(finished_runs.map(|runs| (runs, 0)))?;
    let runs = subject.constants.evidence()?;
    Some(Evidence { file: runs.file.clone(), newest: runs.newest.clone(), same, near })
}

pub(super) fn speed(prediction: &Prediction) -> Speed {
    let is_undecided = prediction.no_speed == Some(UNDECIDED_LAYOUT);
    let Some(speed) = &prediction.speed else { return Speed { is_undecided, ..Speed::default() } };
    Speed {
        is_undecided: false,
        step_seconds: Some(speed.step_seconds),
        tokens_per_second: Some(speed.tokens_per_second),
        samples_per_second: Some(speed.samples_per_second),
        tflops_per_gpu: Some(speed.tflops.hardware),
        mfu: Some(speed.mfu),
        tflops: Tflops {
            model: Some(speed.tflops.model),
            hardware: Some(speed.tflops.hardware),
            six_n: Some(speed.tflops.six_n),
            eight_n: Some(speed.tflops.eight_n),
        },
        interval: Some(interval(speed.interval)),
        tokens_per_second_interval: Some(rate_interval(speed.tokens_per_second, speed)),
        samples_per_second_interval: Some(rate_interval(speed.samples_per_second, speed)),
        tflops_per_gpu_interval: Some(rate_interval(speed.tflops.hardware, speed)),
        tflops_interval: TflopsInterval {
            model: Some(rate_interval(speed.tflops.model, speed)),
            hardware: Some(rate_interval(speed.tflops.hardware, speed)),
            six_n: Some(rate_interval(speed.tflops.six_n, speed)),
            eight_n: Some(rate_interval(speed.tflops.eight_n, speed)),
        },
        mfu_interval: Some(rate_interval(speed.mfu, speed)),
        parts: speed_parts(speed.parts, |seconds| seconds),
        parts_interval: speed_parts(speed.part_intervals(), interval),
        communication: communication(speed.communication, |seconds| seconds),
        communication_interval: communication(speed.communication_intervals(), interval),
    }
}

/// Returns the sources of the prices, each once; `None` if an instance price is not known.
fn price_source(plan: &Plan) -> Option<String> {
    let parts = &plan.fleet.first()?.parts;
    let all: Vec<&Price> = parts.iter().map(|part| part.price.as_ref()).collect::<Option<_>>()?;
    let mut words: Vec<String> = all
        .into_iter()
        .map(|price| {
            let estimated = if price.estimate().is_some() { "estimate from " } else { "" };
            match &price.date {
                Some(date) => format!("{estimated}{} {date}", price.source),
                None => format!("{estimated}{}", price.source),
            }
        })
        .collect();
    for price in plan.created_file_systems().filter_map(|(_, price)| price) {
        words.push(match &price.date {
            Some(date) => format!("{} {date}", price.source),
            None => price.source.clone(),
        });
    }
    words.dedup();
    (!words.is_empty()).then(|| words.join("; "))
}

pub(super) fn run(plan: &Plan, prediction: &Prediction) -> Run {
    let mut out = Run {
        steps: plan.run.steps.as_ref().map(|val| val.value),
        tokens: plan.run.tokens.as_ref().map(|val| val.value),
        most_usd: cost::max_run_usd(plan),
        price_source: price_source(plan),
        ..Run::default()
    };
    let Some(run) = &prediction.run else { return out };
    let spot = plan.job.cluster.as_ref().and_then(|cluster| cluster.spot.as_ref());
    let rate_is_given =
        plan.job.cluster.as_ref().is_some_and(|cluster| cluster.node_losses_per_hour().is_some());
    // The run would never finish at the interruption rate.
    let hopeless = rate_is_given && run.spot.is_none();
    out.seconds = (!hopeless).then(|| run.expected_seconds());
    out.interval = run.expected_interval().filter(|_| !hopeless).map(interval);
    out.parts = RunParts {
        startup: Some(run.parts.startup),
        download: run.parts.download,
        training: Some(run.parts.training),
        checkpoints: Some(run.parts.checkpoints),
        evaluation: run.parts.evaluation,
        interruptions: run.spot.map(|spot| spot.expected_seconds - run.seconds),
    };
    let between = &run.part_intervals;
    out.parts_interval = RunPartsInterval {
        startup: Some(interval(between.startup)),
        download: between.download.map(interval),
        training: Some(interval(between.training)),
        checkpoints: Some(interval(between.checkpoints)),
        evaluation: between.evaluation.map(interval),
        interruptions: between.interruptions.map(interval),
    };
    out.checkpoint = run.checkpoint.map(|checkpoint| Checkpoint {
        bytes: round_to_u64(checkpoint.bytes),
        seconds: checkpoint.seconds,
        seconds_interval: interval(checkpoint.interval),
        best_interval_seconds: checkpoint.best_interval_seconds,
        best_interval_seconds_interval: checkpoint.best_interval.map(interval),
    });
    out.spot = run.spot.map(|spot| Spot {
        expected_seconds: spot.expected_seconds,
        expected_seconds_interval: spot.interval.map(interval),
        p90_seconds: spot.p90_seconds,
        p90_seconds_interval: spot.p90_interval.map(interval),
        interruptions: spot.interruptions,
        interruptions_interval: spot.interruptions_interval.map(interval),
        expected_usd: spot.expected_usd,
        expected_usd_interval: spot.expected_usd_interval.map(interval),
        p90_usd: spot.p90_usd,
        p90_usd_interval: spot.p90_usd_interval.map(interval),
    });
    out.cost_usd = run.cost_usd;
    out.cost_usd_interval = run.cost_interval().map(interval);
    out.cost_parts = CostParts {
        instances: run.cost_parts.instances.exact(),
        volumes: run.cost_parts.volumes.exact(),
        file_systems: run.cost_parts.file_systems.exact(),
    };
    // Each part is proportional to the run time; its ends are at those of estimated prices.
    let paid = |cost: Cost| {
        let (between, seconds) = (run.expected_interval()?, run.expected_seconds());
        let ends = cost.exact().filter(|_| seconds > 0.0).map(|_| (cost.low_usd, cost.high_usd));
        ends.map(|(low, high)| Interval {
            low: low * between.low / seconds,
            high: high * between.high / seconds,
        })
    };
    out.cost_parts_interval = CostPartsInterval {
        instances: paid(run.cost_parts.instances),
        volumes: paid(run.cost_parts.volumes),
        file_systems: paid(run.cost_parts.file_systems),
    };
    // Spot prices are not known in advance, but the on-demand cost of the same hours is.
    if spot.is_some() && run.cost_usd.is_none() && !hopeless {
        let on_demand = on_demand_cost(plan, run.expected_seconds());
        out.on_demand_usd = on_demand.total_usd();
        out.on_demand_usd_interval = paid(on_demand.total());
    }
    out
}
