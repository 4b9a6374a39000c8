//! Parts of a request that a manifest does not express, and the header comment that lists them.

use super::kdl::{Node, escape_line};

/// Returns the comment above the manifest: whether it produces the same request, otherwise the differences, and the caveats. A
/// tuning job sets hyperparameters of its own in each request.
pub(super) fn header(description: &str, lost: &[String], caveats: &[String], is_tuned: bool) -> String {
    let verdict = match (lost.is_empty(), is_tuned) {
        (false, _) => "does not produce the same request; differences:",
        (true, true) => {
            "produces one training job with its parameters that are not tuned, not the tuning job"
        }
        (true, false) => "produces the same request",
    };
    let end = match (lost.is_empty(), caveats.is_empty()) {
        (false, _) => "",
        (true, false) => ", but:",
        (true, true) => ".",
    };
    let mut lines = vec![format!("Imported from {description}: {verdict}{end}")];
    lines.extend(lost.iter().chain(caveats).map(|line| format!("- {line}")));
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
    /// What the request refers to that is not there, and values that stand for those of the account.
    pub(super) caveats: Vec<String>,
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

    /// Adds what makes a job of the same request another one: a value that stands for that of the account, or files that are
    /// not there.
    pub(super) fn add_caveat(&mut self, line: &str) {
        let shown = escape_line(line);
        if !self.caveats.contains(&shown) {
            self.caveats.push(shown);
        }
        self.add(line);
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
