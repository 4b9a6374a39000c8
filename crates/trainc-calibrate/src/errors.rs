//! Statistics of errors.

use serde::Serialize;
use std::fmt;

/// Statistics of the absolute errors of several rows, fractions.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Errors {
    /// Number of rows.
    pub rows: usize,
    /// Mean.
    pub mean_error: Option<f64>,
    /// Median.
    pub median_error: Option<f64>,
    /// 90 % quantile.
    pub p90_error: Option<f64>,
    /// Share of the rows whose measurement lies inside the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside_interval: Option<f64>,
}

impl Errors {
    /// Summarises errors, each with true if the measurement lies inside the interval.
    pub fn new(rows: impl IntoIterator<Item = (f64, bool)>) -> Self {
        let (mut errors, inside): (Vec<f64>, Vec<bool>) =
            rows.into_iter().map(|(error, is_inside)| (error.abs(), is_inside)).unzip();
        let count = inside.iter().filter(|is_inside| **is_inside).count() as f64;
        Self {
            rows: errors.len(),
            mean_error: mean(errors.iter().copied()),
            median_error: quantile(&mut errors, 0.5),
            p90_error: quantile(&mut errors, 0.9),
            inside_interval: (!inside.is_empty()).then(|| count / inside.len() as f64),
        }
    }
}

/// Formats them as `381 rows, mean 5.7 %, median 3.9 %, 90 % within 12.0 %, 96.1 % inside their intervals`.
impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let figure = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), percent);
        write!(
            f,
            "{:>3} rows, mean {}, median {}, 90 % within {}",
            self.rows,
            figure(self.mean_error),
            figure(self.median_error),
            figure(self.p90_error)
        )?;
        match self.inside_interval {
            Some(inside) => write!(f, ", {} inside their intervals", percent(inside)),
            None => Ok(()),
        }
    }
}

/// Errors of a family.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FamilyErrors {
    /// Step times.
    pub step_seconds: Errors,
    /// Peaks of memory.
    pub peak_memory_bytes: Errors,
}

/// Formats a fraction as `12.3 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns the mean; `None` without values.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0_u32, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / f64::from(n))
}

/// Sorts the values and returns a quantile; `None` without values.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index into a list")]
pub fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = ((values.len().checked_sub(1)?) as f64 * share).round() as usize;
    values.get(at).copied()
}
