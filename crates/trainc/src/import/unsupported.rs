//! Parts of a request that a manifest does not express, and the header comment that lists them.

use super::kdl::{Node, escape_line};

/// Returns the comment above the manifest: whether it produces the same request, otherwise the differences. A tuning job sets
/// hyperparameters of its own in each request.
pub(super) fn header(description: &str, lost: &[String], is_tuned: bool) -> String {
    let mut lines = if lost.is_empty() && is_tuned {
        vec![format!(
            "Imported from {description}: produces one training job with its parameters that are not tuned, not the tuning job."
        )]
    } else if lost.is_empty() {
        vec![format!("Imported from {description}: produces the same request.")]
    } else {
        vec![format!("Imported from {description}: does not produce the same request; differences:")]
    };
    lines.extend(lost.iter().map(|line| format!("- {line}")));
    lines.push("Comments mark what a request does not contain.".to_owned());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut out = String::new();
    Node::comment(&lines).write(0, &mut out);
    out
}

/// What the manifest does not express, in the order found.
#[derive(Default)]
pub(super) struct Unsupported {
    pub(super) all: Vec<String>,
    /// Differences of the manifest's request from the original one.
    pub(super) lost: Vec<String>,
}

impl Unsupported {
    /// Adds what a request does not contain, or the manifest expresses differently.
    pub(super) fn add(&mut self, line: &str) {
        // The line is printed to a terminal unchanged.
        let line = escape_line(line);
        if !self.all.contains(&line) {
            self.all.push(line);
        }
    }

    /// Adds a difference: what the request contains and the manifest's request does not.
    pub(super) fn add_difference(&mut self, line: &str) {
        let shown = escape_line(line);
        if !self.lost.contains(&shown) {
            self.lost.push(shown);
        }
        self.add(line);
    }
}
