//! Reasons why a layout was not chosen.

use super::choice::Choice;
use super::front::Measure;
use super::runners_up::{closest_front_member, recompute_rank, replaced_by_front_member};
use super::search::{Point, Status};
use super::space::{Limits, Space};
use schemars::JsonSchema;
use serde::Serialize;
use trainc_predict::memory::{self, MemoryConstants, gpu_memory_parts};
use trainc_predict::speed::speed;
use trainc_predict::{Communication, Constants, MemoryParts, Sharding, SpeedParts};

/// Why a layout was rejected. Further kinds and members may be added.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reason {
    /// Another layout is at least as fast and as cheap.
    Beaten {
        /// Number in `front` of the layout that beats it by the smallest margin.
        #[schemars(range(min = 1))]
        by: usize,
        /// Whether the upper bounds of their intervals are compared.
        at_upper_ends: bool,
        /// Additional time of the run, a fraction.
        slower: f64,
        /// Additional cost, US dollars; null if a price is unknown.
        dearer_usd: Option<f64>,
        /// Additional on-demand cost, US dollars; null unless the job uses spot instances of unknown
        /// discount.
        dearer_on_demand_usd: Option<f64>,
        /// Parts of the step that take longer, the largest first.
        #[serde(rename = "because")]
        longer_parts: Vec<LongerPart>,
        /// Differences of the layout that cause it.
        traits: Vec<String>,
    },
    /// It is better by less than the noise and may not fit, while another surely does.
    #[serde(rename = "aside")]
    LessCertain {
        /// Number of the other layout in `front`.
        #[schemars(range(min = 1))]
        by: usize,
        /// Time saved, a fraction.
        quicker: f64,
        /// Saving, US dollars; null if a price is unknown.
        cheaper_usd: Option<f64>,
        /// Saving at on-demand prices, US dollars; null unless the job uses spot instances of unknown
        /// discount.
        cheaper_on_demand_usd: Option<f64>,
        /// Saving in dollars or node time, a fraction.
        #[serde(rename = "less_cost")]
        less: f64,
    },
    /// It does not fit.
    TooLarge {
        /// Bytes needed on the fullest GPU.
        needs_bytes: f64,
        /// Available bytes.
        has_bytes: f64,
        /// The largest part of it.
        part: &'static str,
        /// That part, bytes.
        part_bytes: f64,
    },
    /// It leaves too little room.
    Tight {
        /// Bytes needed on the fullest GPU.
        needs_bytes: f64,
        /// Available bytes.
        has_bytes: f64,
    },
    /// It ends after the deadline.
    #[serde(rename = "late")]
    TooLate {
        /// Seconds of the run.
        seconds: f64,
        /// The deadline, seconds.
        deadline_seconds: f64,
    },
    /// It costs too much, or its cost is unknown.
    #[serde(rename = "dear")]
    TooExpensive {
        /// US dollars of the run; null if a price is unknown.
        #[serde(rename = "cost_usd")]
        usd: Option<f64>,
        /// Upper bound of the cost, US dollars: for spot instances, the on-demand price.
        #[serde(rename = "on_demand_usd")]
        at_most_usd: Option<f64>,
        /// Maximum cost, US dollars.
        most_usd: f64,
        /// The unknown price, if both are unknown.
        #[serde(skip)]
        unpriced: String,
    },
    /// A check rejects it.
    Refused(Refusal),
}

/// Returns the additional cost of one over another and the additional on-demand cost, of which the measure
/// knows at most one, US dollars.
fn cost_difference(by: Measure, one: &Point, other: &Point) -> (Option<f64>, Option<f64>) {
    let more = by.cost_usd(one).zip(by.cost_usd(other)).map(|(one, other)| one - other);
    (more.filter(|_| by == Measure::Dollars), more.filter(|_| by == Measure::OnDemand))
}

/// A check rejects it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Refusal {
    /// The code.
    #[schemars(regex(pattern = r"^T[0-9]{4}$"))]
    pub code: String,
    /// The message.
    pub message: String,
    /// Number of compiled layouts with this error.
    pub layouts: usize,
}

/// A part of a step that takes longer than in the layout that beats it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LongerPart {
    /// The part.
    pub part: &'static str,
    /// Additional seconds per step.
    pub seconds: f64,
    /// The collective behind most of it.
    pub collective: Option<&'static str>,
}

/// Returns the reason why a point is not on the front; `None` if it is.
pub fn why_not_on_front(
    space: &Space,
    limits: &Limits,
    constants: &Constants,
    points: &[Point],
    front: &[usize],
    point: &Point,
) -> Option<Reason> {
    match point.status {
        Status::TooLarge => reason_too_large(space, constants, point),
        Status::Tight => {
            Some(Reason::Tight { needs_bytes: point.memory_bytes, has_bytes: point.capacity_bytes })
        }
        Status::TooLate => {
            Some(Reason::TooLate { seconds: point.seconds, deadline_seconds: limits.deadline_seconds? })
        }
        // Its own compilation reports the error.
        Status::Refused | Status::NeverFinishes => None,
        Status::TooExpensive => Some(Reason::TooExpensive {
            usd: point.usd,
            at_most_usd: point.most_usd,
            most_usd: limits.max_usd?,
            unpriced: space.describe_missing_price(point.choice.site),
        }),
        Status::Valid => {
            let measure = Measure::from_points(points);
            let Some((at, _)) = closest_front_member(points, front, measure, point) else {
                let at = replaced_by_front_member(points, front, measure, point)?;
                let other = points.get(*front.get(at)?)?;
                let (cheaper_usd, cheaper_on_demand_usd) = cost_difference(measure, other, point);
                return Some(Reason::LessCertain {
                    by: at + 1,
                    quicker: 1.0 - point.compared_seconds() / other.compared_seconds(),
                    cheaper_usd,
                    cheaper_on_demand_usd,
                    less: 1.0 - measure.cost(point) / measure.cost(other),
                });
            };
            let best = points.get(*front.get(at)?)?;
            let (dearer_usd, dearer_on_demand_usd) = cost_difference(measure, point, best);
            Some(Reason::Beaten {
                by: at + 1,
                at_upper_ends: point.is_compared_by_upper_end(),
                slower: point.compared_seconds() / best.compared_seconds() - 1.0,
                dearer_usd,
                dearer_on_demand_usd,
                longer_parts: longer_parts(space, constants, &point.choice, &best.choice),
                traits: describe_disadvantages(space, &point.choice, &best.choice),
            })
        }
    }
}

fn reason_too_large(space: &Space, constants: &Constants, point: &Point) -> Option<Reason> {
    let layout = space.layout(&point.choice)?;
    let parts = gpu_memory_parts(&layout, &MemoryConstants::from_constants(constants));
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

/// Returns the parts that differ between layouts; data loading is equal for all.
fn speed_parts(parts: &SpeedParts) -> [(&'static str, f64); 5] {
    [
        ("compute", parts.compute),
        ("exposed communication", parts.exposed_communication),
        ("bubble", parts.bubble),
        ("offload", parts.offload),
        ("optimizer", parts.optimizer),
    ]
}

fn communication_parts(of: &Communication) -> [(&'static str, f64); 7] {
    [
        ("tensor all-reduce", of.tensor),
        ("sends between stages", of.pipeline),
        ("expert all-to-all", of.experts),
        ("ring exchange of keys and values", of.context),
        ("all-gather and reduce-scatter", of.gather),
        ("all-reduce over replicas", of.replicas),
        ("gradient all-reduce", of.gradients),
    ]
}

/// Returns the parts of a step that take longer, the largest first, without those under a tenth of it.
fn longer_parts(space: &Space, constants: &Constants, point: &Choice, best: &Choice) -> Vec<LongerPart> {
    let of = |choice: &Choice| {
        let found = speed(&space.layout(choice)?, constants).ok()?;
        Some((found.parts, found.communication))
    };
    let (Some((mine, my_kinds)), Some((theirs, their_kinds))) = (of(point), of(best)) else {
        return Vec::new();
    };
    let longer = communication_parts(&my_kinds)
        .into_iter()
        .zip(communication_parts(&their_kinds))
        .map(|(a, b)| (a.0, a.1 - b.1));
    let collective =
        longer.filter(|(_, more)| *more > 0.0).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name);
    let mut out: Vec<LongerPart> = speed_parts(&mine)
        .into_iter()
        .zip(speed_parts(&theirs))
        .map(|(a, b)| LongerPart {
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

/// Describes the differences that make a layout slower or more expensive.
fn describe_disadvantages(space: &Space, point: &Choice, best: &Choice) -> Vec<String> {
    let mut out = Vec::new();
    let (mine, theirs) = (space.nodes_of_shard_group(point), space.nodes_of_shard_group(best));
    if mine > theirs {
        out.push(if theirs <= 1 {
            format!("its shard group crosses {mine} nodes")
        } else {
            format!("its shard group crosses {mine} nodes, not {theirs}")
        });
    }
    if recompute_rank(point.recompute) > recompute_rank(best.recompute) {
        out.push("it recomputes layers".to_owned());
    }
    let gathers = point.degrees.sharding == Sharding::Full && point.degrees.shard > 1;
    if point.passes > best.passes && gathers && point.nodes == best.nodes {
        out.push(format!("it gathers its weights {} times per step, not {}", point.passes, best.passes));
    } else if point.micro_batch_size < best.micro_batch_size {
        out.push(format!("its micro-batch is {}, not {}", point.micro_batch_size, best.micro_batch_size));
    }
    // Activations that are offloaded without effect cause no wait.
    let waits = |choice: &Choice| {
        choice.host_offload.states
            || space.layout(choice).is_some_and(|layout| memory::offloads_activations(&layout))
    };
    if waits(point) && !waits(best) {
        out.push("it offloads to host memory".to_owned());
    }
    if point.site == best.site && point.nodes > best.nodes {
        out.push(format!("it has {} nodes, not {}", point.nodes, best.nodes));
    }
    if point.site != best.site {
        out.push(format!(
            "{} instead of {}",
            space.instance_name(point.site),
            space.instance_name(best.site)
        ));
    }
    out
}
