//! Jobs whose steps the cost model cannot predict: their time is that of their own finished runs.

use super::{Evidence, NINE_IN_TEN, OTHER_RELEASE, REPEATED_RUNS, release};
use crate::bills::Bills;
use crate::prediction::{Interval, Run, RunParts};
use std::sync::Arc;
use trainc_ir::Plan;

/// Standard deviation of the logarithm of the time of repeated runs, as long as too few of them show it: the
/// data of such a job change between its runs (rule of thumb).
const REPEATED_RUN: f64 = 0.1;

/// A finished run of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedRun {
    /// Name of the job in its manifest.
    pub job: String,
    /// Instance type.
    pub instance: String,
    /// Number of instances.
    pub nodes: u64,
    /// Billed seconds.
    pub seconds: f64,
    /// Image, if known.
    pub release: Option<Arc<str>>,
    /// ISO date.
    pub date: Option<String>,
}

impl Evidence {
    /// Returns the run of a plan by the finished runs of the same job on as many of the same instances, and
    /// their number; `None` without any.
    pub(crate) fn run_of_job(&self, plan: &Plan) -> Option<(Run, usize)> {
        let job = plan.job.name.value()?;
        let cluster = plan.job.cluster.as_ref()?;
        let (instance, nodes) = (cluster.instance.value()?, cluster.nodes.get()?);
        // The time that interruptions cost is not part of a finished run.
        if cluster.node_losses_per_hour().is_some() {
            return None;
        }
        let is_same = |run: &&FinishedRun| run.job == *job && run.instance == *instance && run.nodes == nodes;
        let runs: Vec<&FinishedRun> = self.finished.iter().filter(is_same).collect();
        let image = release(plan);
        let has_image = |run: &&FinishedRun| match (&run.release, &image) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        let same: Vec<&FinishedRun> = runs.iter().copied().filter(has_image).collect();
        let (runs, other) = if same.is_empty() { (runs, OTHER_RELEASE) } else { (same, 0.0) };
        let times: Vec<f64> =
            runs.iter().map(|run| run.seconds.ln()).filter(|time| time.is_finite()).collect();
        if times.is_empty() {
            return None;
        }
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
        let variance = (REPEATED_RUNS * REPEATED_RUN.powi(2) + squares) / (REPEATED_RUNS + count - 1.0);
        let deviation = (variance * (1.0 + 1.0 / count) + other * other).sqrt();
        let end = |side: f64| (mean + side * NINE_IN_TEN * deviation).exp();
        let (seconds, interval) = (mean.exp(), Interval { low: end(-1.0), high: end(1.0) });
        let is_free = plan.instance.as_ref().is_some_and(|instance| instance.ebs_volume_ignored);
        let cost_parts =
            Bills::from_plan(plan, plan.rank_price(), is_free).cost_of_nodes(nodes as f64, seconds);
        let run = Run {
            seconds,
            interval,
            parts: RunParts {
                download: Some(0.0),
                evaluation: Some(0.0),
                training: seconds,
                ..RunParts::default()
            },
            part_intervals: RunParts {
                download: Some(Interval::default()),
                evaluation: Some(Interval::default()),
                training: interval,
                ..RunParts::default()
            },
            cost_usd: cost_parts.total_usd(),
            least_usd: cost_parts.least_usd(),
            cost_parts,
            ..Run::default()
        };
        Some((run, runs.len()))
    }
}
