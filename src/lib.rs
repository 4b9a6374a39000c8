//! trainc: a compiler for training jobs. The command line.
//!
//! [`trainc_check::compile`] is the whole way from text to a checked plan.

// The futures of the AWS calls nest deeper than the default of 128.
#![recursion_limit = "256"]
#![expect(clippy::disallowed_methods, reason = "files, environment and clock of the user are read here")]

mod args;
pub mod cli;
mod commands;
mod exit;
mod jobs;
mod terminal;
mod views;

use std::sync::LazyLock;
use trainc_diag::Code;

/// The codes of the stages after the checks.
pub fn later_codes() -> &'static [&'static Code] {
    static LATER: LazyLock<Vec<&'static Code>> = LazyLock::new(|| {
        [
            trainc_apply::codes(),
            trainc_import::codes(),
            trainc_data::codes(),
            trainc_calibrate::codes(),
            trainc_project::codes(),
            trainc_ops::codes(),
        ]
        .concat()
    });
    &LATER
}

/// Every code of every stage, sorted.
pub fn codes() -> &'static [&'static Code] {
    static ALL: LazyLock<Vec<&'static Code>> = LazyLock::new(|| {
        let mut codes = [&trainc_check::codes_of_compile(), later_codes()].concat();
        codes.sort_by_key(|code| code.id);
        codes
    });
    &ALL
}
