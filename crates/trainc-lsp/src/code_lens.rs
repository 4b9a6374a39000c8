//! Code lenses: time, cost and memory above each job.

use super::open_document::OpenDocument;
use super::positions::Encoding;
use super::prediction::{self, Anchor};
use lsp_types::{CodeLens, Command};
use trainc_diag::escape_control_characters;
use trainc_diag::text;

/// Returns a lens above each job of a document. Only the first job of a file is planned.
pub(super) fn code_lenses(opened: &OpenDocument, encoding: Encoding) -> Vec<CodeLens> {
    let Some(document) = opened.parse() else { return Vec::new() };
    let jobs = document.nodes().iter().filter(|node| node.name().value() == "job");
    jobs.enumerate()
        .map(|(at, node)| {
            let name = node.name().span();
            let title = if at == 0 { title(opened) } else { "not planned: a file has one job".to_owned() };
            CodeLens {
                range: encoding.range(&opened.text, name.offset(), name.offset() + name.len()),
                // An editor shows the title; there is nothing to run.
                command: Some(Command::new(escape_control_characters(&title), String::new(), None)),
                data: None,
            }
        })
        .collect()
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
