//! Whether a row of a table says the layout that it was written of: its columns have no place for everything.

use super::judge::instrument;
use super::row::Row;
use std::collections::BTreeMap;
use trainc_diag::text;
use trainc_predict::memory::{MemoryConstants, as_measured};
use trainc_predict::speed::speed;
use trainc_predict::{Constants, Layout};

/// By how much the prediction of a row may differ from that of the layout, a fraction (judgement: a tenth of the errors
/// that a row is there to show).
const NEAR: f64 = 0.01;

/// What a row would be judged by another prediction for than the layout's: a lowercase fragment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The whole of it, its time first.
    #[error("{0}")]
    Row(String),
    /// Its memory alone: without those cells the row is sound.
    #[error("{0}")]
    Memory(String),
}

/// The cells that only memory is judged by.
pub const MEMORY_CELLS: [&str; 2] = ["peak_mem_gib", "mem_kind"];

/// Holds what a table would read of these cells against the layout that they were written of.
///
/// # Errors
///
/// What is lost where what was measured would be judged by another prediction than the layout's.
pub fn carried(
    layout: &Layout,
    cells: &BTreeMap<&'static str, String>,
    constants: &Constants,
) -> Result<(), Lost> {
    let (run, impossible) =
        Row::new(cells.iter().map(|(column, cell)| (*column, cell.as_str())).collect()).run();
    if let Some(one) = impossible {
        return Err(Lost::Row(format!("what was measured cannot be: {}", one.message)));
    }
    let read =
        run.layout.as_ref().map_err(|why| Lost::Row(format!("a table cannot say this layout: {why}")))?;
    let seconds = |layout: &Layout| speed(layout, constants).ok().map(|speed| speed.step_seconds);
    if run.step_seconds.is_ok()
        && let Some((own, other)) = seconds(layout).zip(seconds(read))
        && is_far(own, other)
    {
        let words = format!("a step of {other:.2} s is predicted of such a row, not {own:.2}");
        return Err(Lost::Row(format!("{}: {words}", lost(layout, read))));
    }
    let peak = run.peak_memory.map(|(_, kind)| instrument(kind));
    if let (Some(kind), Ok(read)) = (peak, &run.memory_layout) {
        let of = |layout: &Layout| as_measured(layout, kind, &MemoryConstants::of(constants)) / GIB;
        let (own, other) = (of(layout), of(read));
        if is_far(own, other) {
            let words = format!("{other:.1} GiB are predicted of such a row, not {own:.1}");
            return Err(Lost::Memory(format!("{}: {words}", lost(layout, read))));
        }
    }
    Ok(())
}

const GIB: f64 = 1_073_741_824.0;

fn is_far(own: f64, other: f64) -> bool {
    (other / own - 1.0).abs() > NEAR
}

/// What differs between a layout and what is read of its row.
fn lost(own: &Layout, read: &Layout) -> String {
    let differs = |a: f64, b: f64| (a - b).abs() > 1e-9 * a.abs().max(1.0);
    let work = (&own.work, &read.work);
    let found = [
        (differs(own.model.experts, read.model.experts), "experts"),
        (own.lora != read.lora, "the adapter's rank and targets"),
        (own.one_unit != read.one_unit, "a model that is not wrapped"),
        (
            differs(work.0.num_micro_batches, work.1.num_micro_batches)
                || work.0.num_active_micro_batches != work.1.num_active_micro_batches,
            "the pipeline's micro-batches",
        ),
        (differs(own.degrees.virtual_stages, read.degrees.virtual_stages), "virtual stages"),
        (differs(work.0.tensor_readers, work.1.tensor_readers), "what tensor ranks read"),
        (own.gathering != read.gathering, "how far ahead parameters are gathered"),
        (own.offload != read.offload, "how far the offload looks ahead"),
        (own.sequence_parallel != read.sequence_parallel, "what is split along the sequence"),
        (own.precision != read.precision, "parameters without a copy in fp32"),
        (own.moments != read.moments, "the optimizer"),
        (own.compiled != read.compiled, "compilation"),
        (own.sharding != read.sharding || own.degrees != read.degrees, "the degrees"),
    ];
    // What differs in most layouts without much of a difference is named where nothing else is.
    let else_found = [
        (own.model != read.model, "how the model's blocks are made"),
        (own.order != read.order, "the placement of the ranks"),
        (own.hardware != read.hardware, "the links"),
    ];
    let named = |of: &[(bool, &'static str)]| -> Vec<&'static str> {
        of.iter().filter(|(is, _)| *is).map(|(_, words)| *words).collect()
    };
    let words = Some(named(&found)).filter(|words| !words.is_empty()).unwrap_or_else(|| named(&else_found));
    match words.as_slice() {
        [] => "the table has no column for a part of this layout".to_owned(),
        words => format!("the table has no column for {}", text::list(words, "and")),
    }
}
