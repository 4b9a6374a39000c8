//! Impossible figures in the lines of a log. Such a line is ignored.

use trainc_diag::text;

/// An impossible figure, at its first line.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Index of the log, from 0.
    pub log: usize,
    /// The line, from 1.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// The wrong figure as written.
    pub cell: String,
    /// Description: a lowercase fragment.
    pub message: String,
    /// Possible cause, if known.
    pub note: Option<&'static str>,
    /// Number of lines with the same fault.
    pub lines: usize,
    kind: (String, &'static str),
}

/// An impossible figure without its line.
#[derive(Clone, Debug)]
pub(super) struct Wrong {
    name: String,
    kind: &'static str,
    cell: String,
    message: String,
    note: Option<&'static str>,
}

impl Wrong {
    /// Returns the fault of a rate or time that is not above 0.
    pub(super) fn not_positive(name: &str, cell: &str, value: f64) -> Option<Self> {
        (!value.is_finite() || value <= 0.0).then(|| Self {
            name: name.to_owned(),
            kind: "amount",
            cell: cell.to_owned(),
            message: format!("`{name}` is `{}`, not a number above 0", number_as_written(cell, value)),
            note: None,
        })
    }

    /// Returns the fault of an MFU above 1.
    pub(super) fn mfu_above_one(name: &str, cell: &str, share: f64) -> Option<Self> {
        (share > 1.0).then(|| Self {
            name: name.to_owned(),
            kind: "whole",
            cell: cell.to_owned(),
            message: format!(
                "`{name}` would be {} %, more than 100 % of the peak",
                text::short_number(100.0 * share)
            ),
            note: None,
        })
    }

    /// Returns the fault of a step below the last one.
    pub(super) fn step_backwards(name: &str, cell: &str, step: u64, last: u64) -> Option<Self> {
        (step < last).then(|| Self {
            name: name.to_owned(),
            kind: "backwards",
            cell: cell.to_owned(),
            message: format!("step {} follows step {}", text::group_digits(step), text::group_digits(last)),
            note: Some(
                "a run that resumed from a checkpoint, or restarts its count each epoch, logs \
                    lower steps: the time since the previous line is not a step time",
            ),
        })
    }
}

/// Returns the number as written.
fn number_as_written(cell: &str, value: f64) -> String {
    // A job's own expression may match more than the number.
    let number = cell.rsplit(['=', ':', ' ']).next().unwrap_or_default().trim();
    if number.parse::<f64>().is_ok() { number.to_owned() } else { text::short_number(value) }
}

/// Position of the reader, and faults so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Number of logs so far.
    pub(super) logs: usize,
    /// Current line, from 1.
    pub(super) line: usize,
    /// Its text.
    pub(super) text: String,
    pub(super) found: Vec<Fault>,
}

impl Faults {
    /// Starts the next log.
    pub(super) fn begin_log(&mut self) {
        self.logs += 1;
        self.line = 0;
    }

    /// Starts the next line.
    pub(super) fn begin_line(&mut self, text: &str) {
        self.line += 1;
        self.text.clear();
        self.text.push_str(text);
    }

    /// Returns a JSON member as written in the line.
    pub(super) fn member_as_written(&self, name: &str, value: &serde_json::Value) -> String {
        let spaced = [format!("\"{name}\": {value}"), format!("\"{name}\":{value}")];
        let there = spaced.into_iter().find(|cell| self.text.contains(cell.as_str()));
        there.unwrap_or_else(|| value.to_string())
    }

    /// Records a fault of the line: the first of its kind is kept, the others are counted.
    pub(super) fn record_fault(&mut self, wrong: Wrong) {
        let kind = (wrong.name, wrong.kind);
        if let Some(known) = self.found.iter_mut().find(|one| one.kind == kind) {
            known.lines += 1;
            return;
        }
        self.found.push(Fault {
            log: self.logs.saturating_sub(1),
            line: self.line.max(1),
            text: self.text.clone(),
            cell: wrong.cell,
            message: wrong.message,
            note: wrong.note,
            lines: 1,
            kind,
        });
    }
}
