//! What all jobs of a bill cost together: dollars of those whose cost is known, and of the others what the same hours cost
//! on demand.

use super::{Bill, Job, Seen};
use crate::shared_costs::SharedCosts;
use trainc_tune::compare::Figure;

/// The sums of a bill.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Total {
    /// Of the jobs that have a cost on each side they have.
    pub cost: Sum,
    /// Of the others, at the price on demand: what spot instances cost is not known beforehand.
    pub on_demand: Sum,
    /// Jobs that are in neither.
    pub unknown: u64,
}

/// US dollars of some of a bill's jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sum {
    /// Before and after; none where it is of none of the bill's jobs: that is not $0, or a gate on the difference would let
    /// any change pass. A bill without jobs costs nothing.
    pub usd: Option<(f64, f64)>,
    /// Of how many jobs.
    pub jobs: u64,
    /// What they share and each sum counts once.
    pub shared: SharedCosts,
}

impl Bill<'_> {
    /// What its jobs cost on each side.
    pub(super) fn total(&self) -> Total {
        let (cost, rest) = sum(self.jobs.iter().collect(), Figure::Cost);
        let (on_demand, rest) = sum(rest, Figure::OnDemand);
        let is_empty = self.jobs.is_empty();
        let cost = if is_empty { Sum { usd: Some((0.0, 0.0)), ..cost } } else { cost };
        Total { cost, on_demand, unknown: rest.len() as u64 }
    }
}

/// The sum of a figure over the jobs that have it on each side they have, and the jobs that have not.
fn sum<'b, 'a>(jobs: Vec<&'b Job<'a>>, figure: Figure) -> (Sum, Vec<&'b Job<'a>>) {
    let has = |seen: &Option<Seen>| seen.as_ref().is_none_or(|seen| seen.figures.get(figure).is_some());
    let (counted, rest): (Vec<_>, Vec<_>) =
        jobs.into_iter().partition(|job| has(&job.before) && has(&job.after));
    let mut shared = SharedCosts::default();
    let mut side = |of: &dyn Fn(&'b Job<'a>) -> Option<&'b Seen<'a>>| {
        let seen = || counted.iter().filter_map(|job| of(job));
        // Not `sum`, whose sum of nothing is -0.
        let usd = seen().filter_map(|seen| seen.figures.get(figure)).fold(0.0, |sum, usd| sum + usd);
        let twice = SharedCosts::from_jobs(seen().map(|seen| seen.made.as_slice()));
        shared.names.extend(twice.names);
        usd - twice.usd
    };
    let usd = (side(&|job| job.before.as_ref()), side(&|job| job.after.as_ref()));
    (Sum { usd: (!counted.is_empty()).then_some(usd), jobs: counted.len() as u64, shared }, rest)
}
