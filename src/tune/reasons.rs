//! Why a layout was not chosen: what beat it and by what, or what refused it.

use super::front::{Measure, NOISE};
use super::search::{Point, Standing};
use super::space::{Choice, Limits, Space};
use crate::predict::memory::{self, MemoryConstants, of_gpu};
use crate::predict::speed::speed;
use crate::predict::{Communication, Constants, MemoryParts, Recompute, Sharding, SpeedParts};
use std::collections::BTreeMap;

/// Why a layout was not chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Another is at least as fast and as cheap.
    Beaten {
        /// The place of the one that beats it by least, in the front.
        by: usize,
        /// How much longer the run takes, a fraction.
        slower: f64,
        /// How much more it costs, US dollars, where both prices are known.
        dearer_usd: Option<f64>,
        /// What of a step takes longer, the most first, seconds of a step.
        because: Vec<Because>,
        /// What in the layout makes it so.
        traits: Vec<String>,
    },
    /// It is better by less than can be told apart, and may not fit, where another surely does.
    Aside {
        /// The place of that one in the front.
        by: usize,
        /// How much shorter the run is, a fraction.
        quicker: f64,
        /// How much less it costs, US dollars, where both prices are known.
        cheaper_usd: Option<f64>,
        /// How much less of what it costs is measured by, dollars or the time of all nodes, a fraction.
        less: f64,
    },
    /// It does not fit.
    TooLarge {
        /// What the fullest GPU needs, bytes.
        needs_bytes: f64,
        /// What it has, bytes.
        has_bytes: f64,
        /// The largest part of it.
        part: &'static str,
        /// That part, bytes.
        part_bytes: f64,
    },
    /// It leaves too little room.
    Tight {
        /// What the fullest GPU needs, bytes.
        needs_bytes: f64,
        /// What it has, bytes.
        has_bytes: f64,
    },
    /// It ends after the deadline.
    Late {
        /// Seconds of the run.
        seconds: f64,
        /// The deadline, seconds.
        deadline_seconds: f64,
    },
    /// It costs too much, or nobody knows what.
    Dear {
        /// US dollars of the run.
        usd: Option<f64>,
        /// What it costs at most: of spot instances at the price on demand.
        at_most_usd: Option<f64>,
        /// The most that it may cost.
        most_usd: f64,
        /// What of its cost is not known, where neither is.
        unpriced: String,
    },
    /// A check refuses it.
    Refused(Refusal),
}

/// What a check says of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code: `T0391`.
    pub code: String,
    /// The message.
    pub message: String,
    /// Layouts of those that were compiled of which it was said.
    pub layouts: usize,
}

/// A part of a step that takes longer than where the layout was beaten.
#[derive(Clone, Debug, PartialEq)]
pub struct Because {
    /// Which part.
    pub part: &'static str,
    /// How much longer, seconds of a step.
    pub seconds: f64,
    /// The collective behind most of it.
    pub collective: Option<&'static str>,
}

/// How far a point lies behind the member of the front that beats it by least: the larger of the ratios of time and
/// money, from 1; none where nothing beats it.
fn behind(points: &[Point], front: &[usize], measure: Measure, point: &Point) -> Option<(usize, f64)> {
    let cost = measure.cost(point);
    front
        .iter()
        .enumerate()
        .filter_map(|(place, at)| {
            let best = points.get(*at)?;
            let beats = best.seconds <= point.seconds && measure.cost(best) <= cost;
            let dearer = if cost.is_finite() { cost / measure.cost(best) } else { 1.0 };
            beats.then_some((place, (point.seconds / best.seconds).max(dearer)))
        })
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

/// How much is computed again, for order.
fn again(recompute: Recompute) -> u64 {
    match recompute {
        Recompute::None => 0,
        Recompute::Selective => 1,
        Recompute::Operations | Recompute::Share(_) => 2,
        Recompute::Full => 3,
    }
}

/// A value on an axis, told apart from those of the others.
fn values(choice: &Choice) -> [(u8, u64); 11] {
    let degrees = &choice.degrees;
    [
        (0, choice.site as u64),
        (1, choice.nodes),
        (2, degrees.sharding as u64),
        (3, degrees.shard),
        (4, degrees.tensor),
        (5, degrees.pipeline),
        (6, again(choice.recompute)),
        (7, u64::from(choice.waiting.activations) + 2 * u64::from(choice.waiting.states)),
        (8, choice.micro),
        (9, degrees.context),
        (10, degrees.expert),
    ]
}

/// The member of the front that stands there for a point that may not fit, since the two cannot be told apart.
fn stands_in(points: &[Point], front: &[usize], measure: Measure, point: &Point) -> Option<usize> {
    if point.surely_fits() {
        return None;
    }
    let most = 1.0 + NOISE;
    front.iter().position(|at| {
        points.get(*at).is_some_and(|other| {
            other.surely_fits()
                && other.seconds <= point.seconds * most
                && measure.cost(other) <= measure.cost(point) * most
        })
    })
}

/// Places of the layouts that are worth a word beside the front, the closest first, `most` at most.
///
/// First those that another stands for on the front, because it fits more surely.
/// For each value on each axis that no member of the front has (an instance type, a strategy, recomputation or none),
/// the layout that comes closest with it: the answer to "why not that". Then whatever else comes closest. Of layouts
/// that are too large, too late or too dear only those that would be on the front.
pub fn next_best(points: &[Point], front: &[usize], most: usize) -> Vec<usize> {
    let measure = Measure::of(points);
    let chosen: Vec<_> =
        front.iter().filter_map(|at| points.get(*at)).map(|point| values(&point.choice)).collect();
    let on_front = |value: &(u8, u64)| chosen.iter().any(|member| member.contains(value));
    let mut of_value: BTreeMap<(u8, u64), (f64, usize)> = BTreeMap::new();
    let mut barred: BTreeMap<(Standing, usize, u64), (f64, usize)> = BTreeMap::new();
    let mut closest: Vec<(f64, usize)> = Vec::new();
    let mut aside: Vec<(f64, usize)> = Vec::new();
    for (at, point) in points.iter().enumerate().filter(|(at, _)| !front.contains(at)) {
        let found = behind(points, front, measure, point);
        match (point.standing, found) {
            // What is as fast and as cheap as a member of the front has not lost by anything.
            (Standing::Sound, Some((_, gap))) if gap <= 1.0 => {}
            (Standing::Sound, Some((_, gap))) => {
                for value in values(&point.choice) {
                    if !on_front(&value) {
                        keep_closer(&mut of_value, value, (gap, at));
                    }
                }
                closest.push((gap, at));
            }
            (Standing::Sound, None) if stands_in(points, front, measure, point).is_some() => {
                aside.push((point.seconds, at));
            }
            (Standing::Sound | Standing::Barred | Standing::Endless, None) | (_, Some(_)) => {}
            (standing, None) => {
                let over = point.memory_bytes / point.capacity_bytes;
                let gap = match standing {
                    Standing::TooLarge | Standing::Tight => over,
                    Standing::Late => point.seconds,
                    _ => measure.cost(point),
                };
                let key = (standing, point.choice.site, again(point.choice.recompute));
                keep_closer(&mut barred, key, (gap, at));
            }
        }
    }
    aside.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut out: Vec<usize> = aside.into_iter().take(BARRED).map(|(_, at)| at).collect();
    let (room, bounds) = ([Standing::Tight, Standing::TooLarge], [Standing::Late, Standing::Dear]);
    // Where something was in reach but for the bounds, what misses them by least comes first.
    let order = if front.is_empty() { [bounds, room] } else { [room, bounds] };
    for standing in order.into_iter().flatten() {
        let mut of_it: Vec<(f64, usize)> =
            barred.iter().filter(|(key, _)| key.0 == standing).map(|(_, found)| *found).collect();
        of_it.sort_by(|a, b| a.0.total_cmp(&b.0));
        out.extend(of_it.into_iter().take(BARRED).map(|(_, at)| at));
    }
    out.truncate(most);
    // Of those with the same figures (offload that moves nothing) one is enough: the one that changes least.
    let figures = |at: &usize| points.get(*at).map(|point| (point.seconds, point.usd, point.memory_bytes));
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

/// Layouts that are shown at most for each bar that they do not pass.
const BARRED: usize = 2;

fn keep_closer<K: Ord>(into: &mut BTreeMap<K, (f64, usize)>, key: K, new: (f64, usize)) {
    let slot = into.entry(key).or_insert(new);
    if new.0 < slot.0 {
        *slot = new;
    }
}

/// Why the point is not on the front; none where it is.
pub fn why(
    space: &Space,
    limits: &Limits,
    constants: &Constants,
    points: &[Point],
    front: &[usize],
    point: &Point,
) -> Option<Reason> {
    match point.standing {
        Standing::TooLarge => too_large(space, constants, point),
        Standing::Tight => {
            Some(Reason::Tight { needs_bytes: point.memory_bytes, has_bytes: point.capacity_bytes })
        }
        Standing::Late => {
            Some(Reason::Late { seconds: point.seconds, deadline_seconds: limits.deadline_seconds? })
        }
        // What refuses it, its own compilation says.
        Standing::Barred | Standing::Endless => None,
        Standing::Dear => Some(Reason::Dear {
            usd: point.usd,
            at_most_usd: point.most_usd,
            most_usd: limits.max_usd?,
            unpriced: space.unpriced(point.choice.site),
        }),
        Standing::Sound => {
            let measure = Measure::of(points);
            let Some((by, _)) = behind(points, front, measure, point) else {
                let by = stands_in(points, front, measure, point)?;
                let other = points.get(*front.get(by)?)?;
                return Some(Reason::Aside {
                    by,
                    quicker: 1.0 - point.seconds / other.seconds,
                    cheaper_usd: other.usd.zip(point.usd).map(|(other, own)| other - own),
                    less: 1.0 - measure.cost(point) / measure.cost(other),
                });
            };
            let best = points.get(*front.get(by)?)?;
            Some(Reason::Beaten {
                by,
                slower: point.seconds / best.seconds - 1.0,
                dearer_usd: point.usd.zip(best.usd).map(|(usd, best)| usd - best),
                because: because(space, constants, &point.choice, &best.choice),
                traits: traits(space, &point.choice, &best.choice),
            })
        }
    }
}

fn too_large(space: &Space, constants: &Constants, point: &Point) -> Option<Reason> {
    let layout = space.layout(&point.choice)?;
    let parts = of_gpu(&layout, &MemoryConstants::of(constants));
    let (part, part_bytes) = memory_parts(&parts).into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Reason::TooLarge {
        needs_bytes: point.memory_bytes,
        has_bytes: point.capacity_bytes,
        part,
        part_bytes,
    })
}

fn memory_parts(parts: &MemoryParts) -> [(&'static str, f64); 8] {
    [
        ("parameters", parts.parameters),
        ("gradients", parts.gradients),
        ("optimizer", parts.optimizer),
        ("activations", parts.activations),
        ("gathered units", parts.gathered),
        ("logits", parts.logits),
        ("buffers", parts.buffers),
        ("reserve", parts.reserve),
    ]
}

/// What differs between layouts: all read the same data, and what waits for them is what the rest leaves of that time.
fn speed_parts(parts: &SpeedParts) -> [(&'static str, f64); 5] {
    [
        ("compute", parts.compute),
        ("exposed communication", parts.exposed_communication),
        ("bubble", parts.bubble),
        ("offload", parts.offload),
        ("optimizer", parts.optimizer),
    ]
}

fn kinds(of: &Communication) -> [(&'static str, f64); 7] {
    [
        ("tensor all-reduce", of.tensor),
        ("sends between stages", of.pipeline),
        ("expert all-to-all", of.experts),
        ("keys and values around a ring", of.context),
        ("all-gather and reduce-scatter", of.gather),
        ("all-reduce over replicas", of.replicas),
        ("gradient all-reduce", of.gradients),
    ]
}

/// What of a step takes longer than in the other layout, the most first; what is under a tenth of the most is left out.
fn because(space: &Space, constants: &Constants, point: &Choice, best: &Choice) -> Vec<Because> {
    let of = |choice: &Choice| {
        let found = speed(&space.layout(choice)?, constants).ok()?;
        Some((found.parts, found.communication))
    };
    let (Some((mine, my_kinds)), Some((theirs, their_kinds))) = (of(point), of(best)) else {
        return Vec::new();
    };
    let longer = kinds(&my_kinds).into_iter().zip(kinds(&their_kinds)).map(|(a, b)| (a.0, a.1 - b.1));
    let collective =
        longer.filter(|(_, more)| *more > 0.0).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name);
    let mut out: Vec<Because> = speed_parts(&mine)
        .into_iter()
        .zip(speed_parts(&theirs))
        .map(|(a, b)| Because {
            part: a.0,
            seconds: a.1 - b.1,
            collective: collective.filter(|_| a.0 == "exposed communication"),
        })
        .filter(|one| one.seconds > 0.0)
        .collect();
    out.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let most = out.first().map_or(0.0, |one| one.seconds);
    out.retain(|one| one.seconds >= 0.1 * most);
    out
}

/// What in the layout makes it slower or dearer than the other.
fn traits(space: &Space, point: &Choice, best: &Choice) -> Vec<String> {
    let mut out = Vec::new();
    let (mine, theirs) = (space.nodes_of_shard_group(point), space.nodes_of_shard_group(best));
    if mine > theirs {
        out.push(if theirs <= 1 {
            format!("its shard group crosses {mine} nodes")
        } else {
            format!("its shard group crosses {mine} nodes, not {theirs}")
        });
    }
    if again(point.recompute) > again(best.recompute) {
        out.push("it computes layers again".to_owned());
    }
    let gathers = point.degrees.sharding == Sharding::Full && point.degrees.shard > 1;
    if point.passes > best.passes && gathers && point.nodes == best.nodes {
        out.push(format!("it gathers its weights {} times a step, not {}", point.passes, best.passes));
    } else if point.micro < best.micro {
        out.push(format!("its micro-batch is {}, not {}", point.micro, best.micro));
    }
    // Activations that are offloaded without effect wait for nothing.
    let waits = |choice: &Choice| {
        choice.waiting.states || space.layout(choice).is_some_and(|layout| memory::offloads(&layout))
    };
    if waits(point) && !waits(best) {
        out.push("it waits for host memory".to_owned());
    }
    if point.site == best.site && point.nodes > best.nodes {
        out.push(format!("it has {} nodes, not {}", point.nodes, best.nodes));
    }
    if point.site != best.site {
        out.push(format!("{} instead of {}", space.name(point.site), space.name(best.site)));
    }
    out
}
