//! The speed of a step as text, and the approximations behind it.

use super::json::Document;
use super::sections::unknown_with_reason;
use std::fmt::Write as _;
use trainc_diag::text;
use trainc_ir::Plan;
use trainc_ir::mfu::format_mfu;
use trainc_predict as predict;
use trainc_predict::round_to_u64;

/// Returns step time, throughput, TFLOPS, and the limits of the prediction.
pub(super) fn speed(plan: &Plan, document: &Document) -> Vec<String> {
    let speed = &document.speed;
    let Some(step) = speed.step_seconds else {
        return plan.names_model().then(|| unknown_with_reason(document, "speed")).into_iter().collect();
    };
    let mut line = format!("{} s per step", text::short_number(step));
    if let Some(interval) = &speed.interval {
        let _ =
            write!(line, " ({} to {})", text::short_number(interval.low), text::short_number(interval.high));
    }
    if let Some(tokens) = speed.tokens_per_second {
        let _ = write!(line, ", {} tokens/s", text::group_digits(round_to_u64(tokens)));
    }
    let on_interval = document.notes.iter().filter_map(|note| note.strip_prefix("speed.interval: "));
    let uncounted: Vec<String> =
        predict::unmodelled_options(plan).into_iter().map(|name| format!("`{name}`")).collect();
    let without = (!uncounted.is_empty()).then(|| format!("not modelled: {}", text::list(&uncounted, "and")));
    std::iter::once(line)
        .chain(tflops_line(document, plan.rank_noun()))
        .chain(on_interval.map(|why| format!("interval {why}")))
        .chain(predict::approximated_settings(plan).into_iter().map(|(_, words)| words))
        .chain(without)
        .collect()
}

/// Returns TFLOPS per GPU by both conventions, and the model FLOPS utilization:
/// `162 TFLOPS per GPU with recomputation, 122 without; MFU 39.4%`.
pub(super) fn tflops_line(document: &Document, noun: &str) -> Option<String> {
    let speed = &document.speed;
    let (hardware, model) = (speed.tflops.hardware?, speed.tflops.model?);
    let mut out = format!("{} TFLOPS per {noun}", text::short_number(hardware));
    // Without recomputation both conventions give the same figure.
    if hardware > model * 1.0005 {
        let _ = write!(out, " with recomputation, {} without", text::short_number(model));
    }
    if let Some(mfu) = speed.mfu {
        let _ = write!(out, "; MFU {}", format_mfu(mfu));
    }
    Some(out)
}
