//! Diagnostics: what a user did wrong, said once, in a form from which every output format is made.
//!
//! In: facts from any stage, as [`Diagnostic`]s put into [`Problems`]. Out: the same, sorted, for the
//! renderers beside this file. Knows no stage, no terminal, no colour (only `human` does).

mod code;
mod cut;
mod excerpt;
pub mod fix;
pub mod github;
pub mod gitlab;
pub mod human;
pub mod json;
pub mod markdown;
mod next_command;
pub mod page;
mod place;
mod run;
#[cfg(test)]
mod samples;
pub mod sarif;
pub mod short;
pub mod source;
pub mod text;

pub use code::{Code, Status, find};
pub use excerpt::safe;
pub use next_command::{Help, HelpPart, Invocation, NextCommand};
pub use place::Paths;
pub use run::{Counts, Format, ManifestReport, Options, Run, Shown, render};

use crate::source::Span;
use cut::{OF_HELP, OF_MESSAGE, cut, seen};
use std::collections::BTreeMap;

/// How bad it is. Ordered: an error is greater than a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Only the account can tell, or good to know.
    Note,
    /// Costs money or surprises.
    Warning,
    /// Would be refused, or cannot be computed.
    Error,
}

impl Severity {
    /// `error`, `warning` or `note`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A further place that belongs to a problem, and what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// What is here, a lowercase fragment.
    pub text: String,
}

/// One problem: a code, the place of blame, and words.
///
/// The message is a lowercase fragment without a full stop, with the user's text in backticks, and says
/// what is expected and what was found. Help is something to type. Notes say why, or where a number comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// Which situation.
    pub code: &'static Code,
    /// Usually the code's own.
    pub severity: Severity,
    /// The place of blame.
    pub span: Span,
    /// What is here; empty when the message says it all.
    pub label: String,
    /// What is wrong.
    pub message: String,
    /// Further places.
    pub labels: Vec<Label>,
    /// What to type, only where we are confident.
    pub help: Option<Help>,
    /// Why, or where a number comes from.
    pub notes: Vec<String>,
    /// The same for tools: names to values, so that nobody parses prose.
    pub facts: BTreeMap<&'static str, serde_json::Value>,
    /// An edit that mends it.
    pub fix: Option<Fix>,
    /// What stands at the place of blame is a secret, and is shown to nobody.
    pub secret: bool,
    /// The place of the value that the problem is about, if that is not `span`.
    pub subject: Option<Span>,
}

/// A replacement of one place of a source, applied by `check --fix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// What to replace; empty to insert.
    pub span: Span,
    /// The new text.
    pub text: String,
}

impl Diagnostic {
    /// A problem with the code's own severity. Text that somebody wrote is cut to what a message bears, here and below.
    pub fn new(code: &'static Code, span: Span, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity,
            span,
            label: String::new(),
            message: cut(seen(message.into()), OF_MESSAGE),
            labels: Vec::new(),
            help: None,
            notes: Vec::new(),
            facts: BTreeMap::new(),
            fix: None,
            secret: false,
            subject: None,
        }
    }

    /// Names the place of the value that the problem is about, where `span` is another: a problem of that value may
    /// supersede this one.
    #[must_use]
    pub fn about(mut self, value: Span) -> Self {
        self.subject = Some(value);
        self
    }

    /// Says that what stands at the place of blame must not be shown.
    #[must_use]
    pub fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Reports at another severity than the code's.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Says what stands at the place of blame.
    #[must_use]
    pub fn primary_label(mut self, text: impl Into<String>) -> Self {
        self.label = cut(text.into(), OF_MESSAGE);
        self
    }

    /// The former name of [`Self::primary_label`].
    #[must_use]
    pub fn here(self, text: impl Into<String>) -> Self {
        self.primary_label(text)
    }

    /// Adds a further place.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: cut(text.into(), OF_MESSAGE) });
        self
    }

    /// Says what to type.
    #[must_use]
    pub fn help(mut self, help: impl Into<Help>) -> Self {
        self.help = Some(help.into().map_text(|text| cut(text, OF_HELP)));
        self
    }

    /// Completes the commands in its help with the manifest and the flags of the command line.
    #[must_use]
    pub fn complete(mut self, invocation: &Invocation) -> Self {
        self.help = self.help.map(|help| help.complete(invocation));
        self
    }

    /// Says why, or where a number comes from.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(cut(text.into(), OF_HELP));
        self
    }

    /// Adds a fact for tools.
    #[must_use]
    pub fn fact(mut self, name: &'static str, value: impl Into<serde_json::Value>) -> Self {
        self.facts.insert(name, value.into());
        self
    }

    /// Adds the edit that mends it.
    #[must_use]
    pub fn fix(mut self, span: Span, text: impl Into<String>) -> Self {
        self.fix = Some(Fix { span, text: text.into() });
        self
    }
}

/// The sink that every stage reports into.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    list: Vec<Diagnostic>,
}

impl Problems {
    /// Reports a problem.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// How many errors were reported.
    pub fn errors(&self) -> usize {
        self.list.iter().filter(|d| d.severity == Severity::Error).count()
    }

    /// How many warnings were reported.
    pub fn warnings(&self) -> usize {
        self.list.iter().filter(|d| d.severity == Severity::Warning).count()
    }

    /// Whether nothing was reported.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All problems as they stand.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Keeps the problems for which the test holds.
    pub fn retain(&mut self, keep: impl FnMut(&Diagnostic) -> bool) {
        self.list.retain(keep);
    }

    /// Completes the commands in every help with the manifest and the flags of the command line.
    #[must_use]
    pub fn complete(self, invocation: &Invocation) -> Self {
        Self { list: self.list.into_iter().map(|problem| problem.complete(invocation)).collect() }
    }

    /// Takes over another stage's problems.
    pub fn extend(&mut self, other: Self) {
        self.list.extend(other.list);
    }

    /// Sorts by place, then code, and drops exact repeats.
    pub fn sort(&mut self) {
        self.list.sort_by(|a, b| {
            (a.span, a.code.id, std::cmp::Reverse(a.severity), &a.message).cmp(&(
                b.span,
                b.code.id,
                std::cmp::Reverse(b.severity),
                &b.message,
            ))
        });
        self.list.dedup_by(|a, b| a.code == b.code && a.span == b.span && a.message == b.message);
    }
}
