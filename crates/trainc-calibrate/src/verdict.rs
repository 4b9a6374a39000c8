//! Predicted against measured runs: plain data, as `calibrate -o json` prints it.

use super::bounds::{AtBound, OutOfRange};
use super::errors::{Errors, FamilyErrors};
use super::unknown_micro_batch::StepRange;
use serde::Serialize;
use std::collections::BTreeMap;
use trainc_predict::Speed;

/// Verdict on a table, as `calibrate -o json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Version of the output format.
    pub format_version: &'static str,
    /// One verdict per row.
    pub rows: Vec<RowVerdict>,
    /// Rows without a micro-batch, as ranges: calibration, not evidence, and in no error.
    #[serde(rename = "open")]
    pub step_ranges: Vec<StepRange>,
    /// Constants used for the predictions that lie outside the range of their source.
    #[serde(rename = "constants_outside")]
    pub constants_out_of_range: Vec<OutOfRange>,
    /// Constants that the fit moved to a physical bound; empty if nothing was fitted.
    pub constants_at_bounds: Vec<AtBound>,
    /// All rows together.
    pub summary: Summary,
}

/// Verdict on a row.
#[derive(Clone, Debug, Serialize)]
pub struct RowVerdict {
    /// Name.
    pub id: String,
    /// Family.
    pub family: String,
    /// Tier of the held-out prediction; null if nothing was fitted.
    pub tier: Option<&'static str>,
    /// Seconds per step.
    pub step_seconds: Option<StepTime>,
    /// Bytes of a GPU.
    pub peak_memory_bytes: Option<PeakMemory>,
    /// True if the run ran out of memory.
    pub oom: bool,
    /// True if the run is predicted to fit.
    pub fits: Option<bool>,
    /// Reason why the row cannot be judged.
    pub skipped: Option<String>,
}

/// Predicted and measured step time.
#[derive(Clone, Debug, Serialize)]
pub struct StepTime {
    /// Measured.
    pub measured: f64,
    /// Predicted.
    pub predicted: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Predicted over measured, minus one.
    pub error: f64,
    /// Parts of the predicted step, the largest first, without empty ones.
    pub parts: Vec<StepShare>,
}

impl StepTime {
    /// Returns true if the measurement lies inside the interval.
    pub fn is_inside(&self) -> bool {
        (self.low..=self.high).contains(&self.measured)
    }

    /// Returns the half-width of the interval as a fraction of the prediction.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.predicted
    }
}

/// A part of a predicted step.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StepShare {
    /// Name.
    pub name: &'static str,
    /// Share of the step, a fraction.
    pub share: f64,
}

impl StepShare {
    /// Returns the parts of a step, the largest first.
    pub(super) fn from_speed(speed: &Speed) -> Vec<Self> {
        let parts = &speed.parts;
        let mut out: Vec<Self> = [
            ("compute", parts.compute),
            ("exposed communication", parts.exposed_communication),
            ("bubble", parts.bubble),
            ("offload", parts.offload),
            ("optimizer", parts.optimizer),
            ("data loading", parts.input.unwrap_or(0.0)),
        ]
        .into_iter()
        .filter(|(_, seconds)| *seconds > 0.0)
        .map(|(name, seconds)| Self { name, share: seconds / speed.step_seconds })
        .collect();
        out.sort_by(|a, b| b.share.total_cmp(&a.share));
        out
    }
}

/// Predicted and measured peak memory of a GPU.
#[derive(Clone, Debug, Serialize)]
pub struct PeakMemory {
    /// Measured.
    pub measured: f64,
    /// Predicted for the same instrument.
    pub predicted: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Predicted over measured, minus one.
    pub error: f64,
}

impl PeakMemory {
    /// Builds the interval from its ends below and above the prediction, fractions of it.
    pub fn new(measured: f64, predicted: f64, (below, above): (f64, f64)) -> Self {
        Self {
            measured,
            predicted,
            low: predicted * (1.0 - below),
            high: predicted * (1.0 + above),
            error: predicted / measured - 1.0,
        }
    }

    /// Returns true if the measurement lies inside the interval.
    pub fn is_inside(&self) -> bool {
        (self.low..=self.high).contains(&self.measured)
    }
}

/// Counts of out-of-memory failures and of predictions about them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct OutOfMemoryCounts {
    /// Runs that ran out of memory, of those that can be judged.
    pub rows: usize,
    /// Of these, runs that are predicted not to fit.
    pub caught: usize,
    /// Runs that ran and are predicted not to fit.
    #[serde(rename = "false")]
    pub wrong: usize,
    /// Runs that ran, of those that can be judged.
    pub ran: usize,
}

/// Errors of all rows.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Step times.
    pub step_seconds: Errors,
    /// Mean of the families' mean errors of step times.
    pub step_seconds_families: Option<f64>,
    /// Peaks of memory.
    pub peak_memory_bytes: Errors,
    /// Out-of-memory failures.
    pub oom: OutOfMemoryCounts,
    /// Median half-width of the intervals of step times, a fraction of the prediction.
    pub interval_half_width: Option<f64>,
    /// Step times and peaks by family.
    pub by_family: BTreeMap<String, FamilyErrors>,
    /// Held-out step times by tier; empty if nothing was fitted.
    pub by_tier: BTreeMap<&'static str, TierErrors>,
    /// Rows that could not be judged.
    pub skipped: usize,
}

/// Errors of held-out step times.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TierErrors {
    /// All rows.
    pub step_seconds: Errors,
    /// Mean of the families' mean errors.
    pub families: Option<f64>,
    /// By family.
    pub by_family: BTreeMap<String, Errors>,
}
