//! The table of runs: columns to layouts and measurements, or the reason why a row says too little.

use super::csv;
use super::impossible::Impossible;
use super::row::Row;
use std::collections::{BTreeMap, BTreeSet};
use trainc_predict::Layout;

/// Columns without which a table is no table of runs.
const NEEDED: [&str; 14] = [
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

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its name.
    pub id: String,
    /// The publication or cluster that it belongs to; rows of one family share hardware and software.
    pub family: String,
    /// Every cell that says what was run, in words: all but its name and what was measured. Two rows of one family with
    /// equal words are measurements of the same thing.
    pub said: String,
    /// Whether it ran out of memory.
    pub oom: bool,
    /// The layout, or why it is not known.
    pub layout: Result<Layout, String>,
    /// Whether the source says what joins its GPUs, inside a node and between nodes, as far as it has several.
    pub has_links: bool,
    /// Measured seconds of a step, or why they are not known.
    pub step_seconds: Result<f64, String>,
    /// Where the micro-batch alone is open: the layouts that the row may mean.
    pub open: Vec<Layout>,
    /// Measured seconds of a step of such a row.
    pub step_seconds_open: Option<f64>,
    /// Measured peak memory of a GPU, bytes, and what the source measured.
    pub peak_memory: Option<(f64, MemoryKind)>,
    /// The layout as memory sees it, or why memory cannot be judged.
    pub memory_layout: Result<Layout, String>,
}

impl Run {
    /// Takes from it all that could be judged.
    fn strike(&mut self, why: &str) {
        (self.layout, self.memory_layout) = (Err(why.to_owned()), Err(why.to_owned()));
        (self.step_seconds, self.step_seconds_open) = (Err(why.to_owned()), None);
        (self.open, self.peak_memory) = (Vec::new(), None);
    }
}

/// What a source calls peak memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// `max_memory_allocated`.
    Allocated,
    /// `max_memory_reserved`.
    Reserved,
    /// What nvidia-smi shows: reserved, context and NCCL.
    Smi,
    /// Computed by the source: no evidence.
    Computed,
}

impl MemoryKind {
    /// The kind by the word of the column `mem_kind`.
    pub(super) fn of(word: &str) -> Option<Self> {
        match word {
            "allocated" => Some(Self::Allocated),
            "reserved" => Some(Self::Reserved),
            "smi" => Some(Self::Smi),
            "computed" => Some(Self::Computed),
            _ => None,
        }
    }
}

/// A table of runs.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its rows.
    pub runs: Vec<Run>,
    /// What is wrong with those that cannot be; they are among the runs, without a layout.
    pub impossible: Vec<Impossible>,
}

/// A text that is no table of runs: a lowercase fragment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoTable(String);

/// Reads a table of runs. A byte-order mark at its head, which spreadsheets write, is passed over.
pub fn read(text: &str) -> Result<Table, NoTable> {
    let body = text.trim_start_matches('\u{feff}');
    let before = text.len() - body.len();
    let mut rows = csv::rows(body).into_iter();
    let head = rows.next().ok_or_else(|| NoTable("it has no line".to_owned()))?;
    let head: Vec<String> = head.into_iter().map(|field| field.text).collect();
    let missing: Vec<&str> =
        NEEDED.into_iter().filter(|name| !head.iter().any(|column| column.trim() == *name)).collect();
    if !missing.is_empty() {
        return Err(NoTable(format!("it has no column `{}`", missing.join("`, `"))));
    }
    let mut out = Table::default();
    let mut seen = BTreeSet::new();
    for fields in rows {
        let named = || head.iter().map(|name| name.trim()).zip(&fields);
        let cells: BTreeMap<&str, &str> = named()
            .map(|(name, field)| (name, field.text.trim()))
            .filter(|(_, cell)| !cell.is_empty())
            .collect();
        let texts: Vec<String> = fields.iter().map(|field| field.text.trim().to_owned()).collect();
        let again = !seen.insert(texts);
        let (mut run, impossible) = Row::new(cells).run();
        if again {
            // Tables that were put together: the row would weigh twice.
            run.strike("the same row stands above it");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_stands_twice_counts_once() {
        let shipped = include_str!("../data/runs.csv");
        let (_, rows) = shipped.split_once('\n').unwrap();
        let (once, twice) =
            (read(shipped).unwrap(), read(&format!("{}\n{rows}", shipped.trim_end())).unwrap());
        let judged = |table: &Table| {
            table.runs.iter().filter(|run| run.layout.is_ok() || !run.open.is_empty()).count()
        };
        assert_eq!((twice.runs.len(), judged(&twice)), (2 * once.runs.len(), judged(&once)));
        assert_eq!(twice.runs.last().unwrap().layout.clone().err().unwrap(), "the same row stands above it");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_column() {
        let shipped = include_str!("../data/runs.csv");
        let (plain, marked) = (read(shipped).unwrap(), read(&format!("\u{feff}{shipped}")).unwrap());
        assert_eq!(plain.runs.len(), marked.runs.len());
        assert_eq!(plain.runs.first().map(|run| &run.id), marked.runs.first().map(|run| &run.id));
        assert!(marked.runs.first().is_some_and(|run| !run.id.is_empty()));
    }
}
