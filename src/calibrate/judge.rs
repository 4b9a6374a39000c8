//! Predicted against measured, row by row and overall.

use super::fit::{fit, samples};
use super::noise::{Noise, noise};
use super::runs::{MemoryKind, Run, Table};
use super::tiers::{Tier, half_width, left_out};
use crate::predict::memory::{MeasuredAs, MemoryConstants, as_measured, memory_with};
use crate::predict::{Constants, predict};
use serde::Serialize;
use std::collections::BTreeMap;

/// A table judged, as `calibrate -o json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Of the output's format.
    pub format_version: &'static str,
    /// A line for each row.
    pub rows: Vec<Line>,
    /// All rows together.
    pub summary: Summary,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Its name.
    pub id: String,
    /// Its family.
    pub family: String,
    /// What of it the fit did not see; null when nothing was fitted.
    pub tier: Option<&'static str>,
    /// Seconds of a step.
    pub step_seconds: Option<Time>,
    /// Bytes of a GPU.
    pub peak_memory_bytes: Option<Bytes>,
    /// Whether it ran out of memory.
    pub oom: bool,
    /// Whether it is predicted to fit.
    pub fits: Option<bool>,
    /// Why nothing of it can be judged.
    pub skipped: Option<String>,
}

/// A step's time.
#[derive(Clone, Debug, Serialize)]
pub struct Time {
    /// As the source has it.
    pub measured: f64,
    /// As the model has it.
    pub predicted: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Predicted over measured, less one.
    pub error: f64,
}

/// A GPU's peak.
#[derive(Clone, Debug, Serialize)]
pub struct Bytes {
    /// As the source has it.
    pub measured: f64,
    /// As the model has it, of the same kind.
    pub predicted: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Predicted over measured, less one.
    pub error: f64,
}

/// Errors of many rows, absolute fractions.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Errors {
    /// How many rows.
    pub rows: usize,
    /// Mean.
    pub mean_error: Option<f64>,
    /// Median.
    pub median_error: Option<f64>,
    /// The ninth decile.
    pub p90_error: Option<f64>,
    /// Share of the rows whose measurement lies inside the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside_interval: Option<f64>,
}

/// Rows that ran out of memory.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ooms {
    /// How many ran out, of those that can be judged.
    pub rows: usize,
    /// Of them, how many are predicted not to fit.
    pub caught: usize,
    /// Rows that ran and are predicted not to fit.
    #[serde(rename = "false")]
    pub wrong: usize,
    /// Rows that ran, of those that can be judged.
    pub ran: usize,
}

/// All rows together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Step times.
    pub step_seconds: Errors,
    /// Step times with every family weighing alike: the mean of the families' means.
    pub step_seconds_families: Option<f64>,
    /// Peaks.
    pub peak_memory_bytes: Errors,
    /// Rows that ran out of memory.
    pub oom: Ooms,
    /// Median half-width of the step times' intervals, a fraction of the prediction.
    pub interval_half_width: Option<f64>,
    /// Step times and peaks by family.
    pub by_family: BTreeMap<String, Family>,
    /// Step times by tier, where something was fitted.
    pub by_tier: BTreeMap<&'static str, Tiered>,
    /// How far apart the source's own measurements of one layout lie.
    pub noise: Noise,
    /// Rows that could not be judged.
    pub skipped: usize,
}

/// One family.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Family {
    /// Step times.
    pub step_seconds: Errors,
    /// Peaks.
    pub peak_memory_bytes: Errors,
}

/// One tier: errors of rows that the fit did not see.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tiered {
    /// All rows.
    pub step_seconds: Errors,
    /// Every family weighing alike.
    pub families: Option<f64>,
    /// By family.
    pub by_family: BTreeMap<String, Errors>,
}

/// Judges a table with these constants; nothing is fitted.
pub fn judge(table: &Table, constants: &Constants) -> Verdict {
    let lines = table.runs.iter().map(|run| line(run, constants)).collect();
    verdict(lines, BTreeMap::new(), noise(&table.runs))
}

/// Fits the constants to a table, and judges every row by constants that were fitted without it (tier A), without its
/// model (B) and without its source (C).
pub fn fitted(table: &Table, start: &Constants) -> (Constants, Verdict) {
    let found = samples(&table.runs, start);
    let all: Vec<_> = found.iter().map(|(_, one)| *one).collect();
    let predictions: Vec<Vec<f64>> = Tier::ALL.iter().map(|tier| left_out(*tier, &all, start)).collect();
    let mut constants = fit(&all, start);
    super::memory::fit(&table.runs, &mut constants);
    if let Some(slot) = constants.slot("interval.known")
        && all.len() >= 20
    {
        *slot = half_width(&all, predictions.get(1..).unwrap_or_default());
    }
    let mut lines: Vec<Line> = table.runs.iter().map(|run| line(run, &constants)).collect();
    let mut tiers = BTreeMap::new();
    for (tier, seconds) in Tier::ALL.iter().zip(&predictions) {
        let mut times: Vec<(&str, Time)> = Vec::new();
        for ((at, one), predicted) in found.iter().zip(seconds) {
            let Some(line) = lines.get_mut(*at) else { continue };
            let Some(shown) = &mut line.step_seconds else { continue };
            // The interval keeps its relative width.
            let scale = predicted / shown.predicted;
            let time = Time {
                measured: one.measured,
                predicted: *predicted,
                low: shown.low * scale,
                high: shown.high * scale,
                error: predicted / one.measured - 1.0,
            };
            if *tier == Tier::A {
                line.tier = Some(tier.word());
                *shown = time.clone();
            } else if let Some(shown) = &line.step_seconds {
                debug_assert!(shown.measured > 0.0);
            }
            times.push((one.family, time));
        }
        tiers.insert(tier.word(), tiered(&times));
    }
    (constants, verdict(lines, tiers, noise(&table.runs)))
}

fn tiered(times: &[(&str, Time)]) -> Tiered {
    let mut families: BTreeMap<String, Vec<&Time>> = BTreeMap::new();
    for (family, time) in times {
        families.entry((*family).to_owned()).or_default().push(time);
    }
    let by_family: BTreeMap<String, Errors> =
        families.into_iter().map(|(family, times)| (family, of_times(&times))).collect();
    let all: Vec<&Time> = times.iter().map(|(_, time)| time).collect();
    Tiered {
        step_seconds: of_times(&all),
        families: mean(by_family.values().filter_map(|errors| errors.mean_error)),
        by_family,
    }
}

fn line(run: &Run, constants: &Constants) -> Line {
    let mut line = Line {
        id: run.id.clone(),
        family: run.family.clone(),
        tier: None,
        step_seconds: None,
        peak_memory_bytes: None,
        oom: run.oom,
        fits: None,
        skipped: None,
    };
    let layout = match &run.layout {
        Ok(layout) => layout,
        Err(why) => {
            line.skipped = Some(why.clone());
            return line;
        }
    };
    let prediction = predict(layout, constants);
    let mut why = None;
    match (&run.step_seconds, &prediction.speed) {
        (Ok(measured), Some(speed)) if !run.oom => {
            line.step_seconds = Some(Time {
                measured: *measured,
                predicted: speed.step_seconds,
                low: speed.interval.low,
                high: speed.interval.high,
                error: speed.step_seconds / measured - 1.0,
            });
        }
        (Ok(_), None) => {
            why = crate::predict::speed::speed(layout, constants).err().map(|unknown| unknown.0.to_owned());
        }
        (Err(reason), _) => why = Some(reason.clone()),
        (Ok(_), Some(_)) => {}
    }
    if let Ok(layout) = &run.memory_layout {
        let own = MemoryConstants::of(constants);
        line.fits = memory_with(layout, &own).fits;
        if let Some((measured, kind)) = run.peak_memory.filter(|_| !run.oom) {
            let predicted = as_measured(layout, instrument(kind), &own);
            line.peak_memory_bytes = Some(Bytes {
                measured,
                predicted,
                low: predicted * (1.0 - own.below),
                high: predicted * (1.0 + own.above),
                error: predicted / measured - 1.0,
            });
        }
    }
    if line.step_seconds.is_none() && line.peak_memory_bytes.is_none() && !(run.oom && line.fits.is_some()) {
        line.skipped = Some(why.unwrap_or_else(|| "nothing of it is measured".to_owned()));
    }
    line
}

/// What a source's instrument sees.
pub(super) fn instrument(kind: MemoryKind) -> MeasuredAs {
    match kind {
        MemoryKind::Allocated => MeasuredAs::Allocated,
        MemoryKind::Reserved => MeasuredAs::Reserved,
        MemoryKind::Smi | MemoryKind::Computed => MeasuredAs::Whole,
    }
}

fn verdict(rows: Vec<Line>, by_tier: BTreeMap<&'static str, Tiered>, noise: Noise) -> Verdict {
    let times: Vec<&Time> = rows.iter().filter_map(|line| line.step_seconds.as_ref()).collect();
    let bytes: Vec<&Bytes> = rows.iter().filter_map(|line| line.peak_memory_bytes.as_ref()).collect();
    let mut widths: Vec<f64> =
        times.iter().map(|time| (time.high - time.low) / 2.0 / time.predicted).collect();
    let mut by_family: BTreeMap<String, Family> = BTreeMap::new();
    let mut families: Vec<&str> = rows.iter().map(|line| line.family.as_str()).collect();
    families.sort_unstable();
    families.dedup();
    for family in families {
        let own = || rows.iter().filter(|line| line.family == family);
        let times: Vec<&Time> = own().filter_map(|line| line.step_seconds.as_ref()).collect();
        let bytes: Vec<&Bytes> = own().filter_map(|line| line.peak_memory_bytes.as_ref()).collect();
        by_family.insert(
            family.to_owned(),
            Family { step_seconds: of_times(&times), peak_memory_bytes: of_peaks(&bytes) },
        );
    }
    let judged = |line: &&Line| line.fits.is_some();
    let oom = Ooms {
        rows: rows.iter().filter(judged).filter(|line| line.oom).count(),
        caught: rows.iter().filter(|line| line.oom && line.fits == Some(false)).count(),
        wrong: rows.iter().filter(|line| !line.oom && line.fits == Some(false)).count(),
        ran: rows.iter().filter(judged).filter(|line| !line.oom).count(),
    };
    Verdict {
        format_version: "1.0",
        summary: Summary {
            step_seconds: of_times(&times),
            step_seconds_families: mean(
                by_family.values().filter_map(|family| family.step_seconds.mean_error),
            ),
            peak_memory_bytes: of_peaks(&bytes),
            oom,
            interval_half_width: quantile(&mut widths, 0.5),
            by_family,
            by_tier,
            noise,
            skipped: rows.iter().filter(|line| line.skipped.is_some()).count(),
        },
        rows,
    }
}

fn of_times(times: &[&Time]) -> Errors {
    let inside = times.iter().filter(|time| (time.low..=time.high).contains(&time.measured)).count() as f64;
    Errors {
        inside_interval: (!times.is_empty()).then(|| inside / times.len() as f64),
        ..errors(times.iter().map(|time| time.error.abs()).collect())
    }
}

fn of_peaks(peaks: &[&Bytes]) -> Errors {
    let inside = peaks.iter().filter(|peak| (peak.low..=peak.high).contains(&peak.measured)).count() as f64;
    Errors {
        inside_interval: (!peaks.is_empty()).then(|| inside / peaks.len() as f64),
        ..errors(peaks.iter().map(|peak| peak.error.abs()).collect())
    }
}

fn errors(mut absolute: Vec<f64>) -> Errors {
    Errors {
        rows: absolute.len(),
        mean_error: mean(absolute.iter().copied()),
        median_error: quantile(&mut absolute, 0.5),
        p90_error: quantile(&mut absolute, 0.9),
        inside_interval: None,
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0_u32, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / f64::from(n))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
pub(super) fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = ((values.len().checked_sub(1)?) as f64 * share).round() as usize;
    values.get(at).copied()
}
