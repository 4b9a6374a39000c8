//! Held-out step times, stored: the fits behind them take a minute.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trainc_calibrate::Table;
use trainc_calibrate::held_out::HeldOut;
use trainc_predict::{Constants, speed};

/// The first line of a file, before the hash of what its times follow from.
const HASH: &str = "# of constants, runs and model ";

/// The names of the columns.
const COLUMNS: &str = "id,a_s,b_s,c_s,d_s";

/// Why stored times are not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale(pub &'static str);

/// Returns the file of the held-out step times of a table.
pub fn to_text(table: &Table, constants: &Constants, held_out: &HeldOut) -> String {
    let mut out = format!("{HASH}{}\n{COLUMNS}\n", hash(table, constants));
    for (id, times) in held_out.times_by_id(table) {
        let _ = writeln!(out, "{id},{}", times.map(|time| format!("{time:.4e}")).join(","));
    }
    out
}

/// Returns the held-out step times of a file.
///
/// # Errors
///
/// If the constants, the table or the model differ from those that the times follow from, or the file is not
/// one of [`to_text`].
pub fn from_text<'a>(text: &str, table: &'a Table, constants: &Constants) -> Result<HeldOut<'a>, Stale> {
    let mut lines = text.lines();
    let written = lines.next().and_then(|line| line.strip_prefix(HASH)).ok_or(Stale("it has no hash"))?;
    if written != hash(table, constants) {
        return Err(Stale("the constants, the runs or the cost model have changed"));
    }
    if lines.next() != Some(COLUMNS) {
        return Err(Stale("its columns are others"));
    }
    let times: Option<BTreeMap<String, [f64; 4]>> = lines.map(row).collect();
    let times = times.ok_or(Stale("a row is not an id and four times"))?;
    HeldOut::from_times(table, constants, &times).ok_or(Stale("its rows are not those of the table"))
}

fn row(line: &str) -> Option<(String, [f64; 4])> {
    let (id, times) = line.split_once(',')?;
    let times: Option<Vec<f64>> = times.split(',').map(|time| time.parse().ok()).collect();
    Some((id.to_owned(), times?.try_into().ok()?))
}

/// Returns the hash of what held-out times follow from: the constants, and what they make of each run, so
/// that a change of the model counts too.
fn hash(table: &Table, constants: &Constants) -> String {
    let mut hasher = Sha256::new();
    hasher.update(constants.to_toml());
    for run in &table.runs {
        let predicted = run.layout.as_ref().ok().and_then(|one| speed::step_seconds(one, constants).ok());
        hasher.update(format!("{} {:?} {:.4e}\n", run.id, run.step_seconds, predicted.unwrap_or(f64::NAN)));
    }
    hasher.finalize().iter().take(8).fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
