//! Lines of a log whose figures cannot be. Each is left out of what the run is said to have measured.

use trainc_diag::text;

/// What cannot be, at the first line that says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Which of the logs that were read, from 0.
    pub log: usize,
    /// The line, from 1.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// What of it is wrong, as it stands there.
    pub cell: String,
    /// What is wrong: a lowercase fragment.
    pub message: String,
    /// Why it may be so, where that is known.
    pub note: Option<&'static str>,
    /// Lines of which the same is wrong, this one among them.
    pub lines: usize,
    kind: (String, &'static str),
}

/// A figure that cannot be, on its way to its line.
#[derive(Clone, Debug)]
pub(super) struct Wrong {
    name: String,
    kind: &'static str,
    cell: String,
    message: String,
    note: Option<&'static str>,
}

impl Wrong {
    /// A rate or a time that is none; `None` where it is one.
    pub(super) fn amount(name: &str, cell: &str, value: f64) -> Option<Self> {
        (!value.is_finite() || value <= 0.0).then(|| Self {
            name: name.to_owned(),
            kind: "amount",
            cell: cell.to_owned(),
            message: format!("`{name}` is `{}`, not a number above 0", written(cell, value)),
            note: None,
        })
    }

    /// An MFU above the whole, as a fraction.
    pub(super) fn mfu(name: &str, cell: &str, share: f64) -> Option<Self> {
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

    /// A step before the one that was reported last.
    pub(super) fn backwards(name: &str, cell: &str, step: u64, last: u64) -> Option<Self> {
        (step < last).then(|| Self {
            name: name.to_owned(),
            kind: "backwards",
            cell: cell.to_owned(),
            message: format!(
                "step {} follows step {}",
                text::group_digits(step),
                text::group_digits(last)
            ),
            note: Some(
                "a run that resumed from a checkpoint, or restarts its count each epoch, logs lower steps: the time since the previous line is not a step time",
            ),
        })
    }
}

/// The number as it stands behind the name.
fn written(cell: &str, value: f64) -> String {
    // Behind a job's own expression there may be more than the number.
    let number = cell.rsplit(['=', ':', ' ']).next().unwrap_or_default().trim();
    if number.parse::<f64>().is_ok() { number.to_owned() } else { text::short_number(value) }
}

/// Where in what logs the reader is, and what was wrong so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Logs that were begun.
    pub(super) logs: usize,
    /// The line that is read, from 1.
    pub(super) line: usize,
    /// Its text, as it stands in the log.
    pub(super) text: String,
    pub(super) found: Vec<Fault>,
}

impl Faults {
    /// The next log begins.
    pub(super) fn begin(&mut self) {
        self.logs += 1;
        self.line = 0;
    }

    /// The next line is read.
    pub(super) fn next(&mut self, text: &str) {
        self.line += 1;
        self.text.clear();
        self.text.push_str(text);
    }

    /// A member of JSON as it stands in the line.
    pub(super) fn member(&self, name: &str, value: &serde_json::Value) -> String {
        let spaced = [format!("\"{name}\": {value}"), format!("\"{name}\":{value}")];
        let there = spaced.into_iter().find(|cell| self.text.contains(cell.as_str()));
        there.unwrap_or_else(|| value.to_string())
    }

    /// What of the line is wrong: the first of its kind is kept, the others are counted.
    pub(super) fn say(&mut self, wrong: Wrong) {
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
