//! `trainc check`.

use super::args::{Global, Input, problems};
use super::exit;
use super::io::Io;
use super::manifests::{Keep, Set, compile_keeping};
use super::world::describe;
use crate::diag::{Diagnostic, Format, find, fix};

/// Find every problem of every manifest, at once and without a network
///
/// Reads the manifests and all they name (layers, source directories, model configs), plans them and runs every
/// rule. Exits with 3 if any manifest has an error.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc check\n  trainc check job.kdl\n  trainc check job.kdl --env prod --set cluster.nodes=4\n  trainc check jobs/ -o sarif --exit-zero > trainc.sarif"
)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// How to write: human, json, short (one line each), sarif, github, markdown
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = format)]
    output: Format,
    /// Write into the files the edit that mends every problem of this code (or `all`), then check again
    #[arg(long, value_name = "CODE")]
    fix: Option<String>,
}

/// Reads a format.
pub(super) fn format(written: &str) -> Result<Format, String> {
    Format::parse(written).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let paths = match args.input.named.paths("check") {
        Ok(paths) => paths,
        Err(why) => {
            io.note(&why);
            return exit::USAGE;
        }
    };
    let mut set = compile_keeping(&paths, &args.input.options(io, false), Keep::Problems);
    if let Some(code) = &args.fix {
        if code != "all" && find(crate::codes(), code).is_none() {
            io.note(&format!("error: there is no code `{code}`; `trainc catalog rules` lists all codes\n"));
            return exit::USAGE;
        }
        if paths.iter().any(|path| path == "-") {
            io.note("error: `--fix` writes into files, and standard input is none: name the file\n");
            return exit::USAGE;
        }
        let code = Some(code.as_str()).filter(|code| *code != "all");
        match write_fixes(io, &set, code) {
            Ok(0) => io.note("nothing to fix\n"),
            Ok(_) => set = compile_keeping(&paths, &args.input.options(io, false), Keep::Problems),
            Err(message) => {
                io.note(&message);
                return exit::USAGE;
            }
        }
    }
    let text = problems(&set, args.output, io, io.color, global);
    io.print(&text);
    args.input.say_denied(io, &set, global.quiet);
    args.input.exit(&set)
}

/// Writes the edits of all problems of a code; says how many.
fn write_fixes(io: &mut Io, set: &Set, code: Option<&str>) -> Result<usize, String> {
    let problems: Vec<&Diagnostic> = set.manifests.iter().flat_map(|m| m.compiled.problems.iter()).collect();
    let fixed = fix::apply(&set.sources, problems, code);
    for (source, text) in &fixed.texts {
        let Some(name) = set.sources.get(*source).map(|source| source.name.to_string()) else { continue };
        if name.starts_with('<') {
            continue;
        }
        std::fs::write(&name, text)
            .map_err(|error| format!("error: `{name}` cannot be written: {}\n", describe(&error)))?;
        io.note(&format!("fixed {name}\n"));
    }
    Ok(fixed.applied.len())
}
