//! One binary for all tests: what a user sees, from the page of a code to what a whole directory becomes.

#![allow(
    clippy::disallowed_methods,
    clippy::format_collect,
    clippy::needless_for_each,
    clippy::semicolon_if_nothing_returned,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::missing_panics_doc,
    clippy::float_cmp,
    unreachable_pub,
    missing_docs,
    reason = "a test fails by panicking, and nobody imports it"
)]

mod against;
mod apply;
mod cases;
mod consoles;
mod delivery;
mod docs;
mod engines;
mod fixes;
mod golden;
mod guides;
mod help;
mod hostile;
mod house;
mod intervals;
mod knobs;
mod language;
mod laws;
mod lsp;
mod machines;
mod many;
mod packing;
mod pages;
mod parity;
mod pictures;
mod preferences;
mod probe;
mod props;
mod published;
mod refused;
mod report;
mod run;
mod run_memory;
mod schema;
mod secrets;
mod style;
mod support;
mod terminal;
mod tune;
mod untrusted;
mod untrusted_text;
mod usage;
mod worker_config;
