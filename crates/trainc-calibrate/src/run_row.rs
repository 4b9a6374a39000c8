//! Cells of one row of a table of runs.

use std::collections::BTreeMap;

/// A row's cells by column; empty ones are omitted.
pub(super) struct RunRow<'a> {
    pub(super) cells: BTreeMap<&'a str, &'a str>,
    /// Micro-batch size to assume if the row gives none.
    pub(super) micro_batch: Option<f64>,
}

impl<'a> RunRow<'a> {
    pub(super) fn new(cells: BTreeMap<&'a str, &'a str>) -> Self {
        Self { cells, micro_batch: None }
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.cells.get(name).copied().unwrap_or_default()
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.text(name).parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
    }

    /// Returns a number above 0, or an error that names the cell.
    pub(super) fn positive(&self, name: &str) -> Result<f64, String> {
        self.number(name).filter(|value| *value > 0.0).ok_or_else(|| {
            self.describe_invalid_number(name).unwrap_or_else(|| format!("`{name}` is missing"))
        })
    }

    /// Describes a non-empty cell that is not a number above 0.
    pub(super) fn describe_invalid_number(&self, name: &str) -> Option<String> {
        let written = self.text(name);
        let is_positive = self.number(name).is_some_and(|value| value > 0.0);
        (!written.is_empty() && !is_positive)
            .then(|| format!("`{name}` is `{written}`, not a number above 0"))
    }
}
