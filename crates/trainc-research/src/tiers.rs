//! Held-out errors of a tier.

use trainc_calibrate::errors::{mean, quantile};
use trainc_calibrate::held_out::{HeldOut, Tier};
use trainc_calibrate::judge::tier_errors;
use trainc_calibrate::verdict::{StepTime, TierErrors};
use trainc_predict::Constants;

/// Returns what a tier holds out with a row.
pub fn scope(tier: Tier) -> &'static str {
    match tier {
        Tier::A => "a fifth of the rows of each source held out",
        Tier::B => "one model shape of a source held out",
        Tier::C => "a whole source held out",
        Tier::D => "a whole source and its models held out",
    }
}

/// Errors of a tier.
#[derive(Clone, Debug)]
pub struct TierReport {
    /// Errors overall and by family.
    pub errors: TierErrors,
    /// Median half-width of the intervals, a fraction of the prediction.
    pub median_half_width: Option<f64>,
    /// Half-width that would contain 90 % of the rows, a fraction of the prediction.
    pub required_half_width: Option<f64>,
    /// Held-out step times with the intervals that a plan would show.
    pub times: Vec<(String, StepTime)>,
}

/// Errors of some sources in a tier.
#[derive(Clone, Copy, Debug)]
pub struct SourceErrors {
    /// Number of rows.
    pub rows: usize,
    /// Mean absolute error.
    pub mean: f64,
    /// Mean error.
    pub bias: f64,
    /// Mean of the sources' mean absolute errors.
    pub sources: f64,
    /// Share of the rows inside their intervals.
    pub inside: f64,
    /// Median half-width, a fraction of the prediction.
    pub half_width: f64,
}

impl TierReport {
    /// Evaluates a tier, with the intervals of these constants.
    pub fn new(tier: Tier, held_out: &HeldOut, constants: &Constants) -> Self {
        let times = held_out.times(tier, constants);
        let mut shown: Vec<f64> = times.iter().map(|one| one.time.half_width()).collect();
        let mut required: Vec<f64> =
            times.iter().map(|one| (one.time.predicted / one.time.measured).ln().abs().sinh()).collect();
        Self {
            errors: tier_errors(&times),
            median_half_width: quantile(&mut shown, 0.5),
            required_half_width: quantile(&mut required, 0.9),
            times: times.into_iter().map(|one| (one.family.to_owned(), one.time)).collect(),
        }
    }

    /// Returns the errors of these sources; `None` if they have no row.
    pub fn of_sources(&self, sources: &[&str]) -> Option<SourceErrors> {
        let times = || {
            self.times.iter().filter(|(family, _)| sources.contains(&family.as_str())).map(|(_, time)| time)
        };
        let share = |of: fn(&StepTime) -> f64| mean(times().map(of));
        let by_source = sources.iter().filter_map(|source| self.errors.by_family.get(*source)?.mean_error);
        Some(SourceErrors {
            rows: times().count(),
            mean: share(|time| time.error.abs())?,
            bias: share(|time| time.error)?,
            sources: mean(by_source)?,
            inside: share(|time| if time.is_inside() { 1.0 } else { 0.0 })?,
            half_width: quantile(&mut times().map(StepTime::half_width).collect::<Vec<_>>(), 0.5)?,
        })
    }
}
