//! Parts of a request that a manifest does not express, and the header comment that lists them.

use super::Imported;
use super::kdl::{Node, escape_line};
use trainc_diag::source::SourceMap;

/// Maximum number of questions to the account in the header; a script may ask in a loop.
const MOST_UNKNOWN: usize = 12;

/// Returns the comment above the manifest: whether it produces the same request, otherwise the differences,
/// what only the account knows, and the caveats. A tuning job sets hyperparameters of its own in each
/// request.
pub(super) fn header(description: &str, imported: &Imported) -> String {
    let Imported { lost, caveats, unknown, is_tuned, replaces_drivers, .. } = imported;
    let verdict = match (lost.is_empty(), unknown.is_empty(), is_tuned) {
        (false, _, _) => "does not produce the same request; differences:",
        (true, false, _) => {
            "the request may differ in your account, since the script uses answers that only the \
                account knows:"
        }
        (true, true, true) => {
            "produces one training job with its parameters that are not tuned, not the tuning job"
        }
        (true, true, false) if *replaces_drivers => {
            "produces the same request, with the program started by trainc in place of ModelTrainer's drivers"
        }
        (true, true, false) => "produces the same request",
    };
    let end = match (lost.is_empty() && unknown.is_empty(), caveats.is_empty()) {
        (false, _) => "",
        (true, false) => ", but:",
        (true, true) => ".",
    };
    let mut lines = vec![format!("Imported from {description}: {verdict}{end}")];
    let hidden = unknown.len().saturating_sub(MOST_UNKNOWN);
    let more = (hidden > 0).then(|| format!("{hidden} more lines ask for what only the account knows"));
    let asked = unknown.iter().take(MOST_UNKNOWN).chain(&more);
    lines.extend(lost.iter().chain(asked).chain(caveats).map(|line| format!("- {line}")));
    if !unknown.is_empty() {
        lines.push("Compare the manifest with the request of a run in your account.".to_owned());
    }
    lines.push("Comments mark what a request does not contain.".to_owned());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut out = String::new();
    Node::comment(&lines).write(0, &mut out);
    out
}

/// Returns a line as it is written: it is printed to a terminal unchanged, and may quote what a script has
/// done.
pub(super) fn shown(line: &str) -> String {
    escape_line(&SourceMap::default().mask(line))
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
        let line = shown(line);
        if !self.all.contains(&line) {
            self.all.push(line);
        }
    }

    /// Adds what makes a job of the same request another one: a value that stands for that of the account, or
    /// files that are not there.
    pub(super) fn add_caveat(&mut self, line: &str) {
        let shown = shown(line);
        if !self.caveats.contains(&shown) {
            self.caveats.push(shown);
        }
        self.add(line);
    }

    /// Adds a difference: what the request contains and the manifest's request does not.
    pub(super) fn add_difference(&mut self, line: &str) {
        let shown = shown(line);
        if !self.lost.contains(&shown) {
            self.lost.push(shown);
        }
        self.add(line);
    }
}
