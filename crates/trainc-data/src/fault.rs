//! What can be wrong with training data. Each fault becomes a diagnostic at its line.

use trainc_diag::declare_code;
use trainc_diag::source::{SourceId, Span};
use trainc_diag::{Code, Diagnostic};

declare_code!(
    T0520,
    "invalid-data-line",
    Error,
    "a line of training data that is not a JSON object",
    found_in: Data
);
declare_code!(
    T0521,
    "data-fields-missing",
    Error,
    "a line of training data without the fields of a document",
    found_in: Data
);
declare_code!(
    T0522,
    "chat-template-unusable",
    Error,
    "a chat template that is missing, unreadable or rejects a conversation",
    found_in: Data
);
declare_code!(T0523, "tokenizer-unreadable", Error, "a tokenizer file that cannot be read", found_in: Data);
declare_code!(
    T0524,
    "unknown-eos-token",
    Error,
    "an end-of-document token that the tokenizer does not have",
    found_in: Data
);
declare_code!(T0525, "nothing-to-pack", Error, "too little data for one sequence", found_in: Data);
declare_code!(
    T0526,
    "answers-not-found",
    Error,
    "a template whose answers cannot be separated from the rest",
    found_in: Data
);
declare_code!(T0690, "document-too-large", Error, "a document over 8 MiB in training data", found_in: Data);
declare_code!(
    T0770,
    "tokenization-failed",
    Error,
    "a document that the tokenizer cannot tokenize",
    found_in: Data
);
declare_code!(
    T0527,
    "token-outside-vocabulary",
    Error,
    "a token outside the model's vocabulary",
    found_in: Data
);

/// The codes of this file.
pub(super) static CODES: &[&Code] =
    &[&T0520, &T0521, &T0522, &T0523, &T0524, &T0525, &T0526, &T0527, &T0690, &T0770];

/// One thing that is wrong, before it has a place in a file.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which situation.
    pub code: &'static Code,
    /// What is wrong.
    pub message: String,
    /// Byte of the line (or of the file) to point at, and how many.
    pub at: (usize, usize),
    /// Something to type.
    pub help: Option<String>,
    /// Why.
    pub note: Option<String>,
}

impl Fault {
    /// A fault of the whole line.
    pub fn new(code: &'static Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), at: (0, 0), help: None, note: None }
    }

    /// Points at bytes of the line.
    #[must_use]
    pub fn at(mut self, start: usize, len: usize) -> Self {
        self.at = (start, len);
        self
    }

    /// Says what to type.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// Says why.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.note = Some(text.into());
        self
    }

    /// The diagnostic, given where the line begins in its source.
    pub fn diagnostic(self, source: SourceId, line_start: usize) -> Diagnostic {
        let start = line_start + self.at.0;
        let mut out = Diagnostic::new(self.code, Span::new(source, start, start + self.at.1), self.message);
        if let Some(help) = self.help {
            out = out.help(help);
        }
        if let Some(note) = self.note {
            out = out.note(note);
        }
        out
    }
}
