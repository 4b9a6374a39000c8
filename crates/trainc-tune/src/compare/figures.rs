//! Figures of a job that a change can affect.

use trainc_ir::Plan;
use trainc_predict::bills::{max_cost, on_demand_cost, unpriced_file_systems};
use trainc_predict::{Interval, Prediction, Run};

/// A figure of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// US dollars of the run.
    Cost,
    /// Lower bound of the cost, in US dollars: items of known price only.
    Least,
    /// US dollars of the same hours at the on-demand price, if known.
    OnDemand,
    /// Billed seconds.
    Time,
    /// Free bytes of a GPU at the peak; negative if the job does not fit.
    Headroom,
    /// Instances.
    Nodes,
    /// Seconds of an optimizer step.
    Step,
    /// Tokens per second of the whole cluster.
    Tokens,
    /// US dollars if the run lasts until its max-run, items of known price only.
    Most,
}

impl Figure {
    /// All of them, in display order.
    pub const ALL: [Self; 9] = [
        Self::Cost,
        Self::Least,
        Self::OnDemand,
        Self::Time,
        Self::Headroom,
        Self::Nodes,
        Self::Step,
        Self::Tokens,
        Self::Most,
    ];

    /// Returns its name in the machine-readable output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cost => "cost_usd",
            Self::Least => "least_usd",
            Self::OnDemand => "on_demand_usd",
            Self::Time => "seconds",
            Self::Headroom => "headroom_bytes",
            Self::Nodes => "nodes",
            Self::Step => "step_seconds",
            Self::Tokens => "tokens_per_second",
            Self::Most => "most_usd",
        }
    }
}

/// The figures of one job; `None` marks an unknown figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The instance type.
    pub instance: Option<String>,
    /// GPUs of the whole cluster.
    pub gpus: Option<u64>,
    /// Sequences per step over all replicas: a different number means a different training.
    pub global_sequences: Option<u64>,
    values: [Option<f64>; Figure::ALL.len()],
    intervals: [Option<Interval>; Figure::ALL.len()],
    /// Reason why a cost, a time or the memory is unknown.
    pub unknown: Option<String>,
}

impl Figures {
    /// Returns the figures of a plan and its prediction.
    pub fn from_prediction(plan: &Plan, prediction: &Prediction) -> Self {
        let mesh = plan.mesh.as_ref();
        let cluster = plan.job.cluster.as_ref();
        let nodes = mesh.map(|mesh| mesh.nodes).or_else(|| cluster.and_then(|cluster| cluster.nodes.get()));
        let run = prediction.run.as_ref();
        let (speed, memory) = (prediction.speed.as_ref(), prediction.memory.as_ref());
        let capacity = memory.and_then(|memory| memory.capacity_bytes);
        let max_run = cluster.and_then(|cluster| cluster.max_run_seconds.get());
        let on_demand = |seconds: f64| on_demand_cost(plan, seconds).total_usd();
        let value = |figure| match figure {
            Figure::Cost => run.and_then(|run| run.cost_usd),
            Figure::Least => run.and_then(|run| run.least_usd),
            Figure::OnDemand => on_demand(run?.expected_seconds()),
            Figure::Time => run.map(Run::expected_seconds),
            Figure::Headroom => Some(capacity? - memory?.per_gpu_bytes),
            Figure::Nodes => nodes.map(|nodes| nodes as f64),
            Figure::Step => speed.map(|speed| speed.step_seconds),
            Figure::Tokens => speed.map(|speed| speed.tokens_per_second),
            Figure::Most => max_cost(plan, max_run? as f64).most_usd(),
        };
        let interval = |figure| match figure {
            Figure::Cost => run.and_then(Run::cost_interval),
            Figure::Least => run.and_then(Run::least_cost_interval),
            Figure::OnDemand => {
                let Interval { low, high } = run.and_then(Run::expected_interval)?;
                Some(Interval { low: on_demand(low)?, high: on_demand(high)? })
            }
            Figure::Time => run.and_then(Run::expected_interval),
            Figure::Headroom => {
                let (capacity, memory) = (capacity?, memory?);
                Some(Interval { low: capacity - memory.interval.high, high: capacity - memory.interval.low })
            }
            Figure::Step => speed.map(|speed| speed.interval),
            Figure::Nodes | Figure::Tokens | Figure::Most => None,
        };
        let why = [prediction.no_run, prediction.no_speed, prediction.no_memory].into_iter().flatten().next();
        let unknown = why.map(|why| why.0.to_owned()).or_else(|| {
            plan.fleet.first()?;
            run.filter(|run| run.cost_usd.is_none())?;
            let systems = unpriced_file_systems(plan);
            if run.is_some_and(|run| run.least_usd.is_some()) && !systems.is_empty() {
                let names: Vec<String> = systems.iter().map(|name| format!("`{name}`")).collect();
                return Some(format!(
                    "the cost excludes {}, whose price is unknown; set it with `--price`",
                    names.join(" and ")
                ));
            }
            let spot = plan.is_spot() && plan.cost_per_hour().is_complete;
            let why = if spot {
                "the spot price is unknown; set it with `--discount`"
            } else {
                "the price of the instances is unknown; set it with `--price`"
            };
            Some(why.to_owned())
        });
        Self {
            instance: cluster.and_then(|cluster| cluster.instance.value().cloned()),
            gpus: mesh.map(trainc_ir::Mesh::gpus),
            global_sequences: plan.batch.as_ref().map(|batch| batch.global_sequences.value),
            values: Figure::ALL.map(value),
            intervals: Figure::ALL.map(interval),
            unknown,
        }
    }

    /// Returns a figure.
    pub fn get(&self, figure: Figure) -> Option<f64> {
        Figure::ALL.iter().position(|one| *one == figure).and_then(|at| self.values.get(at).copied()?)
    }

    /// Returns its 90 % interval.
    pub fn interval(&self, figure: Figure) -> Option<Interval> {
        Figure::ALL.iter().position(|one| *one == figure).and_then(|at| self.intervals.get(at).copied()?)
    }

    /// Returns the change of a figure.
    pub fn difference(&self, after: &Self, figure: Figure) -> Option<f64> {
        Some(after.get(figure)? - self.get(figure)?)
    }

    /// Returns true if a figure differs between the two by more than rounding.
    pub fn is_changed(&self, after: &Self, figure: Figure) -> bool {
        match (self.get(figure), after.get(figure)) {
            (Some(before), Some(after)) => exceeds_rounding(after - before, before.abs().max(after.abs())),
            (before, after) => before.is_some() != after.is_some(),
        }
    }
}

/// Returns true if a difference is more than rounding for figures of this size.
pub(super) fn exceeds_rounding(difference: f64, beside: f64) -> bool {
    difference.abs() > 1e-9 * beside
}
