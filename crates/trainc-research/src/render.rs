//! Text of a study for the terminal.

use crate::goals::{FALSE_ALARMS, HALF_WIDTH, PEAK_ERROR, scope};
use crate::misses::{Missed, cause, describe, wrong_predictions};
use crate::noise::Noise;
use crate::questions::FigureRange;
use crate::study::Study;
use crate::tiers::{FamilyAboveGoal, GroupReport, HalfWidths};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trainc_calibrate::errors::{Errors, percent};
use trainc_calibrate::half_width::MAX_SEEN;
use trainc_calibrate::held_out::Tier;
use trainc_diag::text;

/// Renders the errors by the given constants, then goals, tiers, ranges and causes of errors.
pub(crate) fn render(study: &Study) -> String {
    let mut out = trainc_calibrate::render(&study.verdict, false);
    goals(&mut out, study);
    for tier in Tier::ALL {
        tier_report(&mut out, study, tier);
    }
    ranges(&mut out, study);
    questions(&mut out, study);
    causes(&mut out, study);
    out
}

fn format_optional_percent(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), percent)
}

fn met_or_missed(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
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

fn goals(out: &mut String, study: &Study) {
    let summary = &study.verdict.summary;
    out.push_str("\ngoals\n");
    if let Some(width) = summary.interval_half_width {
        let cap = explain_cap(study.residual_half_width);
        let (is_met, goal) = (met_or_missed(width <= HALF_WIDTH), percent(HALF_WIDTH));
        let _ =
            writeln!(out, "  median half-width of step times {}, goal {goal}: {is_met}{cap}", percent(width));
    }
    let _ = writeln!(out, "  {}", noise(&study.noise, "slowest over fastest"));
    if let Some(mean) = summary.peak_memory_bytes.mean_error {
        let (is_met, goal) = (met_or_missed(mean <= PEAK_ERROR), percent(PEAK_ERROR));
        let _ = writeln!(out, "  mean error of peaks of memory {}, goal {goal}: {is_met}", percent(mean));
        let _ = writeln!(out, "  {}", noise(&study.noise_of_peaks, "largest over smallest peak"));
    }
    if let Some(peaks) = &study.held_out_peaks {
        let _ = writeln!(
            out,
            "  peaks with their source held out: {}, families weighted equally {}",
            peaks.all.to_string().trim_start(),
            format_optional_percent(peaks.families)
        );
        let _ = writeln!(out, "    {}", families(&peaks.by_family));
    }
    let oom = summary.oom;
    let rows = study.verdict.rows.iter().filter(|row| wrong_predictions(row).contains(&Missed::OutOfMemory));
    let ids: Vec<&str> = rows.map(|row| row.id.as_str()).collect();
    let names = if ids.is_empty() { String::new() } else { format!(" (not {})", text::list(&ids, "and")) };
    let _ = writeln!(
        out,
        "  out of memory: {} of {} predicted, goal all: {}{names}",
        oom.caught,
        oom.rows,
        met_or_missed(oom.caught == oom.rows)
    );
    let share = oom.wrong as f64 / oom.ran.max(1) as f64;
    let _ = writeln!(
        out,
        "  false alarms: {} of {} runs that ran, goal {}: {}",
        oom.wrong,
        oom.ran,
        percent(FALSE_ALARMS),
        met_or_missed(share <= FALSE_ALARMS)
    );
}

/// Explains a met goal of half-widths by their cap, if the residuals require more.
fn explain_cap(residual: Option<f64>) -> String {
    match residual.filter(|residual| *residual > MAX_SEEN) {
        Some(residual) => format!(
            " (capped at ±{MAX_SEEN}, a natural logarithm; the residuals of tiers B and C require ±{residual:.3}, {})",
            percent(residual.sinh())
        ),
        None => String::new(),
    }
}

fn tier_report(out: &mut String, study: &Study, tier: Tier) {
    let Some(report) = study.by_tier.get(tier.as_str()) else { return };
    let _ = writeln!(out, "\ntier {}: {}", tier.as_str(), scope(tier));
    for (name, group) in &report.by_group {
        let _ = writeln!(out, "  {name:<26} {}", group_goal(group));
        let _ = writeln!(out, "  {:<26} {}", "", families(&group.by_family));
        for family in &group.above_goal {
            let _ = writeln!(out, "  {:<26} {}", "", above_goal(family));
        }
    }
    let with_goal: usize = report.by_group.values().map(|group| group.rows).sum();
    let others = report.errors.step_seconds.rows.saturating_sub(with_goal);
    if with_goal > 0 && others > 0 {
        let _ = writeln!(out, "  no goal                    {}", text::count(others as u64, "other row"));
    }
    let _ = writeln!(out, "  all rows                   {}", report.errors.step_seconds);
    let cap = explain_cap(study.residual_half_width.filter(|_| tier != Tier::C));
    let _ = writeln!(out, "  intervals                  {}", half_width(&report.half_width, &cap));
    if let Some(mean) = report.errors.families {
        let _ = writeln!(out, "  families weighted equally  mean {}", percent(mean));
    }
    for (family, errors) in &report.errors.by_family {
        let _ = writeln!(out, "  {family:<26} {errors}");
    }
}

fn group_goal(group: &GroupReport) -> String {
    let goal = group.is_met.map_or("no goal", met_or_missed);
    let noise = match group.noise.median_spread {
        Some(spread) => {
            let layouts = text::count(group.noise.layouts as u64, "layout");
            format!("noise floor {} ({layouts} measured more than once)", percent(spread))
        }
        None => "noise floor unknown: no layout was measured twice".to_owned(),
    };
    format!(
        "{:>3} rows of {}, families weighted equally {}, goal {}: {goal}; {noise}",
        group.rows,
        text::count(group.by_family.len() as u64, "family"),
        format_optional_percent(group.mean_error),
        format_optional_percent(group.goal)
    )
}

/// Lists families, the largest mean error first.
fn families(by_family: &BTreeMap<String, Errors>) -> String {
    let mut families: Vec<_> = by_family.iter().collect();
    let mean = |errors: &Errors| errors.mean_error.unwrap_or(0.0);
    families.sort_by(|a, b| mean(b.1).total_cmp(&mean(a.1)));
    let names: Vec<String> = families
        .iter()
        .map(|(name, errors)| {
            format!("{name} {} ({})", percent(mean(errors)), text::count(errors.rows as u64, "row"))
        })
        .collect();
    names.join(", ")
}

/// Rows of a family above its goal that are named.
const NAMED: usize = 5;

fn above_goal(family: &FamilyAboveGoal) -> String {
    let named: Vec<String> =
        family.rows.iter().take(NAMED).map(|(id, error)| format!("{id} {:+.1} %", error * 100.0)).collect();
    let more = match family.rows.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("above the goal: {}, {}{more}", family.family, named.join(", "))
}

fn half_width(width: &HalfWidths, cap: &str) -> String {
    let is_met = width.median.map_or("unknown", |median| met_or_missed(median <= width.goal));
    let mut out = format!(
        "median half-width {}, goal {}: {is_met}{cap}; 90 % of the rows require {}",
        format_optional_percent(width.median),
        percent(width.goal),
        format_optional_percent(width.required)
    );
    if let Some(inside) = width.inside_of_seen {
        let _ = write!(
            out,
            "; wider than ±{MAX_SEEN} if no other source ran the system on such GPUs and links: ±{MAX_SEEN} contains {}",
            percent(inside)
        );
    }
    out
}

/// Lists the rows without a micro-batch outside their range, and the speedups between such rows.
fn ranges(out: &mut String, study: &Study) {
    if study.verdict.step_ranges.is_empty() {
        return;
    }
    out.push_str("\nrows without a micro-batch: calibration, not evidence\n");
    for range in study.verdict.step_ranges.iter().filter(|range| range.is_outside()) {
        let why = cause(&range.id, Missed::Time).unwrap_or("cause not investigated");
        let _ = writeln!(out, "  {}: outside its range: {why}", range.id);
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

/// Lists the rows with a wrong prediction and its cause.
fn causes(out: &mut String, study: &Study) {
    let mut found = study.verdict.rows.iter().filter_map(|row| Some((&row.id, describe(row)?))).peekable();
    if found.peek().is_some() {
        out.push_str("\nrows outside their intervals, and the known causes\n");
    }
    for (id, why) in found {
        let _ = writeln!(out, "  {id}: {why}");
    }
}
