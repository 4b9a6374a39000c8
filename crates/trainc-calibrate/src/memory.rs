//! The memory constants, fitted to what sources measured.
//!
//! Few and bounded: a slack of the allocator and what CUDA and NCCL take. What torch allocates is computed and fits
//! nothing; so only rows that show more than allocations (nvidia-smi, reserved) say something about them.

use super::fit::OWN;
use super::judge::{instrument, mean, of_peaks};
use super::runs::{MemoryKind, Run};
use super::verdict::{Bytes, Errors, PeaksLeftOut};
use std::collections::BTreeMap;
use trainc_predict::Constants;
use trainc_predict::memory::{MeasuredAs, MemoryConstants, as_measured};

/// A constant's key, its likely value, and the physical bounds between which it is sought.
///
/// Slack: nothing to a quarter. Context: 0.47 (lazy loading, torch 2.1) to 1.78 GiB (torch 1.10). NCCL: 0.5 to 2 GiB
/// after the first collective. Both from ml-engineering, training/performance.
const TRIED: [(&str, f64, f64, f64); 3] = [
    ("memory.slack", 0.1, 0.02, 0.25),
    ("memory.context_bytes", 0.8e9, 0.5e9, 1.9e9),
    ("memory.nccl_bytes", 1.2e9, 0.5e9, 2.1e9),
];

/// The constants of memory that a fit moves: name, the least and the most, and where these come from.
pub(super) fn bounds() -> impl Iterator<Item = (&'static str, f64, f64, &'static str)> {
    TRIED.iter().map(|(key, _, low, high)| (*key, *low, *high, "ml-engineering, training/performance"))
}

/// What a constant costs that lies a factor of e from its likely value, as an error: rows tell the three hardly apart.
const PULL: f64 = 0.02;

/// Values of one constant.
const GRID: u32 = 24;
/// Times that every constant is visited.
const ROUNDS: usize = 4;
/// Chance that a measurement lies outside the interval, at each of its ends.
const TAIL: f64 = 0.05;
/// In parts of one the ends of the interval are written, so that they outlast the rounding of the other constants.
const ROUNDED: f64 = 1e3;
/// Rows below which nothing is fitted: one's own few runs move the speed constants alone.
const LEAST: usize = 10;

/// Measured over predicted, by family.
fn ratios<'a>(runs: &[&'a Run], constants: &Constants, whole: bool) -> BTreeMap<&'a str, Vec<f64>> {
    let own = MemoryConstants::of(constants);
    let mut out: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for run in runs.iter().filter(|run| !run.oom) {
        let (Ok(layout), Some((measured, kind))) = (&run.memory_layout, run.peak_memory) else { continue };
        if kind == MemoryKind::Computed || whole && instrument(kind) == MeasuredAs::Allocated {
            continue;
        }
        let predicted = as_measured(layout, instrument(kind), &own);
        if predicted > 0.0 {
            out.entry(run.family.as_str()).or_default().push(measured / predicted);
        }
    }
    out
}

/// The mean of the families' means of absolute errors.
fn error(runs: &[&Run], constants: &Constants) -> f64 {
    let families = ratios(runs, constants, true);
    let means = families.values().map(|ratios| {
        // The error is counted against the measurement.
        ratios.iter().map(|ratio| (1.0 / ratio - 1.0).abs()).sum::<f64>() / ratios.len().max(1) as f64
    });
    means.sum::<f64>() / families.len().max(1) as f64
}

/// Fits the memory constants, one after the other over a grid, and takes the interval from the residuals.
pub(super) fn fit(runs: &[&Run], constants: &mut Constants) {
    let count = |whole| ratios(runs, constants, whole).values().map(Vec::len).sum::<usize>();
    let (shown, all) = (count(true), count(false));
    if shown >= LEAST {
        for _ in 0..ROUNDS {
            for (key, likely, low, high) in TRIED {
                let values = (0..=GRID).map(|step| low + (high - low) * f64::from(step) / f64::from(GRID));
                let mut best: Option<(f64, f64)> = None;
                for value in values {
                    let mut with = constants.clone();
                    if let Some(slot) = with.slot(key) {
                        *slot = value;
                    }
                    let error = error(runs, &with) + PULL * (value / likely).ln().powi(2);
                    if best.is_none_or(|(least, _)| error < least) {
                        best = Some((error, value));
                    }
                }
                if let (Some((_, value)), Some(slot)) = (best, constants.slot(key)) {
                    *slot = value;
                }
            }
        }
    }
    if all >= LEAST {
        let mut ratios: Vec<f64> = ratios(runs, constants, false).into_values().flatten().collect();
        ratios.sort_by(f64::total_cmp);
        let outside = outside(ratios.len());
        let low = ratios.get(outside).map(|low| 1.0 - low);
        let high = ratios.iter().rev().nth(outside).map(|high| high - 1.0);
        for (key, width) in [("memory.below", low), ("memory.above", high)] {
            if let (Some(width), Some(slot)) = (width, constants.slot(key)) {
                // As it will be written, rounded outwards: the measurement at the end stays inside.
                *slot = (width.max(0.02) * ROUNDED).ceil() / ROUNDED;
            }
        }
    }
}

/// Of so many measurements those that may lie beyond one end of an interval, so that one more lies beyond it with a chance
/// of [`TAIL`] at most: the end is the `(n + 1) · TAIL`th of them (split conformal prediction: Lei et al. 2018,
/// "Distribution-Free Predictive Inference for Regression", theorem 2.1).
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, held above zero")]
fn outside(measurements: usize) -> usize {
    (((measurements + 1) as f64 * TAIL).floor() - 1.0).max(0.0) as usize
}

/// Measured and predicted bytes of the peaks of each source, by constants that were fitted to the other sources alone, from
/// what was likely before: with the ends of their interval.
fn left_out<'a>(runs: &[&'a Run], start: &Constants) -> BTreeMap<&'a str, Vec<Bytes>> {
    let mut families: Vec<&str> = ratios(runs, start, false).into_keys().collect();
    families.sort_unstable();
    let of = |family: &'a str| {
        let others: Vec<&Run> = runs.iter().copied().filter(|run| run.family != family).collect();
        let mut constants = start.clone();
        for (key, likely, ..) in TRIED {
            if let Some(slot) = constants.slot(key) {
                *slot = likely;
            }
        }
        fit(&others, &mut constants);
        let own = MemoryConstants::of(&constants);
        let peaks = runs.iter().filter(|run| run.family == family && !run.oom).filter_map(|run| {
            let (layout, (measured, kind)) = (run.memory_layout.as_ref().ok()?, run.peak_memory?);
            let predicted = as_measured(layout, instrument(kind), &own);
            (kind != MemoryKind::Computed && predicted > 0.0)
                .then(|| Bytes::between(measured, predicted, (own.below, own.above)))
        });
        (family, peaks.collect())
    };
    families.into_iter().map(of).collect()
}

/// Peaks by constants of memory that were fitted without their source; none of a table that is one's own, or of one source.
pub(super) fn peaks_left_out(runs: &[Run], constants: &Constants, peaks: usize) -> Option<PeaksLeftOut> {
    if peaks < OWN {
        return None;
    }
    let families = left_out(&runs.iter().collect::<Vec<_>>(), constants);
    if families.len() < 2 {
        return None;
    }
    let all: Vec<&Bytes> = families.values().flatten().collect();
    let by_family: BTreeMap<String, Errors> = families
        .iter()
        .map(|(family, peaks)| ((*family).to_owned(), of_peaks(&peaks.iter().collect::<Vec<_>>())))
        .collect();
    Some(PeaksLeftOut {
        all: of_peaks(&all),
        families: mean(by_family.values().filter_map(|errors| errors.mean_error)),
        by_family,
    })
}
