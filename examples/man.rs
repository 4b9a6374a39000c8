//! Writes a man page for each command: `cargo run -p trainc --example man -- DIR`.

#![allow(clippy::disallowed_methods, reason = "writes files")]

use std::path::Path;

fn main() -> std::io::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "man".to_owned());
    std::fs::create_dir_all(&directory)?;
    clap_mangen::generate_to(trainc::cli::command(), Path::new(&directory))
}
