//! Measurements of a run, compared with its prediction.
//!
//! Input: lines of a job's log, the service's description of the job, a plan and its prediction. Output:
//! medians over the steps ([`Measured`]), each figure with its prediction ([`Row`]), and the run as a row of
//! a table for `calibrate`. Accesses no files.

mod faults;
mod lines;
mod names;
mod part;
mod row;
mod steps;
mod table;

pub use faults::Fault;
pub use lines::{Reader, Report};
pub use part::{Group, Job, Row, describe_uncounted_memory, rows};
pub use row::{finished_cells, table_cells};
pub use steps::{Measured, Median};
pub(super) use table::COLUMNS;
pub use table::{Addition, NotAddable, append};
