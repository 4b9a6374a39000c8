//! Check that a row written from a layout reads back as that layout: some settings have no column.

use super::run_row::RunRow;
use super::table::run_from_row;
use std::collections::BTreeMap;
use trainc_diag::text;
use trainc_predict::memory::{MemoryConstants, peak_by_instrument};
use trainc_predict::speed::speed;
use trainc_predict::{Constants, Layout};

/// Largest difference between the predictions of the row and of the layout, a fraction (assumed: a tenth of
/// the errors that a row should show).
const TOLERANCE: f64 = 0.01;

/// Setting that a row cannot express, so that it would be judged by another prediction: a lowercase fragment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowMismatch {
    /// Changes the step time: the row is useless.
    #[error("{0}")]
    Row(String),
    /// Changes memory alone: the row is usable without [`MEMORY_CELLS`].
    #[error("{0}")]
    Memory(String),
}

/// Cells that only the memory judgement uses.
pub const MEMORY_CELLS: [&str; 2] = ["peak_mem_gib", "mem_kind"];

/// Checks that the row of these cells gives the predictions of the layout that they were written from.
///
/// # Errors
///
/// If a measurement would be judged by another prediction than that of the layout.
pub fn check_row_fidelity(
    layout: &Layout,
    cells: &BTreeMap<&'static str, String>,
    constants: &Constants,
) -> Result<(), RowMismatch> {
    let cells = cells.iter().map(|(column, cell)| (*column, cell.as_str())).collect();
    let (run, impossible) = run_from_row(&RunRow::new(cells));
    if let Some(one) = impossible {
        return Err(RowMismatch::Row(format!("the measurement is impossible: {}", one.message)));
    }
    let read = run
        .layout
        .as_ref()
        .map_err(|why| RowMismatch::Row(format!("a table cannot express this layout: {why}")))?;
    let seconds = |layout: &Layout| speed(layout, constants).ok().map(|speed| speed.step_seconds);
    if run.step_seconds.is_ok()
        && let Some((own, other)) = seconds(layout).zip(seconds(read))
        && is_outside_tolerance(own, other)
    {
        let why = missing_columns(layout, read);
        return Err(RowMismatch::Row(format!(
            "{why}: the row's predicted step is {other:.2} s, not {own:.2} s"
        )));
    }
    let peak = run.peak_memory.map(|(_, kind)| kind.measured_as());
    if let (Some(kind), Ok(read)) = (peak, &run.memory_layout) {
        let of = |layout: &Layout| {
            peak_by_instrument(layout, kind, &MemoryConstants::from_constants(constants)) / GIB
        };
        let (own, other) = (of(layout), of(read));
        if is_outside_tolerance(own, other) {
            let why = missing_columns(layout, read);
            let message = format!("{why}: the row's predicted peak is {other:.1} GiB, not {own:.1} GiB");
            return Err(RowMismatch::Memory(message));
        }
    }
    Ok(())
}

const GIB: f64 = 1_073_741_824.0;

fn is_outside_tolerance(own: f64, other: f64) -> bool {
    (other / own - 1.0).abs() > TOLERANCE
}

/// Names the settings in which a layout differs from the one read back.
fn missing_columns(own: &Layout, read: &Layout) -> String {
    let differs = |a: f64, b: f64| (a - b).abs() > 1e-9 * a.abs().max(1.0);
    let work = (&own.work, &read.work);
    let found = [
        (differs(own.model.experts, read.model.experts), "experts"),
        (own.lora != read.lora, "the rank and target modules of the adapter"),
        (own.one_unit != read.one_unit, "an unwrapped model"),
        (own.lora.is_some() && own.frees_frozen != read.frees_frozen, "when frozen weights are freed"),
        (
            differs(work.0.num_micro_batches, work.1.num_micro_batches)
                || work.0.num_active_micro_batches != work.1.num_active_micro_batches,
            "the micro-batches of the pipeline",
        ),
        (differs(own.degrees.virtual_stages, read.degrees.virtual_stages), "virtual stages"),
        (differs(work.0.tensor_readers, work.1.tensor_readers), "the data that tensor ranks read"),
        (own.gathering != read.gathering, "the prefetching of parameters"),
        (own.offload != read.offload, "the offload horizon"),
        (own.sequence_parallel != read.sequence_parallel, "sequence parallelism"),
        (own.precision != read.precision, "parameters without an fp32 copy"),
        (own.moments != read.moments, "the optimizer"),
        (own.compiled != read.compiled, "compilation"),
        (own.sharding != read.sharding || own.degrees != read.degrees, "the parallel degrees"),
    ];
    // Differs in most layouts with little effect: named only if nothing else differs.
    let minor = [
        (own.model != read.model, "the structure of the model's blocks"),
        (own.order != read.order, "the rank order"),
        (own.hardware != read.hardware, "the links"),
    ];
    let named = |of: &[(bool, &'static str)]| -> Vec<&'static str> {
        of.iter().filter(|(is, _)| *is).map(|(_, words)| *words).collect()
    };
    let words = Some(named(&found)).filter(|words| !words.is_empty()).unwrap_or_else(|| named(&minor));
    match words.as_slice() {
        [] => "the columns of a run table cannot describe this job exactly".to_owned(),
        words => format!("the table has no column for {}", text::list(words, "and")),
    }
}
