//! Peaks and rows that ran out of memory, in words, against their goals and the noise.

use super::fit::OWN;
use super::misses::Missed;
use super::noise::Noise;
use super::verdict::Verdict;
use super::words::{line, percent};
use std::fmt::Write as _;
use trainc_diag::text;

/// How far apart measurements of one layout lie: what no model of the table's columns can be better than.
pub(super) fn noise(noise: &Noise, what: &str) -> String {
    match (noise.median_spread, noise.largest_spread) {
        (Some(median), Some(largest)) => format!(
            "noise: {} measured more than once, {what} {} in the median, {} at most",
            text::count(noise.layouts as u64, "layout"),
            percent(median),
            percent(largest)
        ),
        _ => "noise floor not known: no layout was measured twice".to_owned(),
    }
}

/// What the mean absolute error of peaks is to be at most.
const PEAKS: f64 = 0.08;
/// The share of rows that ran and may be predicted not to fit, at most.
const WRONG: f64 = 0.05;

/// Peaks and rows that ran out of memory. Goals are for tables of many sources, and rows are named below with the reason.
pub(super) fn memory(out: &mut String, verdict: &Verdict) {
    let summary = &verdict.summary;
    let has_goals = verdict.rows.len() >= OWN;
    let goal = |word: String, is_met: bool| {
        let met = if is_met { "met" } else { "missed" };
        if has_goals { format!(", goal {word}: {met}") } else { String::new() }
    };
    let peaks = &summary.peak_memory_bytes;
    if let Some(mean) = peaks.mean_error {
        let _ = writeln!(
            out,
            "memory    {}{}",
            line(peaks),
            goal(format!("mean {}", percent(PEAKS)), mean <= PEAKS)
        );
        let _ = writeln!(out, "          {}", noise(&summary.noise_of_memory, "largest peak over least"));
    }
    if let Some(left_out) = &summary.peak_memory_left_out {
        let _ = writeln!(
            out,
            "          whole sources left out of the fit: {}, families weighing alike {}",
            line(&left_out.all).trim_start(),
            left_out.families.map_or_else(|| "not known".to_owned(), percent)
        );
        let mut families: Vec<_> = left_out.by_family.iter().collect();
        families.sort_by(|a, b| b.1.mean_error.unwrap_or(0.0).total_cmp(&a.1.mean_error.unwrap_or(0.0)));
        let words: Vec<String> = families
            .iter()
            .filter_map(|(family, errors)| {
                let rows = text::count(errors.rows as u64, "row");
                Some(format!("{family} {} ({rows})", percent(errors.mean_error?)))
            })
            .collect();
        let _ = writeln!(out, "          of {}", words.join(", "));
    }
    let oom = summary.oom;
    if oom.rows + oom.ran == 0 || peaks.rows + oom.rows == 0 {
        return;
    }
    let full: Vec<&str> = verdict
        .rows
        .iter()
        .filter(|row| row.missed().contains(&Missed::Full))
        .map(|row| row.id.as_str())
        .collect();
    let named = if full.is_empty() { String::new() } else { format!(" (not {})", text::list(&full, "and")) };
    let _ = writeln!(
        out,
        "          out of memory: {} of {} predicted{}{named}",
        oom.caught,
        oom.rows,
        goal("all".to_owned(), oom.caught == oom.rows)
    );
    let share = oom.wrong as f64 / oom.ran.max(1) as f64;
    let _ = writeln!(
        out,
        "          predicted not to fit: {} of {} that ran{}",
        oom.wrong,
        oom.ran,
        goal(percent(WRONG), share <= WRONG)
    );
}
