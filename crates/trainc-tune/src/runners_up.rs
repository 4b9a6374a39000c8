//! Runners-up: layouts off the front that are worth showing.

use super::choice::Choice;
use super::front::{Measure, NOISE};
use super::search::{Point, Status};
use std::collections::BTreeMap;
use trainc_predict::Recompute;

/// Returns the member of the front that beats a point by the smallest margin, and the larger of the ratios of
/// time and cost, at least 1; `None` if no member beats it.
pub(super) fn closest_front_member(
    points: &[Point],
    front: &[usize],
    measure: Measure,
    point: &Point,
) -> Option<(usize, f64)> {
    let (seconds, cost) = (point.compared_seconds(), measure.cost(point));
    front
        .iter()
        .enumerate()
        .filter_map(|(place, at)| {
            let best = points.get(*at)?;
            let beats = best.compared_seconds() <= seconds && measure.cost(best) <= cost;
            let dearer = if cost.is_finite() { cost / measure.cost(best) } else { 1.0 };
            beats.then_some((place, (seconds / best.compared_seconds()).max(dearer)))
        })
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns a rank of the amount of recomputation.
pub(super) fn recompute_rank(recompute: Recompute) -> u64 {
    match recompute {
        Recompute::None => 0,
        Recompute::Selective => 1,
        Recompute::Operations | Recompute::Share(_) => 2,
        Recompute::Full => 3,
    }
}

/// Returns the value on each axis, tagged with the axis.
fn axis_values(choice: &Choice) -> [(u8, u64); 12] {
    let degrees = &choice.degrees;
    let offload =
        [choice.host_offload.activations, choice.host_offload.states, choice.host_offload.optimizer];
    [
        (0, choice.site as u64),
        (1, choice.nodes),
        (2, degrees.sharding as u64),
        (3, degrees.shard),
        (4, degrees.tensor),
        (5, degrees.pipeline),
        (6, recompute_rank(choice.recompute)),
        (7, offload.into_iter().rev().fold(0, |bits, on| 2 * bits + u64::from(on))),
        (8, choice.micro_batch_size),
        (9, degrees.context),
        (10, degrees.expert),
        (11, degrees.ulysses),
    ]
}

/// Returns the member of the front that replaced a point which may not fit, because they differ by less than
/// the noise.
pub(super) fn replaced_by_front_member(
    points: &[Point],
    front: &[usize],
    measure: Measure,
    point: &Point,
) -> Option<usize> {
    if point.surely_fits() {
        return None;
    }
    let most = 1.0 + NOISE;
    front.iter().position(|at| {
        points.get(*at).is_some_and(|other| {
            other.surely_fits()
                && other.compared_seconds() <= point.compared_seconds() * most
                && measure.cost(other) <= measure.cost(point) * most
        })
    })
}

/// Returns the indices of the runners-up, the closest first, at most `most`.
///
/// First the points that were replaced on the front because they may not fit. Then, for each value on each
/// axis that the front lacks (an instance type, a strategy, recomputation), the closest layout with it, which
/// answers "why not that". Then the closest others. Layouts that are too large, too late or too expensive
/// only if they would be on the front.
pub fn runners_up(points: &[Point], front: &[usize], most: usize) -> Vec<usize> {
    let measure = Measure::from_points(points);
    let chosen: Vec<_> =
        front.iter().filter_map(|at| points.get(*at)).map(|point| axis_values(&point.choice)).collect();
    let on_front = |value: &(u8, u64)| chosen.iter().any(|member| member.contains(value));
    let mut of_value: BTreeMap<(u8, u64), (f64, usize)> = BTreeMap::new();
    let mut barred: BTreeMap<(Status, usize, u64), (f64, usize)> = BTreeMap::new();
    let mut closest: Vec<(f64, usize)> = Vec::new();
    let mut aside: Vec<(f64, usize)> = Vec::new();
    for (at, point) in points.iter().enumerate().filter(|(at, _)| !front.contains(at)) {
        let found = closest_front_member(points, front, measure, point);
        match (point.status, found) {
            // Equal to a member of the front: there is no reason to show it.
            (Status::Valid, Some((_, gap))) if gap <= 1.0 => {}
            (Status::Valid, Some((_, gap))) => {
                for value in axis_values(&point.choice) {
                    if !on_front(&value) {
                        keep_closer(&mut of_value, value, (gap, at));
                    }
                }
                closest.push((gap, at));
            }
            (Status::Valid, None) if replaced_by_front_member(points, front, measure, point).is_some() => {
                aside.push((point.compared_seconds(), at));
            }
            (Status::Valid | Status::Refused | Status::NeverFinishes, None) | (_, Some(_)) => {}
            (status, None) => {
                let over = point.memory_bytes / point.capacity_bytes;
                let gap = match status {
                    Status::TooLarge | Status::Tight => over,
                    Status::TooLate => point.seconds,
                    _ => measure.cost(point),
                };
                let key = (status, point.choice.site, recompute_rank(point.choice.recompute));
                keep_closer(&mut barred, key, (gap, at));
            }
        }
    }
    aside.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut out: Vec<usize> = aside.into_iter().take(PER_LIMIT).map(|(_, at)| at).collect();
    let (room, bounds) = ([Status::Tight, Status::TooLarge], [Status::TooLate, Status::TooExpensive]);
    // If the bounds alone exclude layouts, those closest to the bounds come first.
    let order = if front.is_empty() { [bounds, room] } else { [room, bounds] };
    for status in order.into_iter().flatten() {
        let mut of_it: Vec<(f64, usize)> =
            barred.iter().filter(|(key, _)| key.0 == status).map(|(_, found)| *found).collect();
        of_it.sort_by(|a, b| a.0.total_cmp(&b.0));
        out.extend(of_it.into_iter().take(PER_LIMIT).map(|(_, at)| at));
    }
    out.truncate(most);
    // One of several with the same figures (offload without effect): the one with the fewest changes.
    let figures = |at: &usize| {
        points.get(*at).map(|point| (point.seconds, measure.cost_usd(point), point.memory_bytes))
    };
    let changes = |at: usize| points.get(at).map_or(0, |point| point.changes);
    let mut sorted = |mut some: Vec<(f64, usize)>| {
        some.sort_by(|a, b| a.0.total_cmp(&b.0).then((changes(a.1), a.1).cmp(&(changes(b.1), b.1))));
        for (_, at) in some {
            if out.len() < most && !out.iter().any(|other| figures(other) == figures(&at)) {
                out.push(at);
            }
        }
    };
    sorted(of_value.into_values().collect());
    sorted(closest);
    out
}

/// Layouts shown per violated limit.
const PER_LIMIT: usize = 2;

fn keep_closer<K: Ord>(into: &mut BTreeMap<K, (f64, usize)>, key: K, new: (f64, usize)) {
    let slot = into.entry(key).or_insert(new);
    if new.0 < slot.0 {
        *slot = new;
    }
}
