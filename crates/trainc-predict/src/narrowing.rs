//! The measurement that would narrow the interval of a step time most: a few steps on few nodes, or a probe
//! of the cluster.

use super::Constants;
use super::evidence::MeasuredRun;
use super::expectation::probed_keys;
use super::layout::Layout;
use super::memory::{MemoryConstants, memory_with};
use super::prediction::Interval;
use super::probed::share_left_without;
use super::speed::{speed, speed_without_evidence, step_seconds};
use trainc_ir::Plan;

/// Largest share of an interval's width that a measurement worth naming leaves.
const WORTH: f64 = 0.9;

/// Number of measured steps that make a run: the median of so many is that of the run.
pub const STEPS: u64 = 30;

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measurement {
    /// [`STEPS`] steps on so many nodes, with the micro-batch and degrees of the job.
    Steps {
        /// Number of nodes.
        nodes: f64,
    },
    /// `probe` on the job's own cluster.
    Probe,
}

/// The measurement after which a plan would have the narrowest interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Narrowing {
    /// What is measured.
    pub by: Measurement,
    /// Interval of the step time after it, if it measured what is predicted, seconds.
    pub interval: Interval,
}

/// Returns what would narrow the interval of a plan's step time most; `None` if the time is unknown, if runs
/// of the same layout were measured already, or if nothing narrows it by a tenth.
pub fn narrowing(plan: &Plan, constants: &Constants) -> Option<Narrowing> {
    let layout = Layout::from_plan(plan).ok()?;
    // Nobody measures a job that cannot run, or is shorter.
    let fits = memory_with(&layout, &MemoryConstants::from_constants(constants)).fits;
    if fits == Some(false) || plan.run.steps.as_ref().is_none_or(|steps| steps.value < STEPS) {
        return None;
    }
    let constants = constants.for_gpu(layout.hardware.gpu);
    let now = speed(&layout, constants).ok()?;
    if now.evidence.is_some_and(|used| used.is_measured()) {
        return None;
    }
    let (below, above) =
        ((now.step_seconds / now.interval.low).ln(), (now.interval.high / now.step_seconds).ln());
    let around = |below: f64, above: f64| Interval {
        low: now.step_seconds * (-below).exp(),
        high: now.step_seconds * above.exp(),
    };
    let steps = || {
        let run = smaller_run(&layout, constants);
        let nodes = run.as_ref().map_or(layout.hardware.nodes, |run| run.hardware.nodes);
        let width = half_width_after(&layout, run.unwrap_or_else(|| layout.clone()), constants)?;
        Some(Narrowing { by: Measurement::Steps { nodes }, interval: around(width, width) })
    };
    let can_probe = plan.job.program.is_some() && !plan.is_worker() && constants.probed().is_none();
    let probe = || {
        let keys = probed_keys(&layout, constants);
        let left = share_left_without(&keys, &layout, constants, |moved| step_seconds(&layout, moved).ok());
        Some(Narrowing { by: Measurement::Probe, interval: around(left * below, left * above) })
    };
    let probe = if can_probe && now.evidence.is_none() { probe() } else { None };
    let width = |one: &Narrowing| (one.interval.high / one.interval.low).ln();
    let best = steps().into_iter().chain(probe).min_by(|a, b| width(a).total_cmp(&width(b)))?;
    (width(&best) <= WORTH * (below + above)).then_some(best)
}

/// Returns the half-width of a layout's interval, a natural logarithm, once a run of another one was
/// measured.
fn half_width_after(layout: &Layout, run: Layout, constants: &Constants) -> Option<f64> {
    let step_seconds = speed(&run, constants).ok()?.step_seconds;
    let run = MeasuredRun { id: String::new(), layout: run, step_seconds, spread: None, date: None };
    let known = constants.evidence().cloned().unwrap_or_default();
    let plain = speed_without_evidence(layout, constants).ok()?.interval;
    let half_width = 0.5 * (plain.high / plain.low).ln();
    Some(known.with_run(&run, constants).condition(layout, half_width)?.half_width)
}

/// Returns the layout on the fewest nodes, a power of two below the job's number, that hold it; `None` if
/// only all of them do.
fn smaller_run(layout: &Layout, constants: &Constants) -> Option<Layout> {
    let memory = MemoryConstants::from_constants(constants);
    std::iter::successors(Some(1.0), |nodes| Some(2.0 * nodes))
        .take_while(|nodes| *nodes < layout.hardware.nodes)
        .filter_map(|nodes| on_nodes(layout, nodes))
        .find(|run| memory_with(run, &memory).fits == Some(true))
}

/// Returns the layout with the same work of each rank on fewer nodes; `None` if its degrees need more.
fn on_nodes(layout: &Layout, nodes: f64) -> Option<Layout> {
    let mut out = layout.clone();
    let degrees = &mut out.degrees;
    let data_ranks = degrees.replicas * degrees.shard * nodes / layout.hardware.nodes;
    let divides = |part: f64, whole: f64| part >= 1.0 && whole % part == 0.0;
    if data_ranks < 1.0 || data_ranks.fract() != 0.0 {
        return None;
    }
    if !divides(degrees.shard, data_ranks) {
        degrees.shard = data_ranks;
    }
    degrees.replicas = data_ranks / degrees.shard;
    if !divides(degrees.context, degrees.shard) || !divides(degrees.expert, data_ranks) {
        return None;
    }
    out.work.global_sequences *= nodes / layout.hardware.nodes;
    out.hardware.nodes = nodes;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GIB;
    use crate::samples;

    /// FSDP of a model that fits on one of its four nodes.
    fn h100_fsdp() -> Layout {
        let mut out = samples::h100_fsdp();
        out.hardware.memory_bytes = Some(80.0 * GIB);
        out.recompute = crate::Recompute::Full;
        let model = &mut out.model;
        model.layers /= 4.0;
        model.parameters /= 4.0;
        model.active_parameters /= 4.0;
        out
    }

    /// The interval that is announced is the one that a plan has after the measurement.
    #[test]
    fn what_is_announced_is_what_the_measurement_leaves() {
        let (constants, layout) = (Constants::shipped(), h100_fsdp());
        let run = smaller_run(&layout, constants).unwrap();
        assert_eq!((run.hardware.nodes, run.degrees.shard, run.degrees.replicas), (1.0, 8.0, 1.0));
        assert_eq!(run.work.global_sequences, layout.work.global_sequences / layout.hardware.nodes);
        let half_width = half_width_after(&layout, run.clone(), constants).unwrap();
        let step_seconds = speed(&run, constants).unwrap().step_seconds;
        let run = MeasuredRun { id: "a".to_owned(), layout: run, step_seconds, spread: None, date: None };
        let (before, after) = (
            speed(&layout, constants).unwrap(),
            speed(&layout, &constants.with_runs("runs.csv".to_owned(), vec![run])).unwrap(),
        );
        assert!((after.step_seconds / before.step_seconds - 1.0).abs() < 1e-9);
        assert!(((after.interval.high / after.step_seconds).ln() - half_width).abs() < 1e-9);
        let width = |speed: &crate::Speed| (speed.interval.high / speed.interval.low).ln();
        assert!(width(&after) < WORTH * width(&before), "{} of {}", width(&after), width(&before));
    }

    #[test]
    fn fewer_nodes_keep_the_degrees_of_a_model_s_parts() {
        let mut layout = h100_fsdp();
        layout.degrees.tensor = 16.0;
        layout.degrees.shard = 2.0;
        assert_eq!(on_nodes(&layout, 1.0), None);
        let two = on_nodes(&layout, 2.0).unwrap();
        assert_eq!((two.degrees.tensor, two.degrees.shard, two.hardware.nodes), (16.0, 1.0, 2.0));
        layout.degrees = crate::Degrees { tensor: 1.0, shard: 32.0, expert: 16.0, ..layout.degrees };
        assert_eq!(on_nodes(&layout, 1.0), None);
        assert!(on_nodes(&layout, 2.0).is_some());
    }
}
