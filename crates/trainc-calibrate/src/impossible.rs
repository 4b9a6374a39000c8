//! Rows of a table and lines of a log that are physically impossible. One of them would move the constants of
//! every later plan, so it is omitted and reported.

use super::run_row::RunRow;
use trainc_diag::declare_code;
use trainc_diag::source::{SourceId, Span};
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic};

declare_code!(
    T0528,
    "impossible-measurement",
    Warning,
    "a measurement that is physically impossible",
    found_in: Measurements
);

/// Codes of this stage.
pub(super) static CODES: &[&Code] = &[&T0528];

/// Fault of a row, with its cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Impossible {
    /// Name of the row.
    pub id: String,
    /// Column.
    pub column: &'static str,
    /// Description: a lowercase fragment.
    pub message: String,
    pub(super) help: Option<String>,
    /// Bytes of the cell in the table's text.
    pub(super) place: (usize, usize),
}

impl Impossible {
    pub(super) fn new(row: &RunRow, column: &'static str, message: String) -> Self {
        Self { id: row.text("id").to_owned(), column, message, help: None, place: (0, 0) }
    }

    /// Returns the diagnostic in the source that the table was read from.
    pub fn diagnostic(&self, source: SourceId) -> Diagnostic {
        let (start, end) = self.place;
        let found = Diagnostic::new(&T0528, Span::new(source, start, end), self.message.clone())
            .note(format!("row `{}` is ignored: it would distort the fitted constants", self.id))
            .fact("id", self.id.clone())
            .fact("column", self.column);
        match &self.help {
            Some(help) => found.help(help.clone()),
            None => found,
        }
    }
}

/// Returns the diagnostic of an impossible line of a log that occurs `lines` times; `note` gives a possible
/// cause.
pub fn impossible_line(span: Span, message: String, note: Option<&str>, lines: usize) -> Diagnostic {
    let ignored = match lines {
        1 => "this line is ignored".to_owned(),
        _ => format!("{} like this one are ignored", text::count(lines as u64, "line")),
    };
    let found = Diagnostic::new(&T0528, span, message).note(ignored);
    match note {
        Some(note) => found.note(note.to_owned()),
        None => found,
    }
}
