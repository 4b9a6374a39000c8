//! `trainc plan`.

use super::args::{Global, Input, problems};
use super::io::Io;
use super::manifests::{Manifest, Set, compile_all};
use crate::diag::Format;
use crate::report;

/// Show what a manifest comes to: the mesh, the batch, the cost, and what would be made
///
/// Checks first. With `--offline` it needs no credentials and compares with nothing.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  trainc plan --offline job.kdl\n  trainc plan --offline job.kdl -v\n  trainc plan --offline jobs/ -o json")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    /// Compare with nothing: no credentials, no network
    #[arg(long)]
    offline: bool,
    /// How to write: human, json or markdown
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json", "markdown"])]
    output: String,
}

/// Runs the command.
pub fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let set = compile_all(&args.input.manifests, &args.input.options(io, false));
    let code = args.input.exit(&set);
    match args.output.as_str() {
        "json" => {
            let documents: Vec<report::json::Document> = set.manifests.iter().map(|m| document(m, &set)).collect();
            let value = if set.many {
                serde_json::to_value(&documents)
            } else {
                documents.first().map_or(Ok(serde_json::Value::Null), serde_json::to_value)
            };
            match value.and_then(|value| serde_json::to_string_pretty(&value)) {
                Ok(text) => io.print(&format!("{text}\n")),
                Err(error) => io.note(&format!("error: {error}\n")),
            }
        }
        _ => {
            let text = problems(&set, Format::Human, io, io.color, global.quiet);
            io.print(&text);
        }
    }
    let _ = args.offline;
    code
}

/// The plan of one manifest for scripts.
pub fn document(manifest: &Manifest, set: &Set) -> report::json::Document {
    let plan = manifest.compiled.plan.as_ref();
    let identity = manifest.compiled.checked().map(crate::emit::identity);
    report::json::document(
        &manifest.path,
        &manifest.sha256,
        plan,
        identity.as_ref(),
        &manifest.compiled.problems,
        &set.sources,
    )
}
