//! `trainc schema`.

use crate::exit;
use crate::terminal::io::Io;

/// Print the schema of the manifest language (KDL) or of an output (JSON Schema)
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  trainc schema\n  trainc schema plan > plan.v1.json\n  trainc schema \
        diagnostic > diagnostic.v1.json")]
pub(crate) struct Args {
    /// `manifest`: the language (KDL). JSON Schema: `plan`, `report` and `tune` of the same commands with
    /// `-o json`; `bill` of `plan --against REF -o json`; `diagnostic` of `check -o json`; `worker` of the
    /// worker's config
    #[arg(
        value_parser = ["manifest", "plan", "bill", "report", "tune", "diagnostic", "worker"],
        default_value = "manifest",
        hide_possible_values = true
    )]
    schema: String,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, args: &Args) -> u8 {
    io.print_verbatim(match args.schema.as_str() {
        "plan" => include_str!("../../schemas/plan.v1.json"),
        "report" => include_str!("../../schemas/report.v1.json"),
        "tune" => include_str!("../../schemas/tune.v1.json"),
        "bill" => include_str!("../../schemas/bill.v1.json"),
        "worker" => include_str!("../../schemas/worker.v1.json"),
        "diagnostic" => include_str!("../../schemas/diagnostic.v1.json"),
        _ => include_str!("../../schemas/manifest.v1.kdl"),
    });
    exit::DONE
}
