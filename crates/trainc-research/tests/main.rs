//! Published figures and the errors that the page on measured runs claims.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::indexing_slicing, reason = "tests")]

mod figures;
mod picks;
mod tiers;

use std::path::Path;

/// Reads a file of the repository.
fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

fn shipped_table() -> trainc_calibrate::Table {
    trainc_calibrate::read(&read("crates/trainc-calibrate/data/runs.csv")).unwrap()
}
