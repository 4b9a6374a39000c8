//! Measured runs against the cost model: a table of runs in, errors and fitted constants out.
//!
//! In: the text of a RUNS.csv, whose columns are those of `data/runs.csv`. Out: each row's prediction beside its
//! measurement ([`judge`]), and constants fitted to the rows with the errors of rows, layouts and whole sources that
//! the fit did not see ([`fit`]). Touches no file.

mod carried;
mod csv;
pub mod fit;
pub mod goals;
mod impossible;
pub mod judge;
mod keeps;
mod meanings;
pub mod measure;
mod memory;
pub mod misses;
pub mod noise;
pub mod open;
pub mod outside;
mod peaks;
pub mod questions;
mod row;
mod rows;
pub mod runs;
pub mod tiers;
mod time;
mod verdict;
pub mod words;

pub use carried::{Lost, MEMORY_CELLS, carried};
pub use impossible::{Impossible, impossible_line};
pub use runs::{Run, Table, read};

use trainc_diag::Code;

/// The codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    impossible::CODES.to_vec()
}
