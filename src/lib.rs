//! trainc: a compiler for training jobs. The command line, `import` and `data pack`.
//!
//! [`trainc_check::compile`] is the whole way from text to a checked plan.

// The futures of the AWS calls nest deeper than the default of 128.
#![recursion_limit = "256"]

pub mod cli;
pub mod data;
pub mod fixes;
pub mod import;

use std::sync::LazyLock;
use trainc_diag::Code;

/// The codes of the stages after the checks.
pub fn later_codes() -> &'static [&'static Code] {
    static LATER: LazyLock<Vec<&'static Code>> = LazyLock::new(|| {
        [trainc_apply::codes(), import::codes(), data::codes(), trainc_calibrate::codes(), cli::codes()]
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
