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

/// Returns the topics that a word may mean: the one with the nearest spelling, else the paths that end with the
/// word, else those that contain it.
fn near_topics(word: &str) -> Vec<&'static str> {
    const MOST: usize = 8;
    let known = topics();
    if let Some(near) = text::nearest(word, known.iter().copied()) {
        return vec![near];
    }
    let paths = || known.iter().copied().filter(|topic| topic.contains('.'));
    let ends: Vec<&str> = paths().filter(|path| path.rsplit('.').next() == Some(word)).collect();
    if !ends.is_empty() {
        return ends;
    }
    paths().filter(|path| path.split(['.', '-', '_']).any(|part| part == word)).take(MOST).collect()
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, args: &Args) -> u8 {
    let topic = args.topic.as_str();
    // `301` is short for `T0301`.
    let is_number = !topic.is_empty() && topic.bytes().all(|b| b.is_ascii_digit());
    let wanted = if is_number { format!("T{topic:0>4}") } else { topic.to_owned() };
    let page = find(crate::codes(), &wanted).map(|code| code.page.to_owned());
    if let Some(text) = page.or_else(|| reference::describe(topic, crate::codes())) {
        // Prose is hard to read in wider columns.
        let options = Options { color: io.color, unicode: io.unicode, width: io.width.min(100), notes: true };
        io.print_colored(&page::render(&text, options));
        return exit::DONE;
    }
    let near = near_topics(topic);
    let hint = if near.is_empty() {
        "`trainc catalog rules` lists all codes, `trainc schema` all nodes".to_owned()
    } else {
        format!("did you mean {}?", text::backtick_list(&near, "or"))
    };
    io.note(&format!("error: unknown code or node `{topic}`; {hint}\n"));
    exit::USAGE
}
