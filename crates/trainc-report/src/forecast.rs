//! The members of plan.json that are predicted: memory, speed, run.

use super::json::{Evidence, Memory, Run, Speed};
use super::{Subject, cost};
use trainc_ir::{Cost, Plan, Price};
use trainc_predict::bills::on_demand_cost;
use trainc_predict::{self as predict, Interval, PartInterval, Prediction, UNDECIDED_LAYOUT, round_to_u64};

pub(super) fn memory(prediction: &Prediction, capacity_bytes: Option<u64>) -> Memory {
    let Some(memory) = &prediction.memory else { return Memory { capacity_bytes, ..Memory::default() } };
    let parts = memory.parts.map(round_to_u64);
    Memory {
        // The sum of the rounded parts, so that they add up.
        per_gpu_bytes: Some(parts.values().into_iter().fold(0, u64::saturating_add)),
        capacity_bytes,
        fits: memory.fits,
        interval: Some(memory.interval),
        host_bytes: memory.host_bytes.map(round_to_u64),
        host_bytes_interval: memory.host_interval,
        peak_checkpoint_bytes: memory.peak_checkpoint_bytes.map(round_to_u64),
        peak_checkpoint_bytes_interval: memory.peak_checkpoint_interval,
        parts: parts.map(Some),
        parts_interval: memory.part_intervals.map(|part| {
            // In bytes; those of counted parts equal the figure.
            let Interval { low, high } = part.interval;
            Some(PartInterval { interval: Interval { low: low.round(), high: high.round() }, ..part })
        }),
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
        tflops: speed.tflops.map(Some),
        interval: Some(speed.interval),
        tokens_per_second_interval: Some(rate_interval(speed.tokens_per_second, speed)),
        samples_per_second_interval: Some(rate_interval(speed.samples_per_second, speed)),
        tflops_per_gpu_interval: Some(rate_interval(speed.tflops.hardware, speed)),
        tflops_interval: speed.tflops.map(|rate| Some(rate_interval(rate, speed))),
        mfu_interval: Some(rate_interval(speed.mfu, speed)),
        parts: speed.parts.map(Some),
        parts_interval: speed.part_intervals().map(Some),
        communication: speed.communication.map(Some),
        communication_interval: speed.communication_intervals().map(Some),
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
    out.interval = run.expected_interval().filter(|_| !hopeless);
    (out.parts, out.parts_interval) = (run.parts.map(Some), run.part_intervals.map(Some));
    (out.checkpoint, out.spot) = (run.checkpoint, run.spot);
    out.cost_usd = run.cost_usd;
    out.cost_usd_interval = run.cost_interval();
    out.cost_parts = run.cost_parts.map(Cost::exact);
    // Each part is proportional to the run time; its ends are at those of estimated prices.
    let paid = |cost: Cost| {
        let (between, seconds) = (run.expected_interval()?, run.expected_seconds());
        let ends = cost.exact().filter(|_| seconds > 0.0).map(|_| (cost.low_usd, cost.high_usd));
        ends.map(|(low, high)| Interval {
            low: low * between.low / seconds,
            high: high * between.high / seconds,
        })
    };
    out.cost_parts_interval = run.cost_parts.map(paid);
    // Spot prices are not known in advance, but the on-demand cost of the same hours is.
    if spot.is_some() && run.cost_usd.is_none() && !hopeless {
        let on_demand = on_demand_cost(plan, run.expected_seconds());
        out.on_demand_usd = on_demand.total_usd();
        out.on_demand_usd_interval = paid(on_demand.total());
    }
    out
}
