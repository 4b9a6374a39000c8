//! A verdict in words for the terminal.

use super::judge::{Errors, Verdict};
use super::tiers::Tier;
use crate::text;
use std::fmt::Write as _;

/// The verdict: overall, by tier where something was fitted, by family, and the rows that are furthest off.
pub fn human(verdict: &Verdict) -> String {
    let mut out = String::new();
    let summary = &verdict.summary;
    let _ = writeln!(
        out,
        "rows      {} judged, {} skipped",
        verdict.rows.len() - summary.skipped,
        summary.skipped
    );
    let _ = writeln!(out, "step time {}", line(&summary.step_seconds));
    if let Some(families) = summary.step_seconds_families {
        let _ = writeln!(out, "          families weighing alike: mean {}", percent(families));
    }
    if let Some(width) = summary.interval_half_width {
        let _ = writeln!(out, "          interval: median half-width {}", percent(width));
    }
    if let (Some(median), Some(largest)) = (summary.noise.median_spread, summary.noise.largest_spread) {
        let _ = writeln!(
            out,
            "          noise: {} measured more than once, slowest over fastest {} in the median, {} at most",
            text::count(summary.noise.layouts as u64, "layout"),
            percent(median),
            percent(largest)
        );
    }
    if summary.peak_memory_bytes.rows > 0 {
        let _ = writeln!(out, "memory    {}", line(&summary.peak_memory_bytes));
        let oom = summary.oom;
        let _ = writeln!(
            out,
            "          out of memory: {} of {} predicted, and {} of {} that ran",
            oom.caught, oom.rows, oom.wrong, oom.ran
        );
    }
    for tier in Tier::ALL {
        let Some(errors) = summary.by_tier.get(tier.word()) else { continue };
        let _ = writeln!(out, "\ntier {}: {}", tier.word(), tier.words());
        let _ = writeln!(out, "  all rows                 {}", line(&errors.step_seconds));
        if let Some(families) = errors.families {
            let _ = writeln!(out, "  families weighing alike  mean {}", percent(families));
        }
        for (family, errors) in &errors.by_family {
            let _ = writeln!(out, "  {family:<24} {}", line(errors));
        }
    }
    if summary.by_tier.is_empty() {
        out.push_str("\nby family\n");
        for (family, errors) in &summary.by_family {
            if errors.step_seconds.rows > 0 {
                let _ = writeln!(out, "  {family:<24} step time {}", line(&errors.step_seconds));
            }
            if errors.peak_memory_bytes.rows > 0 {
                let _ = writeln!(out, "  {family:<24} memory    {}", line(&errors.peak_memory_bytes));
            }
        }
    }
    let mut peaks: Vec<(&str, f64)> = verdict
        .rows
        .iter()
        .filter_map(|row| Some((row.id.as_str(), row.peak_memory_bytes.as_ref()?.error)))
        .collect();
    furthest(&mut out, "memory furthest off", &mut peaks);
    let mut worst: Vec<(&str, f64)> = verdict
        .rows
        .iter()
        .filter_map(|row| Some((row.id.as_str(), row.step_seconds.as_ref()?.error)))
        .collect();
    furthest(&mut out, "step time furthest off", &mut worst);
    out
}

/// The rows that are furthest off.
fn furthest(out: &mut String, what: &str, rows: &mut [(&str, f64)]) {
    rows.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    if !rows.is_empty() {
        let _ = writeln!(out, "\n{what}");
    }
    for (id, error) in rows.iter().take(8) {
        let _ = writeln!(out, "  {:>+6.1} %  {id}", error * 100.0);
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn line(errors: &Errors) -> String {
    let figure = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), percent);
    let mut out = format!(
        "{:>3} rows, mean {}, median {}, nine in ten within {}",
        errors.rows,
        figure(errors.mean_error),
        figure(errors.median_error),
        figure(errors.p90_error)
    );
    if let Some(inside) = errors.inside_interval {
        let _ = write!(out, ", {} inside", percent(inside));
    }
    out
}
