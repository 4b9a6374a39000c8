//! The speed of a step in lines of words, and what was taken for something else to know it.

use super::json::Document;
use super::sections::{unknown, whole};
use std::fmt::Write as _;
use trainc_diag::text;
use trainc_ir::Plan;
use trainc_predict as predict;

/// Step time, throughput, time and dollars of the run.
pub(super) fn speed(plan: &Plan, document: &Document) -> Vec<String> {
    let speed = &document.speed;
    let Some(step) = speed.step_seconds else {
        return vec![unknown(document, "speed")];
    };
    let mut line = format!("{} s a step", text::short(step));
    if let Some(interval) = &speed.interval {
        let _ = write!(line, " ({} to {})", text::short(interval.low), text::short(interval.high));
    }
    if let Some(tokens) = speed.tokens_per_second {
        let _ = write!(line, ", {} tokens/s", text::group(whole(tokens)));
    }
    let wider = document.notes.iter().find_map(|note| note.strip_prefix("speed.interval: "));
    let uncounted: Vec<String> =
        predict::uncounted(plan).into_iter().map(|name| format!("`{name}`")).collect();
    let without =
        (!uncounted.is_empty()).then(|| format!("memory and time without {}", text::list(&uncounted, "and")));
    std::iter::once(line)
        .chain(rate(document, plan.rank_noun()))
        .chain(wider.map(|why| format!("interval {why}")))
        .chain(predict::taken_for(plan).into_iter().map(|(_, words)| words))
        .chain(without)
        .collect()
}

/// TFLOPS of a GPU by both conventions, and the share of its peak that the model's own operations are: `162 TFLOPS a GPU
/// with recomputation, 122 without: MFU 39 %`.
pub(super) fn rate(document: &Document, noun: &str) -> Option<String> {
    let speed = &document.speed;
    let (hardware, model) = (speed.tflops.hardware?, speed.tflops.model?);
    let mut out = format!("{} TFLOPS a {noun}", text::short(hardware));
    // Some layouts compute nothing again: then both conventions are one.
    if hardware > model * 1.0005 {
        let _ = write!(out, " with recomputation, {} without", text::short(model));
    }
    if let Some(mfu) = speed.mfu {
        let _ = write!(out, ": MFU {:.0} %", 100.0 * mfu);
    }
    Some(out)
}
