//! Measured runs compared with the cost model: judging a table of runs, and fitting the model's constants to
//! it.
//!
//! Input: the text of a RUNS.csv with the columns of `data/runs.csv`. Output: each row's prediction and error
//! ([`judge`]), and constants fitted to the rows. Accesses no files.

pub mod bounds;
mod csv;
pub mod errors;
pub mod fit;
pub mod half_width;
pub mod held_out;
mod impossible;
pub mod judge;
mod meanings;
pub mod measure;
mod memory_columns;
pub mod memory_fit;
mod own_runs;
mod plausibility;
mod priors;
pub mod probe;
mod render;
mod row_fidelity;
mod row_layout;
mod run;
mod run_row;
mod step_time;
mod table;
#[cfg(test)]
mod tests;
pub mod unknown_micro_batch;
pub mod verdict;
mod width_fit;

pub use impossible::{Impossible, impossible_line};
pub use own_runs::{MOST_LINES, MOST_RUNS, OwnRuns, mean_error_given_others, own_runs};
pub use render::render;
pub use row_fidelity::{MEMORY_CELLS, RowMismatch, check_row_fidelity};
pub use run::{MemoryKind, Run, Table};
pub use table::{NotATable, read};

use run_row::RunRow;
use std::collections::BTreeMap;
use trainc_diag::Code;
use trainc_predict::Layout;

/// Returns the codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    impossible::CODES.to_vec()
}

/// Returns the layout of a row with these cells by column. `micro_batch` takes precedence over the cell.
///
/// # Errors
///
/// If the cells do not determine a layout.
pub fn layout_of_cells(cells: BTreeMap<&str, &str>, micro_batch: Option<f64>) -> Result<Layout, String> {
    RunRow { cells, micro_batch }.layout()
}
