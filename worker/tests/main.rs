//! The worker's tests above its modules.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::type_complexity, reason = "tests")]

mod cases;
mod data;
mod faults;
mod hf;
mod layouts;
mod parity;
mod processes;
mod ranks;
mod release;
mod schema;
mod simulate;
