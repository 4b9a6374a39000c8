//! `trainc explain`.

use crate::args::completion_values::any_text;
use crate::exit;
use crate::terminal::io::Io;
use std::sync::LazyLock;
use trainc_diag::human::Options;
use trainc_diag::text;
use trainc_diag::{find, page};
use trainc_plan::reference;

/// Explain a diagnostic, a node or property of the manifest, or a placeholder
///
/// Of a diagnostic: its meaning, its cause, an incorrect and a corrected manifest. Editors show the same
/// text.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  trainc explain T0301\n  trainc explain degree-does-not-divide\n  \
        trainc explain cluster.spot\n  trainc explain batch.micro")]
pub(crate) struct Args {
    /// Code or name of a diagnostic, e.g. T0301; `trainc catalog rules` lists all. Or the path of a node or
    /// property, e.g. cluster.spot, or of a placeholder, e.g. batch.micro
    #[arg(value_parser = any_text(topics), hide_possible_values = true)]
    topic: String,
}

/// Returns all codes and their names.
pub(crate) fn names() -> Vec<&'static str> {
    crate::codes().iter().flat_map(|code| [code.id, code.name]).collect()
}

/// Returns all codes and their names, and the paths of the language and of placeholders.
fn topics() -> Vec<&'static str> {
    static PATHS: LazyLock<Vec<String>> = LazyLock::new(reference::paths);
    names().into_iter().chain(PATHS.iter().map(String::as_str)).collect()
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, args: &Args) -> u8 {
    let topic = args.topic.as_str();
    // `301` is short for `T0301`.
    let is_number = !topic.is_empty() && topic.bytes().all(|b| b.is_ascii_digit());
    let wanted = if is_number { format!("T{topic:0>4}") } else { topic.to_owned() };
    let page = find(crate::codes(), &wanted).map(|code| code.page.to_owned());
    if let Some(text) = page.or_else(|| reference::describe(topic)) {
        // Prose is hard to read in wider columns.
        let options = Options { color: io.color, unicode: io.unicode, width: io.width.min(100), notes: true };
        io.print_colored(&page::render(&text, options));
        return exit::DONE;
    }
    let known = topics();
    let is_path = |name: &&&str| name.rsplit('.').next() == Some(topic);
    let hint = match text::nearest(topic, known.iter().copied()).or(known.iter().find(is_path).copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`trainc catalog rules` lists all codes, `trainc schema` all nodes".to_owned(),
    };
    io.note(&format!("error: unknown code or node `{topic}`; {hint}\n"));
    exit::USAGE
}
