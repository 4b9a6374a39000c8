//! The layouts that no other beats in both time and money.

use super::search::{Point, Standing};

/// What a run costs for comparison: dollars; where no price is known anywhere, the time of all nodes stands for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// US dollars.
    Dollars,
    /// Seconds of nodes.
    NodeSeconds,
}

impl Measure {
    /// What these points can be compared by.
    pub fn of(points: &[Point]) -> Self {
        if points.iter().any(|point| point.usd.is_some()) { Self::Dollars } else { Self::NodeSeconds }
    }

    /// What a point costs by it. Beside priced ones, what has no price cannot be cheaper than any.
    pub fn cost(self, point: &Point) -> f64 {
        match self {
            Self::Dollars => point.usd.unwrap_or(f64::INFINITY),
            Self::NodeSeconds => point.seconds * point.choice.nodes as f64,
        }
    }
}

/// Places of the sound points that no other beats in both time and money, the fastest first. Of equals the one that
/// changes the manifest least stays, then the first.
pub fn front(points: &[Point]) -> Vec<usize> {
    let measure = Measure::of(points);
    let mut order: Vec<(f64, f64, usize, usize)> = points
        .iter()
        .enumerate()
        .filter(|(_, point)| point.standing == Standing::Sound)
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
