//! Held-out errors of a tier against its goals.

use crate::goals::{Group, half_width_goal};
use crate::noise::{Noise, noise_of_times};
use std::collections::BTreeMap;
use trainc_calibrate::Table;
use trainc_calibrate::errors::{Errors, quantile};
use trainc_calibrate::fit::STANDALONE;
use trainc_calibrate::held_out::{HeldOut, HeldOutTime, Tier};
use trainc_calibrate::judge::tier_errors;
use trainc_calibrate::verdict::{RowVerdict, TierErrors};

/// Errors of a tier.
#[derive(Clone, Debug)]
pub struct TierReport {
    /// Errors overall and by family.
    pub errors: TierErrors,
    /// Widths of the intervals.
    pub half_width: HalfWidths,
    /// Groups with a goal in the tier.
    pub by_group: BTreeMap<&'static str, GroupReport>,
}

/// Half-widths of a tier's intervals, fractions of the prediction.
#[derive(Clone, Copy, Debug)]
pub struct HalfWidths {
    /// Median of the intervals.
    pub median: Option<f64>,
    /// Half-width that would contain 90 % of the rows.
    pub required: Option<f64>,
    /// Largest median.
    pub goal: f64,
    /// Share of the rows inside the interval of settings that were fitted, if a wider one is shown.
    pub inside_of_seen: Option<f64>,
}

/// Errors of rows with a common goal.
#[derive(Clone, Debug)]
pub struct GroupReport {
    /// Number of rows.
    pub rows: usize,
    /// By family.
    pub by_family: BTreeMap<String, Errors>,
    /// Mean absolute error, families weighted equally.
    pub mean_error: Option<f64>,
    /// Largest mean.
    pub goal: Option<f64>,
    /// True if the goal is met.
    pub is_met: Option<bool>,
    /// Families above a missed goal, the largest error first.
    pub above_goal: Vec<FamilyAboveGoal>,
    /// Spread of repeated measurements.
    pub noise: Noise,
}

/// A family above the goal of its group.
#[derive(Clone, Debug, PartialEq)]
pub struct FamilyAboveGoal {
    /// Name.
    pub family: String,
    /// Rows with their errors, fractions, the largest first.
    pub rows: Vec<(String, f64)>,
}

impl TierReport {
    /// Evaluates a tier, with the relative intervals of `rows`.
    pub fn new(tier: Tier, table: &Table, held_out: &HeldOut, rows: &[RowVerdict]) -> Self {
        let mut times = held_out.times(tier, rows);
        let mut inside_of_seen = None;
        if tier == Tier::C && held_out.samples().len() >= STANDALONE {
            inside_of_seen = tier_errors(&times).step_seconds.inside_interval;
            held_out.widen_tier_c(&mut times);
        }
        let mut shown: Vec<f64> = times.iter().map(|one| one.time.half_width()).collect();
        let mut required: Vec<f64> =
            times.iter().map(|one| (one.time.predicted / one.time.measured).ln().abs().sinh()).collect();
        let by_group = Group::of_tier(tier)
            .iter()
            .map(|group| (group.name(), GroupReport::new((tier, *group), table, &times)))
            .filter(|(_, group)| group.rows > 0)
            .collect();
        Self {
            errors: tier_errors(&times),
            half_width: HalfWidths {
                median: quantile(&mut shown, 0.5),
                required: quantile(&mut required, 0.9),
                goal: half_width_goal(tier),
                inside_of_seen,
            },
            by_group,
        }
    }
}

impl GroupReport {
    fn new((tier, group): (Tier, Group), table: &Table, times: &[HeldOutTime]) -> Self {
        let is_member = |row: usize| table.runs.get(row).is_some_and(|run| group.contains(run));
        let times: Vec<HeldOutTime> = times.iter().filter(|one| is_member(one.row)).cloned().collect();
        let errors = tier_errors(&times);
        let goal = group.goal(tier);
        let is_met = errors.families.zip(goal).map(|(error, goal)| error <= goal);
        let above_goal = if is_met == Some(false) {
            above_goal(goal, &errors.by_family, table, &times)
        } else {
            Vec::new()
        };
        Self {
            rows: times.len(),
            mean_error: errors.families,
            goal,
            is_met,
            above_goal,
            noise: noise_of_times(table.runs.iter().filter(|run| group.contains(run))),
            by_family: errors.by_family,
        }
    }
}

/// Returns the families of a group above its goal, with their rows.
fn above_goal(
    goal: Option<f64>,
    families: &BTreeMap<String, Errors>,
    table: &Table,
    times: &[HeldOutTime],
) -> Vec<FamilyAboveGoal> {
    let mut found: Vec<(f64, FamilyAboveGoal)> = families
        .iter()
        .filter_map(|(family, errors)| {
            let error = errors.mean_error.filter(|error| goal.is_some_and(|goal| *error > goal))?;
            let id = |at: usize| table.runs.get(at).map_or_else(String::new, |run| run.id.clone());
            let own = times.iter().filter(|one| one.family == family);
            let mut rows: Vec<(String, f64)> = own.map(|one| (id(one.row), one.time.error)).collect();
            rows.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
            Some((error, FamilyAboveGoal { family: family.clone(), rows }))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, family)| family).collect()
}
