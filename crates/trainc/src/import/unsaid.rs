//! What a manifest cannot say of a request, and the comment above it that tells.

use super::Imported;
use super::kdl::{Node, visible};

impl Imported {
    /// With more lines of what the manifest's request lacks; the header says them too.
    #[must_use]
    pub fn lacking(mut self, lines: Vec<String>) -> Self {
        if lines.is_empty() {
            return self;
        }
        let body = self.manifest.split_off(header(&self.what, &self.lost).len());
        self.unsaid.extend(lines.iter().cloned());
        self.lost.extend(lines);
        self.manifest = header(&self.what, &self.lost) + &body;
        self
    }
}

/// The comment above the manifest: whether it says the same request, and if not, what is lost.
pub(super) fn header(what: &str, lost: &[String]) -> String {
    let mut lines = if lost.is_empty() {
        vec![format!("Imported from {what}: says the same request.")]
    } else {
        vec![format!("Imported from {what}: not the same request, for it does not say")]
    };
    lines.extend(lost.iter().map(|line| format!("- {line}")));
    lines.push("Comments ask for what a request does not hold.".to_owned());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut out = String::new();
    Node::comment(&lines).write(0, &mut out);
    out
}

/// What the manifest cannot say, in the order found.
#[derive(Default)]
pub(super) struct Unsaid {
    pub(super) all: Vec<String>,
    /// By which the manifest's request is another one.
    pub(super) lost: Vec<String>,
}

impl Unsaid {
    /// What a request does not hold, or the manifest says in another way.
    pub(super) fn add(&mut self, line: &str) {
        // It goes to a terminal as it is.
        let line = visible(line);
        if !self.all.contains(&line) {
            self.all.push(line);
        }
    }

    /// What the request holds and the manifest's request will not.
    pub(super) fn lose(&mut self, line: &str) {
        let shown = visible(line);
        if !self.lost.contains(&shown) {
            self.lost.push(shown);
        }
        self.add(line);
    }
}
