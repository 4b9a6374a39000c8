//! Fit of the memory constants: the allocator's slack, the CUDA context and NCCL's buffers.
//!
//! What torch allocates is computed without fitted constants, so only rows that measured more than allocations
//! (nvidia-smi, reserved) determine them.

use super::run::{MemoryKind, Run};
use std::collections::BTreeMap;
use trainc_predict::Constants;
use trainc_predict::memory::{MeasuredAs, MemoryConstants, peak_by_instrument};

/// Key, prior value and physical bounds of each constant.
///
/// Slack: close to 0 to a quarter. Context: 0.47 (lazy loading, torch 2.1) to 1.78 GiB (torch 1.10). NCCL: 0.5 to 2 GiB
/// after the first collective. Both from ml-engineering, training/performance.
const PRIORS: [(&str, f64, f64, f64); 3] = [
    ("memory.slack", 0.1, 0.02, 0.25),
    ("memory.context_bytes", 0.8e9, 0.5e9, 1.9e9),
    ("memory.nccl_bytes", 1.2e9, 0.5e9, 2.1e9),
];

/// Returns key, lower bound, upper bound and source of each memory constant.
pub(super) fn bounds() -> impl Iterator<Item = (&'static str, f64, f64, &'static str)> {
    PRIORS.iter().map(|(key, _, low, high)| (*key, *low, *high, "ml-engineering, training/performance"))
}

/// Error added for a factor of e from the prior: the rows hardly distinguish the three constants.
const PULL: f64 = 0.02;

/// Grid steps per constant.
const GRID: u32 = 24;
/// Rounds of coordinate descent.
const ROUNDS: usize = 4;
/// Probability that a measurement lies beyond one end of the interval.
const TAIL: f64 = 0.05;
/// Resolution of the interval's ends, 1 over this: coarse enough that rounding the other constants does not matter.
const RESOLUTION: f64 = 1e3;
/// Fewest rows for a fit.
const MIN_ROWS: usize = 10;

/// Returns measured over predicted peaks by family; of more than allocations only, if `beyond_allocated`.
fn measured_over_predicted<'a>(
    runs: &[&'a Run],
    constants: &Constants,
    beyond_allocated: bool,
) -> BTreeMap<&'a str, Vec<f64>> {
    let own = MemoryConstants::from_constants(constants);
    let mut out: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for run in runs.iter().filter(|run| !run.oom) {
        let (Ok(layout), Some((measured, kind))) = (&run.memory_layout, run.peak_memory) else { continue };
        if kind == MemoryKind::Computed || beyond_allocated && kind.measured_as() == MeasuredAs::Allocated {
            continue;
        }
        let predicted = peak_by_instrument(layout, kind.measured_as(), &own);
        if predicted > 0.0 {
            out.entry(run.family.as_str()).or_default().push(measured / predicted);
        }
    }
    out
}

/// Returns the mean absolute error, families weighted equally.
fn mean_absolute_error(runs: &[&Run], constants: &Constants) -> f64 {
    let families = measured_over_predicted(runs, constants, true);
    let means = families.values().map(|ratios| {
        // Relative to the measurement.
        ratios.iter().map(|ratio| (1.0 / ratio - 1.0).abs()).sum::<f64>() / ratios.len().max(1) as f64
    });
    means.sum::<f64>() / families.len().max(1) as f64
}

/// Fits the memory constants by coordinate descent over a grid, and sets the interval from the residuals.
pub fn fit(runs: &[&Run], constants: &mut Constants) {
    let count = |beyond_allocated| {
        measured_over_predicted(runs, constants, beyond_allocated).values().map(Vec::len).sum::<usize>()
    };
    let (beyond_allocated, all) = (count(true), count(false));
    if beyond_allocated >= MIN_ROWS {
        for _ in 0..ROUNDS {
            for (key, likely, low, high) in PRIORS {
                let values = (0..=GRID).map(|step| low + (high - low) * f64::from(step) / f64::from(GRID));
                let mut best: Option<(f64, f64)> = None;
                for value in values {
                    let mut with = constants.clone();
                    if let Some(slot) = with.value_mut(key) {
                        *slot = value;
                    }
                    let error = mean_absolute_error(runs, &with) + PULL * (value / likely).ln().powi(2);
                    if best.is_none_or(|(least, _)| error < least) {
                        best = Some((error, value));
                    }
                }
                if let (Some((_, value)), Some(slot)) = (best, constants.value_mut(key)) {
                    *slot = value;
                }
            }
        }
    }
    if all >= MIN_ROWS {
        let mut ratios: Vec<f64> =
            measured_over_predicted(runs, constants, false).into_values().flatten().collect();
        ratios.sort_by(f64::total_cmp);
        let excluded = excluded_per_end(ratios.len());
        let low = ratios.get(excluded).map(|low| 1.0 - low);
        let high = ratios.iter().rev().nth(excluded).map(|high| high - 1.0);
        for (key, width) in [("memory.below", low), ("memory.above", high)] {
            if let (Some(width), Some(slot)) = (width, constants.value_mut(key)) {
                // Rounded outwards as written: the measurement at the end stays inside.
                *slot = (width.max(0.02) * RESOLUTION).ceil() / RESOLUTION;
            }
        }
    }
}

/// Returns how many measurements lie beyond one end of the interval, so that another one does with a probability of at
/// most [`TAIL`]: the end is the `(n + 1) · TAIL`th of them (split conformal prediction: Lei et al. 2018,
/// "Distribution-Free Predictive Inference for Regression", theorem 2.1).
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, at least zero")]
fn excluded_per_end(measurements: usize) -> usize {
    (((measurements + 1) as f64 * TAIL).floor() - 1.0).max(0.0) as usize
}

/// Sets the memory constants to their priors.
pub fn reset(constants: &mut Constants) {
    for (key, likely, ..) in PRIORS {
        if let Some(slot) = constants.value_mut(key) {
            *slot = likely;
        }
    }
}
