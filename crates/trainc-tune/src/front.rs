//! The layouts that no other beats in both time and money.

use super::search::{Point, Status};
use std::collections::BTreeSet;

/// What a run costs for comparison: dollars; on spot instances whose price is not known, what the same hours cost on
/// demand, storage included; where no price is known anywhere, the time of all nodes stands for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// US dollars.
    Dollars,
    /// US dollars at the price on demand.
    OnDemand,
    /// Seconds of nodes.
    NodeSeconds,
}

impl Measure {
    /// What these points can be compared by.
    pub fn of<'a>(points: impl IntoIterator<Item = &'a Point>) -> Self {
        points.into_iter().fold(Self::NodeSeconds, |so_far, point| {
            match (so_far, point.usd, point.most_usd) {
                (Self::Dollars, ..) | (_, Some(_), _) => Self::Dollars,
                (Self::OnDemand, ..) | (_, _, Some(_)) => Self::OnDemand,
                _ => Self::NodeSeconds,
            }
        })
    }

    /// What a point costs by it. Beside priced ones, what has no price cannot be cheaper than any.
    pub fn cost(self, point: &Point) -> f64 {
        match self {
            Self::Dollars | Self::OnDemand => self.usd(point).unwrap_or(f64::INFINITY),
            Self::NodeSeconds => point.seconds * point.choice.nodes as f64,
        }
    }

    /// The same where it is money, US dollars.
    pub fn usd(self, point: &Point) -> Option<f64> {
        match self {
            Self::Dollars => point.usd,
            Self::OnDemand => point.most_usd,
            Self::NodeSeconds => None,
        }
    }

    /// What follows a sum of money by it: ` on demand`.
    pub fn words(self) -> &'static str {
        if self == Self::OnDemand { " on demand" } else { "" }
    }
}

/// Places of the sound points that no other beats in both time and money, the fastest first. Of equals the one that
/// changes the manifest least stays, then the first.
pub fn front(points: &[Point]) -> Vec<usize> {
    front_of(points, |_| true)
}

/// By how much the times or the costs of two layouts may differ and yet not be told apart, a fraction (judgement: the
/// same layout measured again differs by more, and the model by more still).
pub const NOISE: f64 = 0.01;

/// The front as it is offered. A member that may not fit gives way to one that surely fits where the two differ by less
/// than [`NOISE`] in time and in cost; and the fastest of those that surely fit is always among them, with a price and
/// without.
pub fn offered(points: &[Point]) -> Vec<usize> {
    let measure = Measure::of(points);
    let surely = front_of(points, Point::surely_fits);
    let figures = |at: usize| points.get(at).map(|point| (point.seconds, measure.cost(point)));
    let stands_in = |at: usize| {
        let (seconds, cost) = figures(at)?;
        surely.iter().copied().find(|other| {
            figures(*other)
                .is_some_and(|other| other.0 <= seconds * (1.0 + NOISE) && other.1 <= cost * (1.0 + NOISE))
        })
    };
    let chosen = front(points).into_iter().map(|at| {
        let is_sure = points.get(at).is_some_and(Point::surely_fits);
        if is_sure { at } else { stands_in(at).unwrap_or(at) }
    });
    let is_priced = |at: &usize| points.get(*at).is_some_and(|point| measure.usd(point).is_some());
    let priced = surely.iter().copied().find(is_priced);
    let chosen: BTreeSet<usize> = chosen.chain(surely.first().copied()).chain(priced).collect();
    let mut out: Vec<usize> = chosen.into_iter().collect();
    out.sort_by(|a, b| {
        let (Some(a), Some(b)) = (figures(*a), figures(*b)) else { return std::cmp::Ordering::Equal };
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    out
}

/// The place among offered points, the fastest first, of the one to take where none is named: the fastest that surely
/// fits, and of those one whose price is known where any has one, since beside it what has none cannot be compared.
pub fn first(offered: &[&Point]) -> usize {
    let is_sure = |point: &&Point| point.surely_fits();
    let measure = Measure::of(offered.iter().copied());
    let priced = offered.iter().position(|point| is_sure(point) && measure.usd(point).is_some());
    priced.or_else(|| offered.iter().position(is_sure)).unwrap_or(0)
}

/// Whether another sound point beats one in time or in cost and does not lose to it in the other. Of the offered points
/// those are beaten that stand there because they fit more surely.
pub fn is_beaten(points: &[Point], at: usize) -> bool {
    let measure = Measure::of(points);
    let Some(own) = points.get(at) else { return false };
    let (seconds, cost) = (own.seconds, measure.cost(own));
    points.iter().filter(|other| other.status == Status::Valid).any(|other| {
        let (quicker, cheaper) = (other.seconds, measure.cost(other));
        quicker <= seconds && cheaper <= cost && (quicker < seconds || cheaper < cost)
    })
}

/// The front of those points that are kept, measured by what all can be compared by.
fn front_of(points: &[Point], keep: impl Fn(&Point) -> bool) -> Vec<usize> {
    let measure = Measure::of(points);
    let mut order: Vec<(f64, f64, usize, usize)> = points
        .iter()
        .enumerate()
        .filter(|(_, point)| point.status == Status::Valid && keep(point))
        .map(|(at, point)| (point.seconds, measure.cost(point), point.changes, at))
        .collect();
    order.sort_unstable_by(|a, b| {
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then((a.2, a.3).cmp(&(b.2, b.3)))
    });
    // A point without a price stands only where it is the fastest of all.
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
