//! Integration tests of the worker.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::type_complexity, reason = "tests")]

mod aten;
mod attacks;
mod cases;
mod data;
mod faults;
mod hf;
mod hosts;
mod kernels;
mod layouts;
mod parity;
mod processes;
mod ranks;
mod release;
mod resume;
mod settings;
mod simulate;
