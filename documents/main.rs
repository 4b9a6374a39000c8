//! Writes a man page for each command, and the completions: `cargo run -p trainc --example documents -- DIR`.

#![allow(clippy::disallowed_methods, reason = "writes files")]

use clap::ValueEnum as _;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "documents".to_owned()));
    let (man, completions) = (directory.join("man"), directory.join("completions"));
    std::fs::create_dir_all(&man)?;
    std::fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(trainc::cli::command(), &man)?;
    for shell in clap_complete::Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut trainc::cli::command(), "trainc", &completions)?;
    }
    Ok(())
}
