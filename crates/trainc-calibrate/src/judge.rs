//! Judging a table of runs by the cost model, and fitting its constants.

use super::bounds::{at_bounds, out_of_range_for_table};
use super::errors::{Errors, FamilyErrors, mean, quantile};
use super::fit::{STANDALONE, fit, samples};
use super::half_width::own_half_width;
use super::held_out::{HeldOut, HeldOutTime, Tier};
use super::memory_fit;
use super::run::{Run, Table};
use super::unknown_micro_batch::step_ranges;
use super::verdict::{
    OutOfMemoryCounts, PeakMemory, RowVerdict, StepShare, StepTime, Summary, TierErrors, Verdict,
};
use super::width_fit::fit_widths;
use std::collections::{BTreeMap, BTreeSet};
use trainc_predict::memory::{MemoryConstants, memory_with, peak_by_instrument};
use trainc_predict::{Constants, GpuKind, predict};

/// Judges a table by these constants.
pub fn judge(table: &Table, constants: &Constants) -> Verdict {
    let rows = table.runs.iter().map(|run| row_verdict(run, constants)).collect();
    verdict(rows, (table, constants), BTreeMap::new())
}

/// Fits the constants to a table, and judges each step time by a fit without that row. `None` if no row can
/// be fitted.
pub fn fit_and_judge(table: &Table, start: &Constants) -> Option<(Constants, Verdict)> {
    let held_out = HeldOut::new(table, start);
    let constants = fit_table(table, start, &held_out)?;
    let mut rows: Vec<RowVerdict> = table.runs.iter().map(|run| row_verdict(run, &constants)).collect();
    let mut by_tier = BTreeMap::new();
    let mut shown = Vec::new();
    for tier in Tier::ALL {
        let times = held_out.times(tier, &constants);
        by_tier.insert(tier.as_str(), tier_errors(&times));
        if tier == Tier::A {
            shown = times;
        }
    }
    for HeldOutTime { row, time, .. } in shown {
        if let Some(row) = rows.get_mut(row) {
            (row.tier, row.step_seconds) = (Some(Tier::A.as_str()), Some(time));
        }
    }
    let constants_at_bounds = at_bounds(&constants, start);
    let verdict = Verdict { constants_at_bounds, ..verdict(rows, (table, &constants), by_tier) };
    Some((constants, verdict))
}

/// Keeps the speed constants, adjusts those of memory, and judges the table by them: its runs are too few
/// for a fit, and are evidence for similar layouts instead. `None` if no row can be predicted.
pub fn keep_and_judge(table: &Table, start: &Constants) -> Option<(Constants, Verdict)> {
    let has_peak = |run: &Run| run.memory_layout.is_ok() && run.peak_memory.is_some();
    if samples(&table.runs, start).is_empty() && !table.runs.iter().any(has_peak) {
        return None;
    }
    let mut constants = start.clone();
    memory_fit::fit(&table.runs.iter().collect::<Vec<_>>(), &mut constants);
    let verdict = judge(table, &constants);
    Some((constants, verdict))
}

/// Returns true if a table has enough runs to fit the speed constants to.
pub fn has_enough_runs(table: &Table, start: &Constants) -> bool {
    samples(&table.runs, start).len() >= STANDALONE
}

/// Fits all constants to a table: speed, memory and the half-widths of the intervals, these from the held-out
/// errors. `None` if no row can be fitted.
pub fn fit_table(table: &Table, start: &Constants, held_out: &HeldOut) -> Option<Constants> {
    let samples = held_out.samples();
    let has_peak = |run: &Run| run.memory_layout.is_ok() && run.peak_memory.is_some();
    if samples.is_empty() && !table.runs.iter().any(has_peak) {
        return None;
    }
    let mut constants = fit(samples, start);
    memory_fit::fit(&table.runs.iter().collect::<Vec<_>>(), &mut constants);
    let families: BTreeSet<&str> = samples.iter().map(|one| one.family).collect();
    if samples.len() < STANDALONE || families.len() < 2 {
        // A user's own runs determine the interval of their GPU types only.
        for kind in GpuKind::with_own_constants() {
            let general =
                start.gpu(kind).map(|gpu| gpu.interval.unwrap_or_else(|| start.default_half_width(gpu)));
            let width = general.and_then(|general| {
                own_half_width(samples, held_out.predicted_seconds(Tier::A), kind, general)
            });
            if let Some(width) = width {
                constants.set_interval(kind, width);
            }
        }
    } else {
        fit_widths(held_out, &mut constants);
    }
    Some(constants)
}

/// Returns the errors of step times.
pub fn time_errors<'a>(times: impl IntoIterator<Item = &'a StepTime>) -> Errors {
    Errors::new(times.into_iter().map(|time| (time.error, time.is_inside())))
}

/// Returns the errors of peaks.
pub fn peak_errors<'a>(peaks: impl IntoIterator<Item = &'a PeakMemory>) -> Errors {
    Errors::new(peaks.into_iter().map(|peak| (peak.error, peak.is_inside())))
}

/// Returns the errors of held-out step times, overall and by family.
pub fn tier_errors(times: &[HeldOutTime]) -> TierErrors {
    let mut families: BTreeMap<String, Vec<&StepTime>> = BTreeMap::new();
    for one in times {
        families.entry(one.family.to_owned()).or_default().push(&one.time);
    }
    let by_family: BTreeMap<String, Errors> =
        families.into_iter().map(|(family, times)| (family, time_errors(times))).collect();
    TierErrors {
        step_seconds: time_errors(times.iter().map(|one| &one.time)),
        families: mean(by_family.values().filter_map(|errors| errors.mean_error)),
        by_family,
    }
}

fn row_verdict(run: &Run, constants: &Constants) -> RowVerdict {
    let mut row = RowVerdict {
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
            row.skipped = Some(why.clone());
            return row;
        }
    };
    let prediction = predict(layout, constants);
    let mut why = None;
    match (&run.step_seconds, &prediction.speed) {
        (Ok(measured), Some(speed)) if !run.oom => {
            row.step_seconds = Some(StepTime {
                measured: *measured,
                predicted: speed.step_seconds,
                low: speed.interval.low,
                high: speed.interval.high,
                error: speed.step_seconds / measured - 1.0,
                parts: StepShare::from_speed(speed),
            });
        }
        (Ok(_), None) => {
            why = trainc_predict::speed::speed(layout, constants).err().map(|unknown| unknown.0.to_owned());
        }
        (Err(reason), _) => why = Some(reason.clone()),
        (Ok(_), Some(_)) => {}
    }
    if let Ok(layout) = &run.memory_layout {
        let memory = MemoryConstants::from_constants(constants);
        row.fits = memory_with(layout, &memory).fits;
        if let Some((measured, kind)) = run.peak_memory.filter(|_| !run.oom) {
            let predicted = peak_by_instrument(layout, kind.measured_as(), &memory);
            row.peak_memory_bytes = Some(PeakMemory::new(measured, predicted, memory.ends(layout)));
        }
    }
    if row.step_seconds.is_none() && row.peak_memory_bytes.is_none() && !(run.oom && row.fits.is_some()) {
        // An out-of-memory failure is judged by memory.
        let of_memory = run.memory_layout.as_ref().err().filter(|_| run.oom || run.peak_memory.is_some());
        row.skipped = Some(of_memory.cloned().or(why).unwrap_or_else(|| "no measurement".to_owned()));
    }
    row
}

fn verdict(
    rows: Vec<RowVerdict>,
    (table, constants): (&Table, &Constants),
    by_tier: BTreeMap<&'static str, TierErrors>,
) -> Verdict {
    let times = || rows.iter().filter_map(|row| row.step_seconds.as_ref());
    let mut widths: Vec<f64> = times().map(StepTime::half_width).collect();
    let families: BTreeSet<&str> = rows.iter().map(|row| row.family.as_str()).collect();
    let by_family: BTreeMap<String, FamilyErrors> = families
        .into_iter()
        .map(|family| {
            let own = || rows.iter().filter(|row| row.family == family);
            let errors = FamilyErrors {
                step_seconds: time_errors(own().filter_map(|row| row.step_seconds.as_ref())),
                peak_memory_bytes: peak_errors(own().filter_map(|row| row.peak_memory_bytes.as_ref())),
            };
            (family.to_owned(), errors)
        })
        .collect();
    let is_judged = |row: &&RowVerdict| row.fits.is_some();
    let oom = OutOfMemoryCounts {
        rows: rows.iter().filter(is_judged).filter(|row| row.oom).count(),
        caught: rows.iter().filter(|row| row.oom && row.fits == Some(false)).count(),
        wrong: rows.iter().filter(|row| !row.oom && row.fits == Some(false)).count(),
        ran: rows.iter().filter(is_judged).filter(|row| !row.oom).count(),
    };
    Verdict {
        format_version: "1.0",
        step_ranges: step_ranges(&table.runs, constants),
        constants_out_of_range: out_of_range_for_table(table, constants),
        constants_at_bounds: Vec::new(),
        summary: Summary {
            step_seconds: time_errors(times()),
            step_seconds_families: mean(
                by_family.values().filter_map(|family| family.step_seconds.mean_error),
            ),
            peak_memory_bytes: peak_errors(rows.iter().filter_map(|row| row.peak_memory_bytes.as_ref())),
            oom,
            interval_half_width: quantile(&mut widths, 0.5),
            by_family,
            by_tier,
            skipped: rows.iter().filter(|row| row.skipped.is_some()).count(),
        },
        rows,
    }
}
