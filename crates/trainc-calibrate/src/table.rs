//! Reading a table of runs from CSV.

use super::csv;
use super::impossible::Impossible;
use super::run::{MemoryKind, Run, Table};
use super::run_row::RunRow;
use std::collections::{BTreeMap, BTreeSet};

/// Required columns.
const REQUIRED: [&str; 14] = [
    "id",
    "family",
    "engine",
    "layers",
    "hidden",
    "heads",
    "seq",
    "gpu",
    "gpus_per_node",
    "nodes",
    "precision",
    "micro_batch",
    "recompute",
    "oom",
];

/// Columns that may differ between repeated measurements.
const IDENTITY_AND_MEASUREMENTS: [&str; 10] = [
    "id",
    "tokens_per_s",
    "samples_per_s",
    "step_s",
    "tflops_per_gpu",
    "mfu",
    "tflops_convention",
    "peak_mem_gib",
    "mem_kind",
    "oom",
];

/// Reason why a row gives no layout.
enum NoLayout {
    Incomplete(String),
    Impossible(Impossible),
}

/// Reason why a text is not a table of runs: a lowercase fragment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotATable(pub(super) String);

/// Reads a table of runs. A byte-order mark at its start, which spreadsheets write, is ignored.
///
/// # Errors
///
/// If the text has no header line, or lacks a required column.
pub fn read(text: &str) -> Result<Table, NotATable> {
    let body = text.trim_start_matches('\u{feff}');
    let before = text.len() - body.len();
    let mut rows = csv::rows(body).into_iter();
    let head = header(rows.next())?;
    let mut out = Table::default();
    let mut seen = BTreeSet::new();
    for fields in rows {
        let named = || head.iter().map(String::as_str).zip(&fields);
        let cells: BTreeMap<&str, &str> = named()
            .map(|(name, field)| (name, field.text.trim()))
            .filter(|(_, cell)| !cell.is_empty())
            .collect();
        let texts: Vec<String> = fields.iter().map(|field| field.text.trim().to_owned()).collect();
        let is_duplicate = !seen.insert(texts);
        let (mut run, impossible) = run_from_row(&RunRow::new(cells));
        if is_duplicate {
            // Concatenated tables: the row would count twice.
            run.discard(DUPLICATE);
        }
        out.runs.push(run);
        if let Some(mut one) = impossible {
            let cell = named().find(|(name, _)| *name == one.column).map(|(_, field)| field.place);
            one.place = cell.map_or((0, 0), |(start, end)| (before + start, before + end));
            out.impossible.push(one);
        }
    }
    Ok(out)
}

/// Returns the columns of a header line.
pub(super) fn header(fields: Option<Vec<csv::Field>>) -> Result<Vec<String>, NotATable> {
    let fields = fields.ok_or_else(|| NotATable("missing header line".to_owned()))?;
    let head: Vec<String> = fields.into_iter().map(|field| field.text.trim().to_owned()).collect();
    let missing: Vec<&str> =
        REQUIRED.into_iter().filter(|name| !head.iter().any(|column| column == name)).collect();
    if !missing.is_empty() {
        let columns = if missing.len() == 1 { "column" } else { "columns" };
        return Err(NotATable(format!("missing {columns} `{}`", missing.join("`, `"))));
    }
    Ok(head)
}

const DUPLICATE: &str = "duplicate of an earlier row";

/// Returns the run of a row, and its fault if it is physically impossible: the row is then ignored.
pub(super) fn run_from_row(row: &RunRow) -> (Run, Option<Impossible>) {
    let layout = match row.impossible_cell() {
        Some(one) => Err(NoLayout::Impossible(one)),
        None => row.layout().map_err(NoLayout::Incomplete),
    };
    let layout = layout.and_then(|layout| match row.impossible_measurement(&layout) {
        Some(one) => Err(NoLayout::Impossible(one)),
        None => Ok(layout),
    });
    let candidates =
        if matches!(layout, Err(NoLayout::Incomplete(_))) { row.candidates() } else { Vec::new() };
    let (layout, impossible) = match layout {
        Ok(layout) => (Ok(layout), None),
        Err(NoLayout::Incomplete(why)) => (Err(why), None),
        Err(NoLayout::Impossible(one)) => (Err(one.message.clone()), Some(one)),
    };
    let has_link = |gpus: &str, link: &str| {
        row.number(gpus).is_some_and(|n| n <= 1.0) || row.number(link).is_some_and(|n| n > 0.0)
    };
    let run = Run {
        id: row.text("id").to_owned(),
        family: row.text("family").to_owned(),
        description: description(row),
        oom: row.text("oom") == "1",
        has_links: has_link("gpus_per_node", "intra_bw_gbps") && has_link("nodes", "inter_bw_gbps"),
        step_seconds: match &layout {
            Ok(layout) => row.step_seconds(layout),
            Err(why) => Err(why.clone()),
        },
        peak_memory: row
            .number("peak_mem_gib")
            .and_then(|gib| Some((gib * f64::from(1 << 30), MemoryKind::parse(row.text("mem_kind"))?))),
        candidates_step_seconds: candidates.first().and_then(|layout| row.step_seconds(layout).ok()),
        candidates,
        memory_layout: layout.clone().and_then(|layout| row.memory_layout(layout)),
        layout,
    };
    (run, impossible)
}

/// Joins the cells that describe the run, including the notes, which hold features without a column.
fn description(row: &RunRow) -> String {
    let cells = row.cells.iter().filter(|(name, _)| !IDENTITY_AND_MEASUREMENTS.contains(name));
    cells.map(|(name, cell)| format!("{name}={cell}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_row_counts_once() {
        let shipped = include_str!("../data/runs.csv");
        let (_, rows) = shipped.split_once('\n').unwrap();
        let (once, twice) =
            (read(shipped).unwrap(), read(&format!("{}\n{rows}", shipped.trim_end())).unwrap());
        let judged = |table: &Table| {
            table.runs.iter().filter(|run| run.layout.is_ok() || !run.candidates.is_empty()).count()
        };
        assert_eq!((twice.runs.len(), judged(&twice)), (2 * once.runs.len(), judged(&once)));
        assert_eq!(twice.runs.last().unwrap().layout.clone().err().unwrap(), DUPLICATE);
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_column() {
        let shipped = include_str!("../data/runs.csv");
        let (plain, marked) = (read(shipped).unwrap(), read(&format!("\u{feff}{shipped}")).unwrap());
        assert_eq!(plain.runs.len(), marked.runs.len());
        assert_eq!(plain.runs.first().map(|run| &run.id), marked.runs.first().map(|run| &run.id));
        assert!(marked.runs.first().is_some_and(|run| !run.id.is_empty()));
    }
}
