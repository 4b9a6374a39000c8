//! Text of a verdict for the terminal.

use super::bounds::AT_BOUNDS_HELP;
use super::errors::percent;
use super::verdict::{RowVerdict, Verdict};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trainc_diag::text;

/// Renders a verdict: errors overall and by family, and the rows with the largest errors, or all of them.
pub fn render(verdict: &Verdict, all: bool) -> String {
    let mut out = String::new();
    let summary = &verdict.summary;
    let judged = verdict.rows.len() - summary.skipped;
    let _ = writeln!(out, "rows      {judged} judged, {} skipped", summary.skipped);
    render_skip_reasons(&mut out, verdict);
    let _ = writeln!(out, "step time {}", summary.step_seconds);
    let families = summary.by_family.values().filter(|family| family.step_seconds.rows > 0).count();
    if let Some(mean) = summary.step_seconds_families.filter(|_| families > 1) {
        let _ = writeln!(out, "          families weighted equally: mean {}", percent(mean));
    }
    if let Some(width) = summary.interval_half_width {
        let _ = writeln!(out, "          intervals: median half-width {} of the prediction", percent(width));
    }
    memory(&mut out, verdict);
    out.push_str("\nby family\n");
    for (family, errors) in &summary.by_family {
        if errors.step_seconds.rows > 0 {
            let _ = writeln!(out, "  {family:<24} step time {}", errors.step_seconds);
        }
        if errors.peak_memory_bytes.rows > 0 {
            let _ = writeln!(out, "  {family:<24} memory    {}", errors.peak_memory_bytes);
        }
    }
    step_ranges(&mut out, verdict);
    if !verdict.constants_out_of_range.is_empty() {
        out.push_str("\nconstants outside the range of their source\n");
    }
    for one in &verdict.constants_out_of_range {
        let _ = writeln!(out, "  {one}");
    }
    if !verdict.constants_at_bounds.is_empty() {
        out.push_str("\nconstants that the fit moved to a physical bound\n");
        let _ = writeln!(out, "  {AT_BOUNDS_HELP}");
    }
    for one in &verdict.constants_at_bounds {
        let _ = writeln!(out, "  {one}");
    }
    rows(&mut out, verdict, all);
    out
}

/// Lists the reasons for skipping rows, the most frequent one first.
fn render_skip_reasons(out: &mut String, verdict: &Verdict) {
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

fn memory(out: &mut String, verdict: &Verdict) {
    let (peaks, oom) = (&verdict.summary.peak_memory_bytes, &verdict.summary.oom);
    if peaks.rows > 0 {
        let _ = writeln!(out, "memory    {peaks}");
    }
    if oom.rows + oom.ran == 0 || peaks.rows + oom.rows == 0 {
        return;
    }
    let _ = writeln!(
        out,
        "          out of memory: {} of {} runs that failed are predicted not to fit",
        oom.caught, oom.rows
    );
    let _ = writeln!(
        out,
        "          false alarms: {} of {} runs that ran are predicted not to fit",
        oom.wrong, oom.ran
    );
}

/// Lists the rows without a micro-batch, as ranges.
fn step_ranges(out: &mut String, verdict: &Verdict) {
    if !verdict.step_ranges.is_empty() {
        out.push_str("\nrows without a micro-batch, over all sizes that fit: calibration, not evidence\n");
    }
    for range in &verdict.step_ranges {
        let micro: Vec<String> = range.micro_batches.iter().map(f64::to_string).collect();
        let _ = writeln!(
            out,
            "  {}: published {} s per step, predicted {} to {} s (micro-batch {}){}",
            range.id,
            text::short_number(range.published),
            text::short_number(range.low),
            text::short_number(range.high),
            text::list(&micro, "or"),
            if range.is_outside() { ": outside" } else { "" }
        );
    }
}

/// Figures shown without `--verbose`.
const SHOWN: usize = 10;

/// Parts of a step that are named.
const NAMED: usize = 3;

/// A judged figure of a row.
struct Figure<'a> {
    /// Absolute error, a fraction; infinite for a wrong prediction of fitting.
    magnitude: f64,
    error: String,
    id: &'a str,
    text: String,
    parts: Option<String>,
}

fn signed_percent(error: f64) -> String {
    format!("{:+.1} %", error * 100.0)
}

fn outside_interval_note(is_inside: bool) -> &'static str {
    if is_inside { "" } else { ", outside the interval" }
}

fn figures(row: &RowVerdict) -> Vec<Figure<'_>> {
    let mut out = Vec::new();
    let id = row.id.as_str();
    if let Some(time) = &row.step_seconds {
        let [measured, predicted, low, high] =
            [time.measured, time.predicted, time.low, time.high].map(text::short_number);
        let parts: Vec<String> = time
            .parts
            .iter()
            .take(NAMED)
            // Parts that round to 0 % explain nothing.
            .filter(|part| part.share >= 0.005)
            .map(|part| format!("{} {:.0} %", part.name, 100.0 * part.share))
            .collect();
        out.push(Figure {
            magnitude: time.error.abs(),
            error: signed_percent(time.error),
            id,
            text: format!(
                "step {measured} s, predicted {predicted} s ({low} to {high}){}",
                outside_interval_note(time.is_inside())
            ),
            parts: (!parts.is_empty()).then(|| format!("prediction: {}", parts.join(", "))),
        });
    }
    if let Some(peak) = &row.peak_memory_bytes {
        let gib = f64::from(1 << 30);
        let [measured, predicted, low, high] =
            [peak.measured, peak.predicted, peak.low, peak.high].map(|bytes| text::short_number(bytes / gib));
        out.push(Figure {
            magnitude: peak.error.abs(),
            error: signed_percent(peak.error),
            id,
            text: format!(
                "memory {measured} GiB, predicted {predicted} GiB ({low} to {high}){}",
                outside_interval_note(peak.is_inside())
            ),
            parts: None,
        });
    }
    let fit = match (row.oom, row.fits) {
        (true, Some(true)) => Some((f64::INFINITY, "ran out of memory, predicted to fit")),
        (true, Some(false)) => Some((0.0, "ran out of memory, predicted not to fit")),
        (false, Some(false)) => Some((f64::INFINITY, "ran, predicted not to fit")),
        (false, Some(true)) | (_, None) => None,
    };
    out.extend(fit.map(|(magnitude, text)| Figure {
        magnitude,
        error: if magnitude > 0.0 { "wrong" } else { "right" }.to_owned(),
        id,
        text: text.to_owned(),
        parts: None,
    }));
    out
}

/// Lists the judged figures, the largest error first: ten of them, or all.
fn rows(out: &mut String, verdict: &Verdict, all: bool) {
    let mut figures: Vec<Figure> = verdict.rows.iter().flat_map(figures).collect();
    if figures.is_empty() {
        return;
    }
    figures.sort_by(|a, b| b.magnitude.partial_cmp(&a.magnitude).unwrap_or(Ordering::Equal));
    let by = if verdict.rows.iter().any(|row| row.tier.is_some()) {
        ", each step time by constants fitted without its row"
    } else {
        ""
    };
    let _ = writeln!(out, "\nrows, largest error first: predicted over measured{by}");
    let most = if all { figures.len() } else { SHOWN };
    let shown = figures.get(..most.min(figures.len())).unwrap_or_default();
    let width = shown.iter().map(|one| one.id.chars().count()).max().unwrap_or(0);
    for one in shown {
        let _ = writeln!(out, "  {:>8}  {:<width$}  {}", one.error, one.id, one.text);
        if let Some(parts) = &one.parts {
            let _ = writeln!(out, "  {:>8}  {:<width$}  {parts}", "", "");
        }
    }
    let more = figures.len().saturating_sub(most) as u64;
    if more > 0 {
        let _ = writeln!(out, "  and {more} more with smaller errors; `-v` or `-o json` shows all");
    }
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::judge::{fit_and_judge, judge};
    use crate::read;
    use trainc_predict::Constants;

    /// Returns a table of runs with these step times, and one that ran out of memory.
    fn table(times: &[f64]) -> String {
        let mut out = String::from(
            "id,family,engine,layers,hidden,heads,ffn,vocab,seq,gpu,gpu_mem_gib,gpus_per_node,nodes,precision,micro_batch,recompute,oom,step_s,peak_mem_gib,mem_kind\n",
        );
        let layout = "own,FSDP,32,4096,32,11008,32000,4096,A100-80GB,80,8,2,bf16";
        for (at, seconds) in times.iter().enumerate() {
            out += &format!("run-{at},{layout},{},full,0,{seconds},,\n", 1 + at % 3);
        }
        out + &format!("full,{layout},64,none,1,,,\n")
    }

    #[test]
    fn rows_are_shown_with_the_largest_error_first() {
        let table = read(&table(&[2.0, 4.0, 30.0])).unwrap();
        let verdict = judge(&table, Constants::shipped());
        let shown = render(&verdict, false);
        let rows = shown.split("rows, largest").nth(1).unwrap();
        let errors: Vec<f64> = rows
            .lines()
            .filter_map(|line| line.trim().split_once(" %  run-")?.0.parse::<f64>().ok())
            .collect();
        assert_eq!(errors.len(), 3, "{rows}");
        assert!(errors.is_sorted_by(|a, b| a.abs() >= b.abs()), "{rows}");
        assert!(
            rows.contains("run-2  step 30 s, predicted ") && rows.contains(", outside the interval"),
            "{rows}"
        );
        assert!(rows.contains("prediction: compute ") && rows.contains("ran out of memory"), "{rows}");
        // Rows of a fit are judged by constants fitted without them.
        let (_, verdict) = fit_and_judge(&table, Constants::shipped()).unwrap();
        assert!(render(&verdict, false).contains("fitted without its row"));
    }

    #[test]
    fn all_rows_are_shown_only_on_demand() {
        let times: Vec<f64> = (0..30).map(|n| 3.0 + f64::from(n)).collect();
        let verdict = judge(&read(&table(&times)).unwrap(), Constants::shipped());
        let named = |text: &str| text.matches("  run-").count();
        let (short, all) = (render(&verdict, false), render(&verdict, true));
        assert_eq!((named(&short), named(&all)), (10, 30));
        assert!(short.contains("and 21 more with smaller errors"), "{short}");
        assert!(!all.contains(" more with smaller errors"), "{all}");
    }

    #[test]
    fn rows_that_are_skipped_give_the_reason() {
        let table = read(include_str!("../data/runs.csv")).unwrap();
        let verdict = judge(&table, Constants::shipped());
        // A figure that the source computed is not evidence, not even of an out-of-memory failure.
        for id in ["kor-22b-none-mem", "kor-175b-none-mem", "kor-530b-none-mem", "kor-1t-none-mem"] {
            let row = verdict.rows.iter().find(|row| row.id == id).unwrap();
            let why = row.skipped.as_deref().unwrap();
            assert!(why.contains("computed by the source"), "{id}: {why}");
        }
        let shown = render(&verdict, false);
        let sum: usize = shown
            .lines()
            .filter_map(|line| line.split_once(" skipped: ")?.0.trim().parse::<usize>().ok())
            .sum();
        assert!(sum > 0 && sum == verdict.summary.skipped, "{shown}");
    }
}
