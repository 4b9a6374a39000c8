//! `trainc schema`.

use super::exit;
use super::io::Io;

/// Print a schema: the manifest language, or the form of an output
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  trainc schema manifest\n  trainc schema plan > plan.v1.json")]
pub(super) struct Args {
    /// manifest (KDL), plan or diagnostic (JSON Schema)
    #[arg(value_parser = ["manifest", "plan", "diagnostic"], default_value = "manifest", hide_possible_values = true)]
    schema: String,
}

/// Runs the command.
pub(super) fn run(io: &mut Io, args: &Args) -> u8 {
    io.print(match args.schema.as_str() {
        "plan" => include_str!("../../schemas/plan.v1.json"),
        "diagnostic" => include_str!("../../schemas/diagnostic.v1.json"),
        _ => include_str!("../../schemas/manifest.v1.kdl"),
    });
    exit::DONE
}
