//! Predicted against measured, row by row and overall.

use super::fit::{OWN, Sample, fit, samples};
use super::goals::Group;
use super::misses::missing_of_family;
use super::noise::{noise, noise_of_memory};
use super::open::{open, ratios};
use super::outside::{at_bounds, outside_of};
use super::questions::answers;
use super::runs::{MemoryKind, Run, Table};
use super::tiers::{
    MOST, Tier, half_width, left_out, own_half_width, residual_half_width, unseen_half_width,
};
pub use super::verdict::{
    Bytes, Errors, Family, Grouped, HalfWidth, Line, Ooms, Over, Part, PeaksLeftOut, Summary, Tiered, Time,
    Verdict,
};
use std::collections::{BTreeMap, BTreeSet};
use trainc_predict::memory::{MeasuredAs, MemoryConstants, as_measured, memory_with};
use trainc_predict::{Constants, FEWEST_RUNS, GpuKind, Setting, predict};

/// Judges a table with these constants; they are not fitted to it.
pub fn judge(table: &Table, constants: &Constants) -> Verdict {
    let lines = table.runs.iter().map(|run| line(run, constants)).collect();
    verdict(lines, (table, constants), BTreeMap::new(), None)
}

/// The same with the tiers of a table that is large enough to say them: what constants that were fitted without a row,
/// its model or its source make of it. The rows are judged by the constants as given all the same.
pub fn judge_with_tiers(table: &Table, constants: &Constants) -> Verdict {
    let found = samples(&table.runs, constants);
    let lines: Vec<Line> = table.runs.iter().map(|run| line(run, constants)).collect();
    let mut tiers = BTreeMap::new();
    let mut residual = None;
    if found.len() >= OWN {
        let all: Vec<Sample> = found.iter().map(|(_, one)| *one).collect();
        let predictions: Vec<Vec<f64>> =
            Tier::ALL.iter().map(|tier| left_out(*tier, &all, constants)).collect();
        for (tier, seconds) in Tier::ALL.iter().zip(&predictions) {
            let times = times_of(&lines, &found, seconds);
            let judged = tiered((*tier, Group::of_tier(*tier)), table, &times);
            let judged =
                if *tier == Tier::C { widened(judged, table, times, (&all, seconds)) } else { judged };
            tiers.insert(tier.word(), judged);
        }
        residual = residual_half_width(&all, predictions.get(1..).unwrap_or_default());
    }
    verdict(lines, (table, constants), tiers, residual)
}

/// Each sample's left-out prediction, with an interval as wide in proportion as its line's.
fn times_of<'a>(
    lines: &[Line],
    found: &[(usize, Sample<'a>)],
    predictions: &[f64],
) -> Vec<(usize, &'a str, Time)> {
    found
        .iter()
        .zip(predictions)
        .filter_map(|((at, one), predicted)| {
            let shown = lines.get(*at)?.step_seconds.as_ref()?;
            let scale = predicted / shown.predicted;
            let time = Time {
                measured: one.measured,
                predicted: *predicted,
                low: shown.low * scale,
                high: shown.high * scale,
                error: predicted / one.measured - 1.0,
                parts: shown.parts.clone(),
            };
            Some((*at, one.family, time))
        })
        .collect()
}

/// The tier of sources that no fit saw with the intervals that a plan would show by such a fit: wider where no other
/// source ran that system on that kind of GPU over those links.
fn widened(
    seen: Tiered,
    table: &Table,
    mut times: Vec<(usize, &str, Time)>,
    (samples, predictions): (&[Sample], &[f64]),
) -> Tiered {
    let residual = residual_half_width(samples, std::slice::from_ref(&predictions.to_vec()));
    let wider = (unseen_half_width(residual) - MOST).exp();
    let runs = |setting: &Setting, blind: Option<&str>| {
        let like = |one: &&Sample| Setting::of(one.layout).is_some_and(|other| other.is_like(setting));
        samples.iter().filter(|one| Some(one.family) != blind).filter(like).count() as f64 >= FEWEST_RUNS
    };
    for (at, family, time) in &mut times {
        let layout = table.runs.get(*at).and_then(|run| run.layout.as_ref().ok());
        let Some(setting) = layout.and_then(Setting::of) else { continue };
        // What too few of all sources ran is wider already.
        if runs(&setting, None) && !runs(&setting, Some(family)) {
            (time.low, time.high) = (time.low / wider, time.high * wider);
        }
    }
    let mut out = tiered((Tier::C, Group::of_tier(Tier::C)), table, &times);
    out.half_width.inside_of_seen = seen.step_seconds.inside_interval;
    out
}

/// Fits the constants to a table, and judges every row by constants that were fitted without it (tier A), without its
/// model (B) and without its source (C). Of a table that is small enough to be one's own no goals are said. None where the
/// table has no row to fit anything to.
pub fn fitted(table: &Table, start: &Constants) -> Option<(Constants, Verdict)> {
    let found = samples(&table.runs, start);
    let has_peak = |run: &Run| run.memory_layout.is_ok() && run.peak_memory.is_some();
    if found.is_empty() && !table.runs.iter().any(has_peak) {
        return None;
    }
    let all: Vec<_> = found.iter().map(|(_, one)| *one).collect();
    let predictions: Vec<Vec<f64>> = Tier::ALL.iter().map(|tier| left_out(*tier, &all, start)).collect();
    let mut constants = fit(&all, start);
    super::memory::fit(&table.runs.iter().collect::<Vec<_>>(), &mut constants);
    let sources: BTreeSet<&str> = all.iter().map(|one| one.family).collect();
    let residual = residual_half_width(&all, predictions.get(1..).unwrap_or_default());
    if all.len() < OWN || sources.len() < 2 {
        // Runs of one's own say how far the next one of their kind will be; of other kinds they say nothing.
        for kind in GpuKind::chips() {
            let general = start.gpu(kind).map(|gpu| gpu.interval.unwrap_or_else(|| start.of_kind(gpu)));
            let seen = predictions.first().zip(general);
            let width = seen.and_then(|(rows, general)| own_half_width(&all, rows, kind, general));
            if let Some(width) = width {
                constants.set_interval(kind, width);
            }
        }
    } else if let Some(slot) = constants.slot("interval.known") {
        *slot = half_width(residual);
        let blind = residual_half_width(&all, predictions.get(2..).unwrap_or_default());
        if let Some(slot) = constants.slot("interval.unseen") {
            *slot = unseen_half_width(blind);
        }
    }
    let mut lines: Vec<Line> = table.runs.iter().map(|run| line(run, &constants)).collect();
    let mut tiers = BTreeMap::new();
    let mut shown = Vec::new();
    for (tier, seconds) in Tier::ALL.iter().zip(&predictions) {
        let times = times_of(&lines, &found, seconds);
        // A few runs of one's own say nothing of goals that are set for many.
        let groups = if all.len() < OWN { &[] } else { Group::of_tier(*tier) };
        let judged = tiered((*tier, groups), table, &times);
        if *tier == Tier::A {
            shown = times;
            tiers.insert(tier.word(), judged);
        } else if *tier == Tier::C && all.len() >= OWN {
            tiers.insert(tier.word(), widened(judged, table, times, (&all, seconds)));
        } else {
            tiers.insert(tier.word(), judged);
        }
    }
    for (at, _, time) in shown {
        if let Some(line) = lines.get_mut(at) {
            (line.tier, line.step_seconds) = (Some(Tier::A.word()), Some(time));
            line.missing = line.misses();
        }
    }
    let residual = residual.filter(|_| all.len() >= OWN);
    let constants_at_bounds = at_bounds(&constants, start);
    let verdict = Verdict { constants_at_bounds, ..verdict(lines, (table, &constants), tiers, residual) };
    Some((constants, verdict))
}

/// The families of a group that are further off than its goal, with their rows.
fn over(
    tier: Tier,
    goal: Option<f64>,
    families: &BTreeMap<String, Errors>,
    table: &Table,
    times: &[(usize, &str, Time)],
    has: &dyn Fn(usize) -> bool,
) -> Vec<Over> {
    let mut over: Vec<(f64, Over)> = families
        .iter()
        .filter_map(|(family, errors)| {
            let error = errors.mean_error.filter(|error| goal.is_some_and(|goal| *error > goal))?;
            let own = times.iter().filter(|(at, of, _)| of == family && has(*at));
            let id = |at: usize| table.runs.get(at).map_or_else(String::new, |run| run.id.clone());
            let mut rows: Vec<(String, f64)> = own.map(|(at, _, time)| (id(*at), time.error)).collect();
            rows.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
            Some((error, Over { family: family.clone(), rows, missing: missing_of_family(tier, family) }))
        })
        .collect();
    over.sort_by(|a, b| b.0.total_cmp(&a.0));
    over.into_iter().map(|(_, over)| over).collect()
}

fn tiered((tier, groups): (Tier, &[Group]), table: &Table, times: &[(usize, &str, Time)]) -> Tiered {
    let by_family = |has: &dyn Fn(usize) -> bool| -> BTreeMap<String, Errors> {
        let mut families: BTreeMap<String, Vec<&Time>> = BTreeMap::new();
        for (_, family, time) in times.iter().filter(|(at, ..)| has(*at)) {
            families.entry((*family).to_owned()).or_default().push(time);
        }
        families.into_iter().map(|(family, times)| (family, of_times(&times))).collect()
    };
    let alike =
        |families: &BTreeMap<String, Errors>| mean(families.values().filter_map(|errors| errors.mean_error));
    let groups = groups.iter().map(|group| {
        let has = |at: usize| table.runs.get(at).is_some_and(|run| group.has(run));
        let families = by_family(&has);
        let (mean_error, goal) = (alike(&families), group.goal(tier));
        let own = table.runs.iter().enumerate().filter(|(at, _)| has(*at)).map(|(_, run)| run);
        let met = mean_error.zip(goal).map(|(error, goal)| error <= goal);
        let grouped = Grouped {
            rows: families.values().map(|errors| errors.rows).sum(),
            mean_error,
            goal,
            met,
            over: if met == Some(false) {
                over(tier, goal, &families, table, times, &has)
            } else {
                Vec::new()
            },
            noise: noise(own),
            by_family: families,
        };
        (group.word(), grouped)
    });
    let all: Vec<&Time> = times.iter().map(|(.., time)| time).collect();
    let families = by_family(&|_| true);
    let mut shown: Vec<f64> = all.iter().map(|time| (time.high - time.low) / 2.0 / time.predicted).collect();
    let mut asked: Vec<f64> =
        all.iter().map(|time| (time.predicted / time.measured).ln().abs().sinh()).collect();
    let half_width = HalfWidth {
        median: quantile(&mut shown, 0.5),
        asked: quantile(&mut asked, 0.9),
        goal: Some(tier.half_width()),
        inside_of_seen: None,
    };
    Tiered {
        half_width,
        step_seconds: of_times(&all),
        families: alike(&families),
        by_group: groups.filter(|(_, group)| group.rows > 0).collect(),
        by_family: families,
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
        missing: None,
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
                parts: Part::of(speed),
            });
        }
        (Ok(_), None) => {
            why = trainc_predict::speed::speed(layout, constants).err().map(|unknown| unknown.0.to_owned());
        }
        (Err(reason), _) => why = Some(reason.clone()),
        (Ok(_), Some(_)) => {}
    }
    if let Ok(layout) = &run.memory_layout {
        let own = MemoryConstants::of(constants);
        line.fits = memory_with(layout, &own).fits;
        if let Some((measured, kind)) = run.peak_memory.filter(|_| !run.oom) {
            let predicted = as_measured(layout, instrument(kind), &own);
            line.peak_memory_bytes = Some(Bytes::between(measured, predicted, (own.below, own.above)));
        }
    }
    if line.step_seconds.is_none() && line.peak_memory_bytes.is_none() && !(run.oom && line.fits.is_some()) {
        // Of a row that ran out of memory it is memory that would be judged.
        let of_memory = run.memory_layout.as_ref().err().filter(|_| run.oom || run.peak_memory.is_some());
        line.skipped =
            Some(of_memory.cloned().or(why).unwrap_or_else(|| "nothing of it is measured".to_owned()));
    }
    line.missing = line.misses();
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

fn verdict(
    rows: Vec<Line>,
    (table, constants): (&Table, &Constants),
    by_tier: BTreeMap<&'static str, Tiered>,
    residual_half_width: Option<f64>,
) -> Verdict {
    let open = open(&table.runs, constants);
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
        open_ratios: ratios(&table.runs, &open),
        open,
        questions: answers(constants),
        constants_outside: outside_of(table, constants),
        constants_at_bounds: Vec::new(),
        summary: Summary {
            step_seconds: of_times(&times),
            step_seconds_families: mean(
                by_family.values().filter_map(|family| family.step_seconds.mean_error),
            ),
            peak_memory_bytes: of_peaks(&bytes),
            peak_memory_left_out: super::memory::peaks_left_out(&table.runs, constants, bytes.len()),
            oom,
            interval_half_width: quantile(&mut widths, 0.5),
            residual_half_width,
            by_family,
            by_tier,
            noise: noise(&table.runs),
            noise_of_memory: noise_of_memory(&table.runs),
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

pub(super) fn of_peaks(peaks: &[&Bytes]) -> Errors {
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

pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0_u32, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / f64::from(n))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
pub(super) fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = ((values.len().checked_sub(1)?) as f64 * share).round() as usize;
    values.get(at).copied()
}
