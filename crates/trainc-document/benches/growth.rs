//! How the time of reading grows with the size of a text.
//!
//! `cargo bench -p trainc-document`. Fails if sixteen times a text takes a hundred times as long, with a tenth of a second
//! that a busy machine may lose.
#![allow(
    clippy::disallowed_methods,
    clippy::format_collect,
    clippy::print_stdout,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "a bench prints and takes times"
)]

#[path = "../tests/shapes/mod.rs"]
mod shapes;

use shapes::{READERS, shapes};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use trainc_document::Limits;

fn main() -> ExitCode {
    let mut is_slow = false;
    for (at, (kind, shape)) in shapes().into_iter().enumerate() {
        let read = READERS.iter().find(|(name, _)| *name == kind).unwrap().1;
        let time = |text: &str| {
            let begin = Instant::now();
            let _ = read(text, &Limits::default());
            begin.elapsed()
        };
        let (small, large) = (time(&shape(2_500)), time(&shape(40_000)));
        let grows = large > small * 100 + Duration::from_millis(100);
        println!("{kind} {at}: {small:?}, {large:?}{}", if grows { ": grows too fast" } else { "" });
        is_slow |= grows;
    }
    if is_slow { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
