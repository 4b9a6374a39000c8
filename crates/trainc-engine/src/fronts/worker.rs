//! trainc's own worker, which takes the place of a program.

use crate::laws;
use trainc_ir::engine::{Front, Prefetch};

/// The Rust FSDP worker.
pub static WORKER: Front = Front {
    word: "worker",
    title: "worker",
    laws: &[&laws::WORKER],
    runs_program: false,
    needs_gpu: false,
    prefetch: Some(Prefetch::Units),
    ..Front::PLAIN
};
