//! The result of the search as the data of the HTML chart.

use super::figures::OnDemand;
use std::collections::BTreeMap;
use trainc_ops::checked_layouts::{CheckedLayouts, Sound};
use trainc_predict::Run;
use trainc_report::html::{FrontLayout, ParetoFront, PlotPoint, RunnerUp};
use trainc_tune::front::Measure;
use trainc_tune::{Point, Space, Status};

/// Cells of the grid in which dominated layouts are thinned out, for each factor of e on the logarithmic axes:
/// at most one layout is drawn per cell.
const CELLS: f64 = 12.0;

/// Returns the front and the layouts that it dominates, with the same cost measure.
pub(crate) fn front(
    job: &str,
    manifest: &str,
    space: &Space,
    judged: &CheckedLayouts,
    lost: Vec<(String, String)>,
) -> ParetoFront {
    let measure = Measure::from_points(&judged.points);
    let is_priced = measure != Measure::NodeSeconds;
    let spot = |point: &Point| {
        let cost = measure.predicted_cost(point);
        let cost = if is_priced { cost } else { cost / 3_600.0 };
        cost.is_finite().then_some(PlotPoint { seconds: point.seconds, cost })
    };
    // A member that cannot be drawn is included too, because `--write=N` counts all.
    let choice = |sound: &Sound| {
        let point = judged.points.get(sound.at)?;
        let (run, speed) = (sound.compiled.prediction.run.as_ref(), sound.compiled.prediction.speed.as_ref());
        Some(FrontLayout {
            spot: spot(point),
            seconds: point.seconds,
            words: space.describe_layout(&point.choice).replacen(" × ", "\u{a0}×\u{a0}", 1),
            sets: space.values_to_set(&point.choice).iter().map(ToString::to_string).collect(),
            step_seconds: speed.map_or(point.step_seconds, |speed| speed.step_seconds),
            run_seconds: run.map(Run::expected_seconds),
            cost_usd: run.and_then(|run| run.cost_usd).or_else(|| OnDemand::from_run(run, point).usd),
            memory_bytes: sound.compiled.prediction.memory.as_ref().map(|memory| memory.per_gpu_bytes),
            may_need_bytes: sound.high_memory_if_tight(),
        })
    };
    let shown: Vec<usize> = judged.front.iter().map(|sound| sound.at).collect();
    let beaten = judged
        .points
        .iter()
        .enumerate()
        .filter(|(at, point)| point.status == Status::Valid && !shown.contains(at))
        .filter_map(|(_, point)| spot(point))
        .collect();
    let written = space.as_written().and_then(|written| {
        judged
            .points
            .iter()
            .find(|point| point.choice == *written && point.status == Status::Valid)
            .and_then(spot)
    });
    ParetoFront {
        job: job.to_owned(),
        manifest: manifest.to_owned(),
        best: judged.front.iter().filter_map(choice).collect(),
        beaten: thin_by_grid(beaten),
        written,
        lost: lost.into_iter().map(|(words, why)| RunnerUp { words, why }).collect(),
        looked_at: space.describe_search_size(judged.points.len()),
        fit: judged.count_fitting() as u64,
        first_choice: judged.first_choice(),
        is_priced,
        is_on_demand: measure == Measure::OnDemand,
    }
}

/// Keeps one point per cell of a grid.
#[expect(clippy::cast_possible_truncation, reason = "cells of a grid")]
fn thin_by_grid(spots: Vec<PlotPoint>) -> Vec<PlotPoint> {
    let cell = |amount: f64| (amount.max(f64::MIN_POSITIVE).ln() * CELLS) as i64;
    let mut cells = BTreeMap::new();
    for spot in spots {
        cells.entry((cell(spot.seconds), cell(spot.cost))).or_insert(spot);
    }
    cells.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spots_on_top_of_each_other_are_drawn_once() {
        let spot = |seconds, cost| PlotPoint { seconds, cost };
        let kept = thin_by_grid(vec![spot(10.0, 10.0), spot(10.001, 10.0), spot(100.0, 100.0)]);
        assert_eq!(kept, [spot(10.0, 10.0), spot(100.0, 100.0)]);
        assert!(thin_by_grid(Vec::new()).is_empty());
    }
}
