//! Pareto-optimal layouts by time and cost: the order in which layouts are shown and chosen.
//!
//! On up to [`TRUSTED_NODES`] nodes layouts are compared by their predicted time and cost, on more by the
//! upper ends of both.

use super::search::{Point, Status};
use std::collections::BTreeSet;

/// Number of nodes up to which predictions order layouts as measurements do. Of the measured groups of
/// layouts of one model on one cluster, the predicted order picks one within 2 % of the fastest in the
/// median up to here, and on more nodes some picks take twice as long (`trainc-calibrate/data/README.md`).
pub const TRUSTED_NODES: u64 = 16;

impl Point {
    /// Returns true if the point is compared by the upper end of its interval.
    pub fn is_compared_by_upper_end(&self) -> bool {
        self.choice.nodes > TRUSTED_NODES
    }

    /// Returns the seconds of the run by which the point is compared.
    pub fn compared_seconds(&self) -> f64 {
        if self.is_compared_by_upper_end() { self.seconds_high } else { self.seconds }
    }

    /// Returns a cost that is proportional to the time of the run, at the time by which the point is
    /// compared.
    fn compared_cost(&self, usd: f64) -> f64 {
        if self.is_compared_by_upper_end() { usd * (self.seconds_high / self.seconds) } else { usd }
    }
}

/// Measure of the cost of a run: dollars; for spot instances of unknown price, the on-demand price including
/// storage; if no price is known at all, node time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// US dollars.
    Dollars,
    /// US dollars at the on-demand price.
    OnDemand,
    /// Node seconds.
    NodeSeconds,
}

impl Measure {
    /// Returns the measure by which these points can be compared.
    pub fn from_points<'a>(points: impl IntoIterator<Item = &'a Point>) -> Self {
        points.into_iter().fold(Self::NodeSeconds, |so_far, point| {
            match (so_far, point.usd, point.most_usd) {
                (Self::Dollars, ..) | (_, Some(_), _) => Self::Dollars,
                (Self::OnDemand, ..) | (_, _, Some(_)) => Self::OnDemand,
                _ => Self::NodeSeconds,
            }
        })
    }

    /// Returns the cost by which a point is compared. Without a price it is infinite if other points have
    /// one.
    pub fn cost(self, point: &Point) -> f64 {
        match self {
            Self::Dollars | Self::OnDemand => self.cost_usd(point).unwrap_or(f64::INFINITY),
            Self::NodeSeconds => point.compared_seconds() * point.choice.nodes as f64,
        }
    }

    /// Returns the cost in US dollars by which a point is compared, if the measure is money.
    pub fn cost_usd(self, point: &Point) -> Option<f64> {
        self.predicted_usd(point).map(|usd| point.compared_cost(usd)).filter(|usd| !usd.is_nan())
    }

    /// Returns the predicted cost of a point. Without a price it is infinite if other points have one.
    pub fn predicted_cost(self, point: &Point) -> f64 {
        match self {
            Self::Dollars | Self::OnDemand => self.predicted_usd(point).unwrap_or(f64::INFINITY),
            Self::NodeSeconds => point.seconds * point.choice.nodes as f64,
        }
    }

    /// Returns the predicted cost in US dollars, if the measure is money.
    fn predicted_usd(self, point: &Point) -> Option<f64> {
        match self {
            Self::Dollars => point.usd,
            Self::OnDemand => point.most_usd,
            Self::NodeSeconds => None,
        }
    }

    /// Returns the suffix of an amount: ` on demand`.
    pub fn amount_suffix(self) -> &'static str {
        if self == Self::OnDemand { " on demand" } else { "" }
    }
}

/// Returns the indices of the Pareto-optimal valid points, the fastest first. Of equal points the one that
/// changes the manifest least is kept, then the first.
pub fn pareto_front(points: &[Point]) -> Vec<usize> {
    pareto_front_of(points, |_| true)
}

/// Largest difference in time or cost that is noise, a fraction (assumed: repeated measurements of one layout
/// differ by more, and predictions by more still).
pub const NOISE: f64 = 0.01;

/// Returns the front to show: the points that surely fit, then those that may not, each the fastest first. A
/// point that may not fit is replaced by one that surely fits if the two differ by less than [`NOISE`] in
/// time and cost. The fastest point that surely fits is always included, with and without a price.
pub fn front_to_show(points: &[Point]) -> Vec<usize> {
    let measure = Measure::from_points(points);
    let surely = pareto_front_of(points, Point::surely_fits);
    let figures = |at: usize| points.get(at).map(|point| (point.compared_seconds(), measure.cost(point)));
    let stands_in = |at: usize| {
        let (seconds, cost) = figures(at)?;
        surely.iter().copied().find(|other| {
            figures(*other)
                .is_some_and(|other| other.0 <= seconds * (1.0 + NOISE) && other.1 <= cost * (1.0 + NOISE))
        })
    };
    let chosen = pareto_front(points).into_iter().map(|at| {
        let is_sure = points.get(at).is_some_and(Point::surely_fits);
        if is_sure { at } else { stands_in(at).unwrap_or(at) }
    });
    let is_priced = |at: &usize| points.get(*at).is_some_and(|point| measure.cost_usd(point).is_some());
    let priced = surely.iter().copied().find(is_priced);
    let chosen: BTreeSet<usize> = chosen.chain(surely.first().copied()).chain(priced).collect();
    let mut out: Vec<usize> = chosen.into_iter().collect();
    out.sort_by(|a, b| {
        let is_unsure = |at: usize| points.get(at).is_none_or(|point| !point.surely_fits());
        let (Some(x), Some(y)) = (figures(*a), figures(*b)) else { return std::cmp::Ordering::Equal };
        is_unsure(*a).cmp(&is_unsure(*b)).then(x.0.total_cmp(&y.0)).then(x.1.total_cmp(&y.1))
    });
    out
}

/// Returns the index of the default choice among points to show: the fastest that surely fits, with
/// a known price if any has one.
pub fn default_choice(offered: &[&Point]) -> usize {
    let is_sure = |point: &&Point| point.surely_fits();
    let measure = Measure::from_points(offered.iter().copied());
    let priced = offered.iter().position(|point| is_sure(point) && measure.cost_usd(point).is_some());
    priced.or_else(|| offered.iter().position(is_sure)).unwrap_or(0)
}

/// Returns true if another valid point is better in time or cost and not worse in the other. Shown points
/// that replaced one which may not fit are dominated.
pub fn is_dominated(points: &[Point], at: usize) -> bool {
    let measure = Measure::from_points(points);
    let Some(own) = points.get(at) else { return false };
    let (seconds, cost) = (own.compared_seconds(), measure.cost(own));
    points.iter().filter(|other| other.status == Status::Valid).any(|other| {
        let (quicker, cheaper) = (other.compared_seconds(), measure.cost(other));
        quicker <= seconds && cheaper <= cost && (quicker < seconds || cheaper < cost)
    })
}

/// Returns the front of the points that `keep` selects, by their common measure.
fn pareto_front_of(points: &[Point], keep: impl Fn(&Point) -> bool) -> Vec<usize> {
    let measure = Measure::from_points(points);
    let mut order: Vec<(f64, f64, usize, usize)> = points
        .iter()
        .enumerate()
        .filter(|(_, point)| point.status == Status::Valid && keep(point))
        .map(|(at, point)| (point.compared_seconds(), measure.cost(point), point.changes, at))
        .collect();
    order.sort_unstable_by(|a, b| {
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then((a.2, a.3).cmp(&(b.2, b.3)))
    });
    // A point without a price is on the front only if it is the fastest.
    let mut best = None;
    order.retain(|(_, cost, ..)| {
        let cheaper = best.is_none_or(|best| *cost < best);
        if cheaper {
            best = Some(*cost);
        }
        cheaper
    });
    order.into_iter().map(|(.., at)| at).collect()
}
