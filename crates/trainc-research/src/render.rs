//! Text of a study for the terminal.

use crate::noise::Noise;
use crate::questions::FigureRange;
use crate::study::Study;
use crate::tiers::scope;
use std::fmt::Write as _;
use trainc_calibrate::errors::percent;
use trainc_calibrate::held_out::Tier;
use trainc_diag::text;

/// Renders the errors by the given constants, then memory, tiers and ranges.
pub(crate) fn render(study: &Study) -> String {
    let mut out = trainc_calibrate::render(&study.verdict, false);
    memory(&mut out, study);
    let _ = writeln!(out, "\nstep times\n  {}", noise(&study.noise, "slowest over fastest"));
    for tier in Tier::ALL {
        tier_report(&mut out, study, tier);
    }
    ranges(&mut out, study);
    questions(&mut out, study);
    out
}

fn format_optional_percent(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), percent)
}

/// `noise: 3 layouts measured more than once, slowest over fastest 6.6 % (median), 7.6 % (largest)`.
fn noise(noise: &Noise, ratio: &str) -> String {
    match (noise.median_spread, noise.largest_spread) {
        (Some(median), Some(largest)) => format!(
            "noise: {} measured more than once, {ratio} {} (median), {} (largest)",
            text::count(noise.layouts as u64, "layout"),
            percent(median),
            percent(largest)
        ),
        _ => "noise: unknown, no layout was measured twice".to_owned(),
    }
}

fn memory(out: &mut String, study: &Study) {
    let summary = &study.verdict.summary;
    out.push_str("\nmemory\n");
    let _ = writeln!(out, "  peaks: {}", summary.peak_memory_bytes.to_string().trim_start());
    let _ = writeln!(out, "  {}", noise(&study.noise_of_peaks, "largest over smallest peak"));
    if let Some(peaks) = &study.held_out_peaks {
        let _ = writeln!(
            out,
            "  peaks with their source held out: {}, families weighted equally {}",
            peaks.all.to_string().trim_start(),
            format_optional_percent(peaks.families)
        );
        for (family, errors) in &peaks.by_family {
            let _ = writeln!(out, "  {family:<26} {errors}");
        }
    }
    let oom = summary.oom;
    let _ = writeln!(out, "  out of memory: {} of {} predicted", oom.caught, oom.rows);
    let _ = writeln!(out, "  predicted not to fit: {} of {} that ran", oom.wrong, oom.ran);
}

fn tier_report(out: &mut String, study: &Study, tier: Tier) {
    let Some(report) = study.by_tier.get(tier.as_str()) else { return };
    let _ = writeln!(out, "\ntier {}: {}", tier.as_str(), scope(tier));
    let _ = writeln!(out, "  all rows                   {}", report.errors.step_seconds);
    let _ = writeln!(
        out,
        "  intervals                  median half-width {}; 90 % of the rows require {}",
        format_optional_percent(report.median_half_width),
        format_optional_percent(report.required_half_width)
    );
    if let Some(mean) = report.errors.families {
        let _ = writeln!(out, "  families weighted equally  mean {}", percent(mean));
    }
    for (family, errors) in &report.errors.by_family {
        let _ = writeln!(out, "  {family:<26} {errors}");
    }
}

/// Lists the rows without a micro-batch outside their range, and the speedups between such rows.
fn ranges(out: &mut String, study: &Study) {
    if study.verdict.step_ranges.is_empty() {
        return;
    }
    out.push_str("\nrows without a micro-batch: calibration, not evidence\n");
    for range in study.verdict.step_ranges.iter().filter(|range| range.is_outside()) {
        let _ = writeln!(out, "  {}: outside its range", range.id);
    }
    for one in &study.speedups {
        let _ = writeln!(
            out,
            "  {} over {}: published speedup {:.2}, predicted {:.2} to {:.2}",
            one.fast, one.slow, one.published, one.low, one.high
        );
    }
}

fn questions(out: &mut String, study: &Study) {
    out.push_str(
        "\nfigures with other open properties, over all values that fit: calibration, not evidence\n",
    );
    for answer in &study.answers {
        let _ = writeln!(out, "  {} ({})", answer.what, answer.source);
        let open: Vec<String> =
            answer.open.iter().map(|it| format!("{} {}", it.what, text::list(&it.values, "or"))).collect();
        let _ = writeln!(out, "    open: {}", open.join("; "));
        for case in &answer.cases {
            let range = match (case.low, case.high) {
                (Some(low), Some(high)) => {
                    format!("{} to {}", text::short_number(low), text::short_number(high))
                }
                _ => "nothing, since no combination fits".to_owned(),
            };
            let inside = match case.is_inside {
                Some(true) => "inside",
                Some(false) => "outside",
                None => "unknown",
            };
            let published = text::short_number(case.published);
            let _ = writeln!(
                out,
                "    {}: published {published}, predicted {range}: {inside}{}",
                case.id,
                weak_evidence(case)
            );
        }
    }
}

/// Ratio between the ends of a range from which a figure inside it says little about the model.
const WIDE: f64 = 3.0;

fn weak_evidence(case: &FigureRange) -> String {
    match case.low.zip(case.high).map(|(low, high)| high / low) {
        Some(ratio) if ratio >= WIDE && case.is_inside == Some(true) => {
            format!(" (the ends are a factor of {ratio:.0} apart: the open properties decide, not the model)")
        }
        _ => String::new(),
    }
}
