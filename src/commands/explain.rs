//! `trainc explain`.

use crate::args::completion_values::any_text;
use crate::exit;
use crate::terminal::io::Io;
use trainc_diag::human::Options;
use trainc_diag::text;
use trainc_diag::{find, page};

/// Show the page of a diagnostic: its meaning, its cause, an incorrect and a corrected manifest
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  trainc explain T0301\n  trainc explain degree-does-not-divide")]
pub(crate) struct Args {
    /// Code or name of a diagnostic, e.g. T0301; `trainc catalog rules` lists all
    #[arg(value_parser = any_text(names), hide_possible_values = true)]
    code: String,
}

/// Returns all codes and their names.
pub(crate) fn names() -> Vec<&'static str> {
    crate::codes().iter().flat_map(|code| [code.id, code.name]).collect()
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, args: &Args) -> u8 {
    let codes = crate::codes();
    // `301` is short for `T0301`.
    let is_number = !args.code.is_empty() && args.code.bytes().all(|b| b.is_ascii_digit());
    let wanted = if is_number { format!("T{:0>4}", args.code) } else { args.code.clone() };
    if let Some(code) = find(codes, &wanted) {
        // Prose is hard to read in wider columns.
        let options = Options { color: io.color, unicode: io.unicode, width: io.width.min(100), notes: true };
        let text = page::render(code.page, options);
        io.print_colored(&text);
        return exit::DONE;
    }
    let names = codes.iter().flat_map(|code| [code.id, code.name]);
    let hint = match text::nearest(&args.code, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`trainc catalog rules` lists all codes".to_owned(),
    };
    io.note(&format!("error: unknown code `{}`; {hint}\n", args.code));
    exit::USAGE
}
