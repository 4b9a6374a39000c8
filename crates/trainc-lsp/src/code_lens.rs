//! Code lenses above each job: time, cost and memory, and the commands of the client.

use super::open_document::OpenDocument;
use super::prediction::{self, Anchor};
use super::server::Client;
use lsp_types::{CodeLens, Command};
use serde_json::json;
use trainc_diag::escape_control_characters;
use trainc_diag::text;

/// The commands that a client may have for a manifest, with their titles. Each gets the URI.
const COMMANDS: [(&str, &str); 2] = [("trainc.plan", "plan"), ("trainc.apply", "apply")];

/// Returns the lenses above each job of a document. Only the first job of a file is planned.
pub(super) fn code_lenses(opened: &OpenDocument, client: &Client) -> Vec<CodeLens> {
    let Some(document) = opened.parse() else { return Vec::new() };
    let jobs = document.nodes().iter().filter(|node| node.name().value() == "job");
    let mut out = Vec::new();
    for (at, node) in jobs.enumerate() {
        let name = node.name().span();
        let range = client.encoding.range(&opened.text, name.offset(), name.offset() + name.len());
        let title = if at == 0 { title(opened) } else { "not planned: a file has one job".to_owned() };
        // An editor shows the title; there is nothing to run.
        let shown = Command::new(escape_control_characters(&title), String::new(), None);
        let has = |command: &&(&str, &str)| at == 0 && client.commands.iter().any(|one| one == command.0);
        let to_run = COMMANDS.iter().filter(has).map(|(command, title)| {
            Command::new((*title).to_owned(), (*command).to_owned(), Some(vec![json!(opened.uri)]))
        });
        let commands = std::iter::once(shown).chain(to_run);
        out.extend(commands.map(|command| CodeLens { range, command: Some(command), data: None }));
    }
    out
}

fn title(opened: &OpenDocument) -> String {
    let errors = opened.compiled.problems.errors() as u64;
    let errors = (errors > 0).then(|| text::count(errors, "error"));
    let prediction = &opened.compiled.prediction;
    let unknown = [&prediction.no_run, &prediction.no_speed, &prediction.no_memory];
    let figures = prediction::short(opened, Anchor::JobName, true).or_else(|| {
        let why = unknown.into_iter().flatten().next()?;
        Some(format!("not predicted: {}", why.0))
    });
    let mut parts: Vec<String> = [figures, errors].into_iter().flatten().collect();
    if parts.is_empty() {
        parts.push("not predicted".to_owned());
    }
    parts.join(", ")
}
