//! Totals of a bill: the cost of jobs whose cost is known, and the on-demand cost of the others.

use super::{Bill, Job, JobSide};
use crate::shared_costs::SharedCosts;
use trainc_tune::compare::Figure;

/// The sums of a bill.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Total {
    /// Of the jobs whose cost is known on each of their sides.
    pub cost: Sum,
    /// Of the others, at on-demand prices: the cost of spot instances is not known in advance.
    pub on_demand: Sum,
    /// Number of jobs in neither sum.
    pub unknown: u64,
}

/// A sum over jobs of a bill.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sum {
    /// US dollars before and after. `None` if no job counts, so that a gate on the difference does not pass
    /// every change; a bill without jobs is $0.
    pub usd: Option<(f64, f64)>,
    /// Number of jobs.
    pub jobs: u64,
    /// Costs that the jobs share, counted once on each side.
    pub shared: SharedCosts,
}

impl Bill<'_> {
    /// Computes the totals of both sides.
    pub(super) fn total(&self) -> Total {
        let (cost, rest) = sum(self.jobs.iter().collect(), Figure::Cost);
        let (on_demand, rest) = sum(rest, Figure::OnDemand);
        let is_empty = self.jobs.is_empty();
        let cost = if is_empty { Sum { usd: Some((0.0, 0.0)), ..cost } } else { cost };
        Total { cost, on_demand, unknown: rest.len() as u64 }
    }
}

/// Sums a figure over the jobs that have it on each of their sides; returns the other jobs as well.
fn sum<'b, 'a>(jobs: Vec<&'b Job<'a>>, figure: Figure) -> (Sum, Vec<&'b Job<'a>>) {
    let has = |seen: &Option<JobSide>| seen.as_ref().is_none_or(|seen| seen.figures.get(figure).is_some());
    let (counted, rest): (Vec<_>, Vec<_>) =
        jobs.into_iter().partition(|job| has(&job.before) && has(&job.after));
    let mut shared = SharedCosts::default();
    let mut side = |of: &dyn Fn(&'b Job<'a>) -> Option<&'b JobSide<'a>>| {
        let seen = || counted.iter().filter_map(|job| of(job));
        // Not `sum`, which returns -0 for no terms.
        let usd = seen().filter_map(|seen| seen.figures.get(figure)).fold(0.0, |sum, usd| sum + usd);
        let twice = SharedCosts::from_jobs(seen().map(|seen| seen.file_systems.as_slice()));
        shared.names.extend(twice.names);
        usd - twice.usd
    };
    let usd = (side(&|job| job.before.as_ref()), side(&|job| job.after.as_ref()));
    (Sum { usd: (!counted.is_empty()).then_some(usd), jobs: counted.len() as u64, shared }, rest)
}
