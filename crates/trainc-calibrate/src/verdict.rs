//! What a judged table comes to: plain data, as `calibrate -o json` prints it.

use super::noise::Noise;
use super::open::{Open, Ratio};
use super::outside::{AtBound, Outside};
use super::questions::Answer;
use serde::Serialize;
use std::collections::BTreeMap;
use trainc_predict::Speed;

/// A table judged, as `calibrate -o json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Of the output's format.
    pub format_version: &'static str,
    /// A line for each row.
    pub rows: Vec<Line>,
    /// Rows whose micro-batch is open, as ranges: calibration, not evidence, and in no error.
    pub open: Vec<Open>,
    /// How many times as fast one of them is as another of the same training.
    pub open_ratios: Vec<Ratio>,
    /// Published figures whose sources leave more open than that, as ranges by the constants that judged the table:
    /// calibration, not evidence, and in no error.
    pub questions: Vec<Answer>,
    /// Constants that judged it and lie outside of what is physical.
    pub constants_outside: Vec<Outside>,
    /// Constants that a fit to the table pushed to an end of what is physical; none where nothing was fitted.
    pub constants_at_bounds: Vec<AtBound>,
    /// All rows together.
    pub summary: Summary,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Its name.
    pub id: String,
    /// Its family.
    pub family: String,
    /// What of it the fit did not see; null when nothing was fitted.
    pub tier: Option<&'static str>,
    /// Seconds of a step.
    pub step_seconds: Option<Time>,
    /// Bytes of a GPU.
    pub peak_memory_bytes: Option<Bytes>,
    /// Whether it ran out of memory.
    pub oom: bool,
    /// Whether it is predicted to fit.
    pub fits: Option<bool>,
    /// Why nothing of it can be judged.
    pub skipped: Option<String>,
    /// Where the row lies outside its interval, or is wrong about memory: what is missed, and what is known to be missing in
    /// the model for that.
    pub missing: Option<String>,
}

impl Line {
    /// Whether a measurement lies outside its interval, or fits and is predicted not to, or the other way round.
    pub fn is_outside(&self) -> bool {
        !self.missed().is_empty()
    }
}

/// A step's time.
#[derive(Clone, Debug, Serialize)]
pub struct Time {
    /// As the source has it.
    pub measured: f64,
    /// As the model has it.
    pub predicted: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Predicted over measured, less one.
    pub error: f64,
    /// What the prediction is made of, the largest part first; what is nothing is left out.
    pub parts: Vec<Part>,
}

/// A part of a predicted step.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// Its share of the step, a fraction.
    pub share: f64,
}

impl Part {
    /// Those of a step.
    pub(super) fn of(speed: &Speed) -> Vec<Self> {
        let parts = &speed.parts;
        let mut out: Vec<Self> = [
            ("compute", parts.compute),
            ("waits for links", parts.exposed_communication),
            ("bubble", parts.bubble),
            ("offload", parts.offload),
            ("optimizer", parts.optimizer),
            ("waits for data", parts.input.unwrap_or(0.0)),
        ]
        .into_iter()
        .filter(|(_, seconds)| *seconds > 0.0)
        .map(|(name, seconds)| Self { name, share: seconds / speed.step_seconds })
        .collect();
        out.sort_by(|a, b| b.share.total_cmp(&a.share));
        out
    }
}

/// A GPU's peak.
#[derive(Clone, Debug, Serialize)]
pub struct Bytes {
    /// As the source has it.
    pub measured: f64,
    /// As the model has it, of the same kind.
    pub predicted: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Predicted over measured, less one.
    pub error: f64,
}

impl Bytes {
    /// A peak with its interval: so much below and above the prediction, fractions of it.
    pub(super) fn between(measured: f64, predicted: f64, (below, above): (f64, f64)) -> Self {
        Self {
            measured,
            predicted,
            low: predicted * (1.0 - below),
            high: predicted * (1.0 + above),
            error: predicted / measured - 1.0,
        }
    }
}

/// Errors of many rows, absolute fractions.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Errors {
    /// How many rows.
    pub rows: usize,
    /// Mean.
    pub mean_error: Option<f64>,
    /// Median.
    pub median_error: Option<f64>,
    /// The ninth decile.
    pub p90_error: Option<f64>,
    /// Share of the rows whose measurement lies inside the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside_interval: Option<f64>,
}

/// Rows that ran out of memory.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ooms {
    /// How many ran out, of those that can be judged.
    pub rows: usize,
    /// Of them, how many are predicted not to fit.
    pub caught: usize,
    /// Rows that ran and are predicted not to fit.
    #[serde(rename = "false")]
    pub wrong: usize,
    /// Rows that ran, of those that can be judged.
    pub ran: usize,
}

/// All rows together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Step times.
    pub step_seconds: Errors,
    /// Step times with every family weighing alike: the mean of the families' means.
    pub step_seconds_families: Option<f64>,
    /// Peaks.
    pub peak_memory_bytes: Errors,
    /// Peaks by constants of memory that were fitted without their source, where there are enough of them.
    pub peak_memory_left_out: Option<PeaksLeftOut>,
    /// Rows that ran out of memory.
    pub oom: Ooms,
    /// Median half-width of the step times' intervals, a fraction of the prediction.
    pub interval_half_width: Option<f64>,
    /// The half-width, a natural logarithm, that the residuals of models and sources that were left out ask for; what is
    /// written is capped at [`MOST`](super::tiers::MOST).
    pub residual_half_width: Option<f64>,
    /// Step times and peaks by family.
    pub by_family: BTreeMap<String, Family>,
    /// Step times by tier, where something was fitted.
    pub by_tier: BTreeMap<&'static str, Tiered>,
    /// How far apart the source's own measurements of one layout lie.
    pub noise: Noise,
    /// The same of their peaks.
    pub noise_of_memory: Noise,
    /// Rows that could not be judged.
    pub skipped: usize,
}

/// Errors of peaks whose whole source the fit of the memory constants did not see.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PeaksLeftOut {
    /// All rows.
    pub all: Errors,
    /// Every family weighing alike.
    pub families: Option<f64>,
    /// By family.
    pub by_family: BTreeMap<String, Errors>,
}

/// One family.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Family {
    /// Step times.
    pub step_seconds: Errors,
    /// Peaks.
    pub peak_memory_bytes: Errors,
}

/// One tier: errors of rows that the fit did not see.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tiered {
    /// All rows.
    pub step_seconds: Errors,
    /// Every family weighing alike.
    pub families: Option<f64>,
    /// How wide its intervals are and would have to be.
    pub half_width: HalfWidth,
    /// By family.
    pub by_family: BTreeMap<String, Errors>,
    /// The groups that the tier has goals for.
    pub by_group: BTreeMap<&'static str, Grouped>,
}

/// Half-widths of a tier's intervals, fractions of the prediction.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct HalfWidth {
    /// The median of those that are shown.
    pub median: Option<f64>,
    /// What nine rows in ten keep to.
    pub asked: Option<f64>,
    /// What it is to be at most.
    pub goal: Option<f64>,
    /// Share of the rows that the interval of a setting that was fitted would hold, where a wider one is shown.
    pub inside_of_seen: Option<f64>,
}

/// Rows that one goal is set for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Grouped {
    /// How many rows.
    pub rows: usize,
    /// Its families.
    pub by_family: BTreeMap<String, Errors>,
    /// Mean absolute error, every family weighing alike.
    pub mean_error: Option<f64>,
    /// What it is to be at most.
    pub goal: Option<f64>,
    /// Whether it is.
    pub met: Option<bool>,
    /// Where it is not: the families that are further off than it, the worst first.
    pub over: Vec<Over>,
    /// How far apart the sources' own measurements of one layout lie.
    pub noise: Noise,
}

/// A family that keeps a group from its goal.
#[derive(Clone, Debug, Serialize)]
pub struct Over {
    /// Its name.
    pub family: String,
    /// Its rows with the error of each, a fraction, the furthest off first.
    pub rows: Vec<(String, f64)>,
    /// The physics that is missing, as far as it is known.
    pub missing: Option<&'static str>,
}
