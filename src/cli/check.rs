//! `trainc check`.

use super::args::{Global, Input, problems};
use super::io::Io;
use super::manifests::compile_all;
use crate::diag::Format;

/// Find every problem of every manifest, at once and without a network
///
/// Reads the manifests and all they name (layers, source directories, model configs), plans them and runs every
/// rule. Exits with 3 if any manifest has an error.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  trainc check job.kdl\n  trainc check . -o short\n  trainc check jobs/ -o sarif --exit-zero > trainc.sarif")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    /// How to write: human, json, short (one line each), sarif, github, markdown
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = format)]
    output: Format,
}

/// Reads a format.
pub fn format(written: &str) -> Result<Format, String> {
    Format::parse(written).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Runs the command.
pub fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let set = compile_all(&args.input.manifests, &args.input.options(io, false));
    let text = problems(&set, args.output, io, io.color, global.quiet);
    io.print(&text);
    args.input.exit(&set)
}
