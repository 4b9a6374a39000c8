//! A verdict in words for the terminal.

use super::fit::OWN;
use super::judge::{Errors, Grouped, HalfWidth, Line, Over, Verdict};
use super::outside::AT_BOUNDS;
use super::peaks::{memory, noise};
use super::questions::Range;
use super::rows::rows;
use super::tiers::{MOST, Tier};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trainc_diag::text;

/// What the median half-width of the intervals is to be at most, a fraction of the prediction.
const HALF_WIDTH: f64 = 0.2;

/// The verdict: overall, by tier where something was fitted, by family, and the rows that are furthest off; of a table of
/// one's own every row, `all` of them or the worst.
pub fn human(verdict: &Verdict, all: bool) -> String {
    let mut out = String::new();
    let summary = &verdict.summary;
    let _ = writeln!(
        out,
        "rows      {} judged, {} skipped",
        verdict.rows.len() - summary.skipped,
        summary.skipped
    );
    skipped(&mut out, verdict);
    let _ = writeln!(out, "step time {}", line(&summary.step_seconds));
    let families = summary.by_family.values().filter(|family| family.step_seconds.rows > 0).count();
    if let Some(families) = summary.step_seconds_families.filter(|_| families > 1) {
        let _ = writeln!(out, "          families weighing alike: mean {}", percent(families));
    }
    let is_own = verdict.rows.len() < OWN;
    if let Some(width) = summary.interval_half_width.filter(|_| is_own) {
        // Goals are set for many runs.
        let _ = writeln!(out, "          interval: median half-width {} of the prediction", percent(width));
    } else if let Some(width) = summary.interval_half_width {
        let met = if width <= HALF_WIDTH { "met" } else { "missed" };
        let _ = writeln!(
            out,
            "          interval: median half-width {} of the prediction, goal {}: {met}{}",
            percent(width),
            percent(HALF_WIDTH),
            by_the_cap(summary.residual_half_width)
        );
    }
    if let Some(asked) = summary.residual_half_width.filter(|asked| *asked > MOST) {
        let inside: Vec<String> = Tier::ALL
            .iter()
            .filter_map(|tier| {
                let errors = summary.by_tier.get(tier.word())?;
                let inside = errors.half_width.inside_of_seen.or(errors.step_seconds.inside_interval)?;
                Some(format!("{} in tier {}", percent(inside), tier.word()))
            })
            .collect();
        let _ = writeln!(
            out,
            "          capped: what is written is ±{MOST} at most (a natural logarithm), the residuals ask for ±{asked:.3}; it holds {}",
            text::list(&inside, "and")
        );
    }
    if summary.noise.layouts > 0 {
        let _ = writeln!(out, "          {}", noise(&summary.noise, "slowest over fastest"));
    }
    memory(&mut out, verdict);
    // What of a few runs is left when one, its model or its source is taken out says nothing of tiers.
    let has_tiers = summary.by_tier.values().any(|tier| tier.step_seconds.rows >= OWN);
    for tier in Tier::ALL.iter().filter(|_| has_tiers) {
        let Some(errors) = summary.by_tier.get(tier.word()) else { continue };
        let _ = writeln!(out, "\ntier {}: {}", tier.word(), tier.words());
        if !errors.by_group.is_empty() {
            let _ = writeln!(out, "  goal: {}", tier.goal());
        }
        for (word, group) in &errors.by_group {
            let _ = writeln!(out, "  {word:<24} {}", goal(group));
            let _ = writeln!(out, "  {:<24} {}", "", made_of(group));
            for one in &group.over {
                let _ = writeln!(out, "  {:<24} {}", "", over(one));
            }
        }
        let held: usize = errors.by_group.values().map(|group| group.rows).sum();
        let rest = errors.step_seconds.rows.saturating_sub(held);
        if held > 0 && rest > 0 {
            let rest = text::count(rest as u64, "other row");
            let _ = writeln!(out, "  no goal is set for       {rest}, which count below");
        }
        let _ = writeln!(out, "  all rows                 {}", line(&errors.step_seconds));
        let cap = by_the_cap(summary.residual_half_width.filter(|_| *tier != Tier::C));
        let _ = writeln!(out, "  interval                 {}", half_width(&errors.half_width, &cap));
        if let Some(families) = errors.families {
            let _ = writeln!(out, "  families weighing alike  mean {}", percent(families));
        }
        for (family, errors) in &errors.by_family {
            let _ = writeln!(out, "  {family:<24} {}", line(errors));
        }
    }
    if !has_tiers {
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
    open(&mut out, verdict);
    if verdict.rows.len() >= OWN {
        questions(&mut out, verdict);
    }
    if !verdict.constants_outside.is_empty() {
        out.push_str("\nconstants outside of what is physical, and why\n");
    }
    for one in &verdict.constants_outside {
        let _ = writeln!(out, "  {}", one.words());
    }
    if !verdict.constants_at_bounds.is_empty() {
        out.push_str("\nconstants that the runs pushed as far as is physical\n");
        let _ = writeln!(out, "  {AT_BOUNDS}");
    }
    for one in &verdict.constants_at_bounds {
        let _ = writeln!(out, "  {}", one.words());
    }
    // Of a table of one's own nobody looked at what is missing.
    if is_own {
        rows(&mut out, verdict, all);
        return out;
    }
    outside(&mut out, verdict);
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

/// Why a half-width keeps to its goal where the residuals ask for more than is ever written.
fn by_the_cap(asked: Option<f64>) -> String {
    match asked.filter(|asked| *asked > MOST) {
        Some(asked) => format!(
            " by the cap of ±{MOST}, not by the residuals of tiers B and C, which ask for {}",
            percent(asked.sinh())
        ),
        None => String::new(),
    }
}

/// A group's error against its goal, and the noise below which no model of the table's columns comes.
fn goal(group: &Grouped) -> String {
    let figure = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), percent);
    let verdict = match group.met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "no goal",
    };
    let noise = match group.noise.median_spread {
        Some(spread) => format!(
            "noise floor {} ({} measured more than once)",
            percent(spread),
            text::count(group.noise.layouts as u64, "layout")
        ),
        None => "noise floor not known: no layout was measured twice".to_owned(),
    };
    format!(
        "{:>3} rows of {}, families alike {}, goal {}: {verdict}; {noise}",
        group.rows,
        text::count(group.by_family.len() as u64, "family"),
        figure(group.mean_error),
        figure(group.goal)
    )
}

/// Rows of a family that are named where it keeps a group from its goal; the rest are counted.
const NAMED: usize = 5;

/// A family that keeps a group from its goal: its rows, and what is missing.
fn over(one: &Over) -> String {
    let named: Vec<String> =
        one.rows.iter().take(NAMED).map(|(id, error)| format!("{id} {:+.1} %", error * 100.0)).collect();
    let more = match one.rows.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "above the goal: {}, {}{more}; missing: {}",
        one.family,
        named.join(", "),
        one.missing.unwrap_or("not known")
    )
}

/// How wide a tier's intervals are, and how wide nine rows in ten ask for.
fn half_width(width: &HalfWidth, cap: &str) -> String {
    let figure = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), percent);
    let met = match width.median.zip(width.goal) {
        Some((median, goal)) if median <= goal => "met",
        Some(_) => "missed",
        None => "not known",
    };
    let mut out = format!(
        "median half-width {}, goal {}: {met}{cap}; nine rows in ten ask for {}",
        figure(width.median),
        figure(width.goal),
        figure(width.asked)
    );
    if let Some(inside) = width.inside_of_seen {
        let _ = write!(
            out,
            "; wider than ±{MOST} where no other source ran the system on such GPUs and links: ±{MOST} holds {}",
            percent(inside)
        );
    }
    out
}

/// A group's families, the largest error first: what its mean is made of.
fn made_of(group: &Grouped) -> String {
    let mut families: Vec<_> = group.by_family.iter().collect();
    let mean = |errors: &Errors| errors.mean_error.unwrap_or(0.0);
    families.sort_by(|a, b| mean(b.1).total_cmp(&mean(a.1)));
    let words: Vec<String> = families
        .iter()
        .map(|(name, errors)| {
            format!("{name} {} ({})", percent(mean(errors)), text::count(errors.rows as u64, "row"))
        })
        .collect();
    format!("of {}", words.join(", "))
}

/// Why rows are not judged, the most frequent reason first.
fn skipped(out: &mut String, verdict: &Verdict) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for why in verdict.rows.iter().filter_map(|row| row.skipped.as_deref()) {
        *counts.entry(why).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
    for (why, rows) in counts {
        let _ = writeln!(out, "          {rows:>3} skipped: {why}");
    }
}

/// Rows whose micro-batch the source leaves open, as ranges.
fn open(out: &mut String, verdict: &Verdict) {
    if !verdict.open.is_empty() {
        out.push_str("\nmicro-batch not given, varied over those that fit: calibration, not evidence\n");
    }
    for row in &verdict.open {
        let micro: Vec<String> = row.micro_batches.iter().map(f64::to_string).collect();
        let _ = writeln!(
            out,
            "  {}: published {} s a step, predicted {} to {} (micro-batch {})",
            row.id,
            text::short(row.published),
            text::short(row.low),
            text::short(row.high),
            text::list(&micro, "or")
        );
        if row.is_outside() {
            let _ = writeln!(out, "    outside: {}", row.missing.unwrap_or("not known: nobody looked"));
        }
    }
    for one in &verdict.open_ratios {
        let _ = writeln!(
            out,
            "  {} over {}: published {:.2} times as fast, predicted {:.2} to {:.2}",
            one.fast, one.slow, one.published, one.low, one.high
        );
    }
}

/// Published figures of which more than the micro-batch is open, as ranges; of a table of one's own they say nothing.
fn questions(out: &mut String, verdict: &Verdict) {
    if !verdict.questions.is_empty() {
        out.push_str(
            "\nmore of a run not given, varied over what it may have been: calibration, not evidence\n",
        );
    }
    for answer in &verdict.questions {
        let _ = writeln!(out, "  {} ({})", answer.what, answer.source);
        let open: Vec<String> =
            answer.open.iter().map(|it| format!("{} {}", it.what, text::list(&it.values, "or"))).collect();
        let _ = writeln!(out, "    open: {}", open.join("; "));
        for case in &answer.cases {
            let range = match (case.low, case.high) {
                (Some(low), Some(high)) => format!("{} to {}", text::short(low), text::short(high)),
                _ => "nothing: no combination fits".to_owned(),
            };
            let verdict = match case.inside {
                Some(true) => "inside",
                Some(false) => "outside",
                None => "not known",
            };
            let published = text::short(case.published);
            let _ = writeln!(
                out,
                "    {}: published {published}, predicted {range}: {verdict}{}",
                case.id,
                excludes(case)
            );
        }
    }
}

/// How much wider the upper end of a range is than its lower one, from where on a figure inside it says little.
const WIDE: f64 = 3.0;

/// That a figure inside a wide range is hardly any evidence of the model.
fn excludes(case: &Range) -> String {
    match case.low.zip(case.high).map(|(low, high)| high / low) {
        Some(ratio) if ratio >= WIDE && case.inside == Some(true) => {
            format!(
                ", of a range whose ends are {ratio:.0} times apart: what is open decides it, not the model"
            )
        }
        _ => String::new(),
    }
}

/// Rows outside of their intervals, each with what is missing in the model.
fn outside(out: &mut String, verdict: &Verdict) {
    let rows: Vec<&Line> = verdict.rows.iter().filter(|row| row.is_outside()).collect();
    if !rows.is_empty() {
        out.push_str("\nnot met, and what is missing\n");
    }
    for row in rows {
        let _ =
            writeln!(out, "  {}: {}", row.id, row.missing.as_deref().unwrap_or("not known: nobody looked"));
    }
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

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(super) fn line(errors: &Errors) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use trainc_predict::Constants;

    #[test]
    fn rows_that_are_skipped_say_why() {
        let table = crate::read(include_str!("../data/runs.csv")).unwrap();
        let verdict = judge(&table, Constants::shipped());
        // What the source computed is no evidence, also where it says that it would not fit.
        for id in ["kor-22b-none-mem", "kor-175b-none-mem", "kor-530b-none-mem", "kor-1t-none-mem"] {
            let row = verdict.rows.iter().find(|row| row.id == id).unwrap();
            let why = row.skipped.as_deref().unwrap();
            assert!(why.contains("computed by the source"), "{id}: {why}");
        }
        let shown = human(&verdict, false);
        let sum: usize = shown
            .lines()
            .filter_map(|line| line.split_once(" skipped: ")?.0.trim().parse::<usize>().ok())
            .sum();
        assert_eq!(sum, verdict.summary.skipped, "{shown}");
        assert!(sum > 0 && shown.contains("goal 20.0 %"), "{shown}");
    }
}
