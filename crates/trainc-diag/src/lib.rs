//! Diagnostics in a form that every output format is rendered from.
//!
//! In: [`Diagnostic`]s of any stage, collected in [`Problems`]. Out: the same, sorted, for the renderers in
//! this crate. Independent of the stages; only `human` deals with terminals and colour.

mod code;
pub mod credentials;
mod detail;
mod edit;
mod escape;
mod excerpt;
pub mod fix;
mod format;
pub mod github;
pub mod gitlab;
pub mod human;
pub mod json;
pub mod markdown;
mod masking;
mod next_command;
mod note;
pub mod page;
pub mod placeholder_value;
mod position;
mod run;
#[cfg(test)]
mod samples;
pub mod sarif;
pub mod short;
pub mod source;
mod sparkline;
mod suggestion;
pub mod text;
mod truncate;
mod words;

pub use code::{
    Allowable, Code, Ends, FailureKind, FoundIn, Scope, Status, Supersedes, Tag, codes_that_explain, find,
};
pub use detail::{Detail, MissingNode};
pub use edit::{Edit, FileLine, Key, NodeStep, Op};
pub use escape::{escape_control_characters, escape_json, escape_line, escape_output, is_direction_mark};
pub use format::{Format, Options, render};
pub use next_command::{Help, HelpPart, Invocation, NextCommand};
pub use note::Note;
pub use position::Paths;
pub use run::{Counts, ManifestReport, ReportedProblem, Run};
pub use sparkline::sparkline;
pub use suggestion::Suggestion;

use crate::source::{SourceMap, Span};
use std::borrow::Cow;
use std::collections::BTreeMap;
use truncate::{HELP_LIMIT, MESSAGE_LIMIT, quote_empty, truncate_quotes};

/// The severity of a problem. Ordered: an error is greater than a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information, or a condition that only the account can answer.
    Note,
    /// May cost money or have an unexpected effect.
    Warning,
    /// Would be rejected, or cannot be computed.
    Error,
}

impl Severity {
    /// Returns `error`, `warning` or `note`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A secondary span of a problem, with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The span.
    pub span: Span,
    /// The text at the span, a lowercase fragment.
    pub text: String,
}

/// The prices behind the dollars that a problem states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Prices {
    /// It states no dollars.
    #[default]
    None,
    /// Those of the job's instances: their date is added to it.
    OfInstances,
    /// It names them itself.
    Named,
}

/// A problem: a code, the primary span, and texts.
///
/// The message is a lowercase fragment without a full stop, with the user's text in backticks; it states what
/// is expected and what was found. Help is something to type. Notes give the reason, or the source of a
/// number.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// The kind of problem.
    pub code: &'static Code,
    /// The severity, usually that of the code.
    pub severity: Severity,
    /// The primary span.
    pub span: Span,
    /// The text at the primary span; may be empty.
    pub label: String,
    /// The problem: what was expected and what was found. Outputs show [`Self::text`].
    pub message: String,
    /// The preferred instance type with which the job has the problem; `None` if it has it with the first.
    pub instance_type: Option<String>,
    /// The secondary spans.
    pub labels: Vec<Label>,
    /// Advice on what to type, only if it is certain.
    pub help: Option<Help>,
    /// The message without what depends on today's date, as artefacts have it; `None` if nothing does.
    pub undated: Option<String>,
    /// Reasons, or sources of numbers.
    pub notes: Vec<Note>,
    /// The prices behind the dollars in its texts.
    pub prices: Prices,
    /// What it knows beyond its words.
    pub detail: Option<Detail>,
    /// The facts for tools: names to values.
    pub facts: BTreeMap<&'static str, serde_json::Value>,
    /// An edit that fixes the problem.
    pub fix: Option<Fix>,
    /// The text at the primary span is a secret, which is never shown.
    pub secret: bool,
    /// The span of the value that the problem concerns, if it is not `span`.
    pub subject: Option<Span>,
    /// No `allow` accepts this error, although others of its code can be allowed.
    pub is_certain: bool,
}

/// The fact of an error that is certain because the service refuses the request.
const REFUSED_BY_SERVICE: &str = "refused_by_service";

/// A replacement of one span of a source, applied by `check --fix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The replaced span; empty to insert.
    pub span: Span,
    /// The new text.
    pub text: String,
}

impl Diagnostic {
    /// Makes a problem with the severity of its code. Long quoted text is truncated, here and below.
    pub fn new(code: &'static Code, span: Span, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity,
            span,
            label: String::new(),
            message: truncate_quotes(quote_empty(message.into()), MESSAGE_LIMIT),
            instance_type: None,
            labels: Vec::new(),
            help: None,
            undated: None,
            notes: Vec::new(),
            prices: Prices::None,
            detail: None,
            facts: BTreeMap::new(),
            fix: None,
            secret: false,
            is_certain: false,
            subject: None,
        }
    }

    /// Makes a problem whose message states the age of a price, given today in days since 1970. `write` is
    /// also called without a day, for artefacts, which must not change from day to day.
    pub fn dated(
        code: &'static Code,
        span: Span,
        today: Option<i64>,
        write: impl Fn(Option<i64>) -> String,
    ) -> Self {
        let undated = Self::new(code, span, write(None)).message;
        Self { undated: Some(undated), ..Self::new(code, span, write(today)) }
    }

    /// Returns whether a reader would take both for one problem: severity, code, place and words are equal.
    pub fn is_same_problem(&self, other: &Self) -> bool {
        self.span == other.span && self.has_same_words(other)
    }

    /// Returns whether severity, code and words are equal, wherever the problems are.
    pub fn has_same_words(&self, other: &Self) -> bool {
        (self.severity, self.code, &self.message, &self.instance_type)
            == (other.severity, other.code, &other.message, &other.instance_type)
    }

    /// Sets the instance type with which the job has the problem, if that is not the first preferred one.
    #[must_use]
    pub fn with_instance_type(mut self, name: &str) -> Self {
        self.instance_type = Some(name.to_owned());
        self
    }

    /// Returns the message as outputs show it, with the instance type that it is about.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.instance_type {
            Some(name) => format!("with `{name}`: {}", self.message).into(),
            None => self.message.as_str().into(),
        }
    }

    /// Sets the span of the value that the problem concerns, if it is not `span`: a problem of that value may
    /// supersede this one.
    #[must_use]
    pub fn subject(mut self, value: Span) -> Self {
        self.subject = Some(value);
        self
    }

    /// Marks an error that no `allow` accepts, although others of its code can be allowed.
    #[must_use]
    pub fn certain(mut self) -> Self {
        self.is_certain = true;
        self
    }

    /// Marks an error that the manifest allows, for the reason given.
    #[must_use]
    pub fn allowed(self, reason: &str) -> Self {
        self.detail(Detail::Allowed(reason.to_owned()))
    }

    /// Returns true for an error that the manifest allows.
    pub fn is_allowed(&self) -> bool {
        matches!(self.detail, Some(Detail::Allowed(_)))
    }

    /// Marks an error that no `allow` accepts because the service refuses the request.
    #[must_use]
    pub fn refused_by_service(self) -> Self {
        self.certain().fact(REFUSED_BY_SERVICE, true)
    }

    /// Marks the text at the primary span as a secret.
    #[must_use]
    pub fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Overrides the severity of the code.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Sets the text at the primary span.
    #[must_use]
    pub fn primary_label(mut self, text: impl Into<String>) -> Self {
        self.label = truncate_quotes(text.into(), MESSAGE_LIMIT);
        self
    }

    /// Moves the problem of something missing to the `#null` that took it away, if one did.
    #[must_use]
    pub fn removed_at(mut self, place: Option<Span>) -> Self {
        if let Some(place) = place {
            self.span = place;
            return self.primary_label("taken away here");
        }
        self
    }

    /// Adds a secondary span.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: truncate_quotes(text.into(), MESSAGE_LIMIT) });
        self
    }

    /// Sets the help.
    #[must_use]
    pub fn help(mut self, help: impl Into<Help>) -> Self {
        self.help = Some(help.into().map_text(|text| truncate_quotes(text, HELP_LIMIT)));
        self
    }

    /// Completes the commands in its help with the manifest and the flags of the command line.
    #[must_use]
    pub fn complete(mut self, invocation: &Invocation) -> Self {
        self.help = self.help.map(|help| help.fill_commands(invocation));
        self
    }

    /// Returns the problem as it is shown: no text of it contains a credential of the sources. An edit that
    /// contains one is left out, since its text would be applied masked.
    #[must_use]
    pub fn masked(&self, sources: &SourceMap) -> Self {
        let mask = |text: &String| sources.mask(text);
        Self {
            label: mask(&self.label),
            message: mask(&self.message),
            undated: self.undated.as_ref().map(mask),
            labels: self.labels.iter().map(|one| Label { text: mask(&one.text), ..one.clone() }).collect(),
            help: self.help.clone().map(|help| help.map_text(|text| mask(&text))),
            notes: self.notes.iter().cloned().map(|note| note.map_text(|text| mask(&text))).collect(),
            facts: self.facts.iter().map(|(name, fact)| (*name, mask_fact(fact, sources))).collect(),
            fix: self.fix.clone().filter(|fix| mask(&fix.text) == fix.text),
            ..self.clone()
        }
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<Note>) -> Self {
        let note = note.into().map_text(|text| truncate_quotes(text, HELP_LIMIT));
        self.prices = self.prices.max(note.prices());
        self.notes.push(note);
        self
    }

    /// Says by which prices its message, its help and its notes state dollars.
    #[must_use]
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = self.prices.max(prices);
        self
    }

    /// Sets what it knows beyond its words, also as facts for tools.
    #[must_use]
    pub fn detail(mut self, detail: Detail) -> Self {
        self.facts.extend(detail.facts());
        self.detail = Some(detail);
        self
    }

    /// Adds a fact for tools.
    #[must_use]
    pub fn fact(mut self, name: &'static str, value: impl Into<serde_json::Value>) -> Self {
        self.facts.insert(name, value.into());
        self
    }

    /// Sets the edit that fixes the problem.
    #[must_use]
    pub fn fix(mut self, span: Span, text: impl Into<String>) -> Self {
        self.fix = Some(Fix { span, text: text.into() });
        self
    }
}

/// Masks the texts of a fact.
fn mask_fact(fact: &serde_json::Value, sources: &SourceMap) -> serde_json::Value {
    use serde_json::Value;
    match fact {
        Value::String(text) => Value::String(sources.mask(text)),
        Value::Array(items) => items.iter().map(|item| mask_fact(item, sources)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, item)| (name.clone(), mask_fact(item, sources))).collect()
        }
        other => other.clone(),
    }
}

/// The problems that the stages report.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    list: Vec<Diagnostic>,
}

impl Problems {
    /// Reports a problem.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// Returns the number of errors.
    pub fn errors(&self) -> usize {
        self.list.iter().filter(|d| d.severity == Severity::Error).count()
    }

    /// Returns the number of warnings.
    pub fn warnings(&self) -> usize {
        self.list.iter().filter(|d| d.severity == Severity::Warning).count()
    }

    /// Returns whether there are no problems.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Iterates over all problems.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Adds the dates of the instances' prices to each problem that states dollars by them.
    pub fn add_price_sources(&mut self, sources: &[Note]) {
        for problem in self.list.iter_mut().filter(|one| one.prices == Prices::OfInstances) {
            problem.notes.extend_from_slice(sources);
        }
    }

    /// Removes what depends on today's date: whole problems, and the age of prices in the others.
    pub fn remove_dated(&mut self) {
        self.list.retain(|problem| !problem.code.has(Tag::Dated));
        for problem in &mut self.list {
            if let Some(undated) = problem.undated.take() {
                problem.message = undated;
            }
            problem.notes.iter_mut().for_each(Note::remove_age);
        }
    }

    /// Calls `change` with each problem.
    pub fn update(&mut self, change: impl FnMut(&mut Diagnostic)) {
        self.list.iter_mut().for_each(change);
    }

    /// Keeps the problems that pass the test.
    pub fn retain(&mut self, keep: impl FnMut(&Diagnostic) -> bool) {
        self.list.retain(keep);
    }

    /// Completes the commands in every help with the manifest and the flags of the command line.
    #[must_use]
    pub fn complete(self, invocation: &Invocation) -> Self {
        Self { list: self.list.into_iter().map(|problem| problem.complete(invocation)).collect() }
    }

    /// Adds a problem, if there is one.
    pub fn extend_with(&mut self, problem: Option<Diagnostic>) {
        self.list.extend(problem);
    }

    /// Adds the problems of another stage.
    pub fn extend(&mut self, other: Self) {
        self.list.extend(other.list);
    }

    /// Sorts by span, then code, and removes duplicates.
    pub fn sort(&mut self) {
        self.list.sort_by(|a, b| {
            let key = |one: &Diagnostic| (one.span, one.code.id, std::cmp::Reverse(one.severity));
            key(a).cmp(&key(b)).then_with(|| a.text().cmp(&b.text()))
        });
        self.list.dedup_by(|a, b| a.is_same_problem(b));
    }
}
