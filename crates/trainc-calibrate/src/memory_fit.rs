//! Fit of the memory constants: the allocator's slack, the CUDA context and NCCL's buffers.
//!
//! What torch allocates is computed without fitted constants, so only rows that measured more than
//! allocations (nvidia-smi, reserved) determine them.

use super::run::{MemoryKind, Run};
use std::collections::BTreeMap;
use trainc_predict::memory::{MeasuredAs, MemoryConstants, peak_by_instrument};
use trainc_predict::{Constants, MemorySetting, PeakEnds};

const ML_ENGINEERING: &str = "ml-engineering, training/performance";

/// Key, prior value, physical bounds and their source of each constant.
///
/// Slack: close to 0 to a quarter. Context: 0.47 (lazy loading, torch 2.1) to 1.78 GiB (torch 1.10). NCCL:
/// 0.5 to 2 GiB after the first collective. Both from ml-engineering, training/performance. Pools of ZeRO-3:
/// from a bucket to what its limits allow, `stage3_max_live_parameters` and a bucket on each of two streams,
/// twice (DeepSpeed 0.19.8, defaults).
const PRIORS: [(&str, f64, f64, f64, &str); 4] = [
    ("memory.slack", 0.1, 0.02, 0.25, ML_ENGINEERING),
    ("memory.context_bytes", 0.8e9, 0.5e9, 1.9e9, ML_ENGINEERING),
    ("memory.nccl_bytes", 1.2e9, 0.5e9, 2.1e9, ML_ENGINEERING),
    ("memory.zero_pool_bytes", 4e9, 1e9, 8e9, "DeepSpeed 0.19.8, runtime/zero/config.py"),
];

/// Returns key, lower bound, upper bound and source of each memory constant.
pub(super) fn bounds() -> impl Iterator<Item = (&'static str, f64, f64, &'static str)> {
    PRIORS.iter().map(|(key, _, low, high, source)| (*key, *low, *high, *source))
}

/// Error added for a factor of e from the prior: the rows hardly distinguish these constants.
const PULL: f64 = 0.02;

/// Grid steps per constant.
const GRID: u32 = 24;
/// Rounds of coordinate descent.
const ROUNDS: usize = 4;
/// Probability that a measurement lies beyond one end of the interval of its own setting.
const TAIL: f64 = 0.05;
/// The same of the interval of settings without own ends, by the errors of families that weigh alike: their
/// tails are those of the least known codes.
const GENERAL_TAIL: f64 = 0.1;
/// Resolution of the interval's ends, 1 over this: coarse enough that rounding the other constants does not
/// matter.
const RESOLUTION: f64 = 1e3;
/// Smallest end of a setting's own interval (rule of thumb: a few measurements of one source do not show its
/// spread).
const MIN_OWN_END: f64 = 0.05;
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
            for (key, likely, low, high, _) in PRIORS {
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
        let mut ratios: Vec<(f64, f64)> = measured_over_predicted(runs, constants, false)
            .into_values()
            .flat_map(|ratios| {
                let weight = 1.0 / ratios.len() as f64;
                ratios.into_iter().map(move |ratio| (ratio, weight))
            })
            .collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let low = end(ratios.iter(), GENERAL_TAIL).map(|low| 1.0 - low);
        let high = end(ratios.iter().rev(), GENERAL_TAIL).map(|high| high - 1.0);
        for (key, width) in [("memory.below", low), ("memory.above", high)] {
            if let (Some(width), Some(slot)) = (width, constants.value_mut(key)) {
                // Rounded outwards as written: the measurement at the end stays inside.
                *slot = (width.max(0.02) * RESOLUTION).ceil() / RESOLUTION;
            }
        }
        constants.set_peak_ends(own_ends(runs, constants));
    }
}

/// Returns the ends of the settings with at least [`MIN_ROWS`] measurements.
fn own_ends(runs: &[&Run], constants: &Constants) -> Vec<PeakEnds> {
    let settings = runs.iter().filter_map(|run| MemorySetting::from_layout(run.memory_layout.as_ref().ok()?));
    let mut unique: Vec<MemorySetting> = Vec::new();
    for setting in settings {
        if !unique.contains(&setting) {
            unique.push(setting);
        }
    }
    let of_setting = |setting: &MemorySetting| {
        let is_own = |run: &&&Run| {
            run.memory_layout
                .as_ref()
                .is_ok_and(|layout| MemorySetting::from_layout(layout) == Some(*setting))
        };
        let own: Vec<&Run> = runs.iter().filter(is_own).copied().collect();
        let mut ratios: Vec<(f64, f64)> = measured_over_predicted(&own, constants, false)
            .into_values()
            .flatten()
            .map(|ratio| (ratio, 1.0))
            .collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        (ratios.len() >= MIN_ROWS).then_some(())?;
        let (low, high) = (end(ratios.iter(), TAIL)?, end(ratios.iter().rev(), TAIL)?);
        let outwards = |width: f64| (width.max(MIN_OWN_END) * RESOLUTION).ceil() / RESOLUTION;
        Some(PeakEnds { setting: *setting, below: outwards(1.0 - low), above: outwards(high - 1.0) })
    };
    unique.iter().filter_map(of_setting).collect()
}

/// Returns the first ratio, of pairs with a weight from one end inwards, beyond which at most `tail` of the
/// weight lies if one more measurement is added (split conformal prediction: Lei et al. 2018,
/// "Distribution-Free Predictive Inference for Regression", theorem 2.1, with families that weigh alike).
fn end<'a>(ratios: impl ExactSizeIterator<Item = &'a (f64, f64)> + Clone, tail: f64) -> Option<f64> {
    let whole: f64 = ratios.clone().map(|(_, weight)| weight).sum();
    let more = whole / ratios.len().max(1) as f64;
    let mut beyond = more;
    ratios.clone().find_map(|(ratio, weight)| {
        beyond += weight;
        (beyond > tail * (whole + more) + 1e-12).then_some(*ratio)
    })
}

/// Sets the memory constants to their priors.
pub fn reset(constants: &mut Constants) {
    for (key, likely, ..) in PRIORS {
        if let Some(slot) = constants.value_mut(key) {
            *slot = likely;
        }
    }
}
