//! Rows of a table of one's own, each predicted against measured, the worst first.

use super::verdict::{Line, Verdict};
use std::cmp::Ordering;
use std::fmt::Write as _;
use trainc_diag::text;

/// Figures that are shown where not all are asked for.
const SHOWN: usize = 10;

/// Parts of a step that are named, the largest first.
const NAMED: usize = 3;

/// What of a row is judged, in a line, and how bad it is.
struct Figure<'a> {
    /// Absolute error, a fraction; of what fits and should not, or the other way round, more than any.
    off: f64,
    /// In front of the row's name.
    error: String,
    id: &'a str,
    words: String,
    /// What the prediction is made of.
    parts: Option<String>,
}

fn percent(error: f64) -> String {
    format!("{:+.1} %", error * 100.0)
}

/// `: outside`, where a measurement lies outside its interval.
fn outside(low: f64, high: f64, measured: f64) -> &'static str {
    if (low..=high).contains(&measured) { "" } else { ": outside" }
}

fn figures(row: &Line) -> Vec<Figure<'_>> {
    let mut out = Vec::new();
    let id = row.id.as_str();
    if let Some(time) = &row.step_seconds {
        let [measured, predicted, low, high] =
            [time.measured, time.predicted, time.low, time.high].map(text::short);
        let parts: Vec<String> = time
            .parts
            .iter()
            .take(NAMED)
            // What rounds to nothing explains nothing.
            .filter(|part| part.share >= 0.005)
            .map(|part| format!("{} {:.0} %", part.name, 100.0 * part.share))
            .collect();
        out.push(Figure {
            off: time.error.abs(),
            error: percent(time.error),
            id,
            words: format!(
                "a step {measured} s, predicted {predicted} s ({low} to {high}){}",
                outside(time.low, time.high, time.measured)
            ),
            parts: (!parts.is_empty()).then(|| format!("predicted: {}", parts.join(", "))),
        });
    }
    if let Some(peak) = &row.peak_memory_bytes {
        let gib = f64::from(1 << 30);
        let [measured, predicted, low, high] =
            [peak.measured, peak.predicted, peak.low, peak.high].map(|bytes| text::short(bytes / gib));
        out.push(Figure {
            off: peak.error.abs(),
            error: percent(peak.error),
            id,
            words: format!(
                "memory {measured} GiB, predicted {predicted} GiB ({low} to {high}){}",
                outside(peak.low, peak.high, peak.measured)
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
    out.extend(fit.map(|(off, words)| Figure {
        off,
        error: if off > 0.0 { "wrong" } else { "right" }.to_owned(),
        id,
        words: words.to_owned(),
        parts: None,
    }));
    out
}

/// What the rows are, the worst first: ten figures, or all of them.
pub(super) fn rows(out: &mut String, verdict: &Verdict, all: bool) {
    let mut figures: Vec<Figure> = verdict.rows.iter().flat_map(figures).collect();
    if figures.is_empty() {
        return;
    }
    figures.sort_by(|a, b| b.off.partial_cmp(&a.off).unwrap_or(Ordering::Equal));
    let by = if verdict.rows.iter().any(|row| row.tier.is_some()) {
        ", each time by constants that were fitted without its row"
    } else {
        ""
    };
    let _ = writeln!(out, "\nrow by row, the worst first: predicted over measured{by}");
    let most = if all { figures.len() } else { SHOWN };
    let shown = figures.get(..most.min(figures.len())).unwrap_or_default();
    let width = shown.iter().map(|one| one.id.chars().count()).max().unwrap_or(0);
    for one in shown {
        let _ = writeln!(out, "  {:>8}  {:<width$}  {}", one.error, one.id, one.words);
        if let Some(parts) = &one.parts {
            let _ = writeln!(out, "  {:>8}  {:<width$}  {parts}", "", "");
        }
    }
    let more = figures.len().saturating_sub(most) as u64;
    if more > 0 {
        let _ = writeln!(out, "  and {more} more, less far off: `-v` shows them, `-o json` has them");
    }
}

#[cfg(test)]
mod tests {
    use crate::judge::{fitted, judge};
    use crate::{read, words};
    use trainc_predict::Constants;

    /// Runs of one's own: times that are so many times the predicted ones, and one that ran out of memory.
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
    fn ones_own_rows_are_shown_the_worst_first() {
        let own = read(&table(&[2.0, 4.0, 30.0])).unwrap();
        let verdict = judge(&own, Constants::shipped());
        let shown = words::human(&verdict, false);
        let rows = shown.split("row by row").nth(1).unwrap();
        let errors: Vec<f64> = rows
            .lines()
            .filter_map(|line| line.trim().split_once(" %  run-")?.0.parse::<f64>().ok())
            .collect();
        assert_eq!(errors.len(), 3, "{rows}");
        assert!(errors.is_sorted_by(|a, b| a.abs() >= b.abs()), "{rows}");
        assert!(rows.contains("run-2  a step 30 s, predicted ") && rows.contains(": outside"), "{rows}");
        assert!(rows.contains("predicted: compute ") && rows.contains("ran out of memory"), "{rows}");
        assert!(!shown.contains("furthest off"), "{shown}");
        // Rows that a fit saw are judged without themselves.
        let (_, verdict) = fitted(&own, Constants::shipped()).unwrap();
        assert!(words::human(&verdict, false).contains("fitted without its row"));
    }

    #[test]
    fn of_many_rows_the_worst_are_shown_and_the_rest_on_demand() {
        let times: Vec<f64> = (0..30).map(|n| 3.0 + f64::from(n)).collect();
        let verdict = judge(&read(&table(&times)).unwrap(), Constants::shipped());
        let named = |text: &str| text.matches("  run-").count();
        let (short, all) = (words::human(&verdict, false), words::human(&verdict, true));
        assert_eq!((named(&short), named(&all)), (10, 30));
        assert!(short.contains("and 21 more, less far off: `-v` shows them"), "{short}");
        assert!(!all.contains(" more, less far off"), "{all}");
    }
}
