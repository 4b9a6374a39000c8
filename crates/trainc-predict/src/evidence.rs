//! Measured runs of the user, and predictions conditioned on them.
//!
//! The logarithm of measured over predicted step time is a Gaussian process over the features of a layout
//! (Rasmussen and Williams 2006, chapter 2). Its standard deviation is that of the interval without these
//! runs, so that a run moves a layout as much as their errors have causes in common ([`Features`]), and
//! repeated runs of one layout show how much of an error is chance.

mod features;
mod finished;

pub use finished::FinishedRun;

use super::constants::Constants;
use super::layout::Layout;
use super::speed;
use features::Features;
use std::sync::Arc;
use trainc_ir::Plan;

/// Standard deviations from the middle to the ends of a 90 % interval of a normal distribution.
const NINE_IN_TEN: f64 = 1.645;

/// Standard deviation of the logarithm of the step time of repeated runs, as long as too few of them show it:
/// runs of one layout on one cluster differ by up to 7.6 % (BLOOM, 23 and 26 February 2022), 0.037 around
/// their middle, and by 1.8 % at four vendors of one machine (MLPerf Training 5.0).
const REPEATED: f64 = 0.03;

/// Number of runs that [`REPEATED`] counts as when runs show their own spread (assumed).
const REPEATED_RUNS: f64 = 2.0;

/// Standard deviation of the change of a step time with another image: half a year of software changed that
/// of one layout by 18 % (MLPerf Training 5.0 and 5.1, LoRA on eight B200), most updates change less.
const OTHER_RELEASE: f64 = 0.1;

/// Smallest correlation of which a run counts: what a run of less explains is within rounding of its
/// interval.
const LEAST: f64 = 0.15;

/// Largest number of layouts that condition a prediction: the nearest ones. Bounds its time.
const MOST: usize = 32;

/// A run of the user with a measured step time.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRun {
    /// Its name.
    pub id: String,
    /// Its layout.
    pub layout: Layout,
    /// Median time of a step, seconds.
    pub step_seconds: f64,
    /// Standard deviation of its steps, a fraction of the median, if known.
    pub spread: Option<f64>,
    /// ISO date.
    pub date: Option<String>,
}

/// Measured runs of the user, from one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The file, as the user named it.
    pub file: String,
    /// Newest date of its runs.
    pub newest: Option<String>,
    /// Number of its runs.
    pub runs: usize,
    repeated: Vec<RepeatedRuns>,
    finished: Vec<FinishedRun>,
}

/// Runs of one layout with one image.
#[derive(Clone, Debug, PartialEq)]
struct RepeatedRuns {
    features: Features,
    /// Their number.
    count: usize,
    /// Mean logarithm of measured over predicted time.
    error: f64,
    /// Sum of the squared deviations from it.
    squares: f64,
    /// Sum of the variances that are expected of each.
    expected: f64,
    /// Standard deviation of the error without them.
    prior: f64,
}

impl RepeatedRuns {
    fn new(features: Features, prior: f64, error: f64, spread: f64) -> Self {
        Self { features, count: 1, error, squares: 0.0, expected: spread * spread, prior }
    }

    /// Adds a run (Welford 1962).
    fn add(&mut self, error: f64, spread: f64) {
        self.count += 1;
        let deviation = error - self.error;
        self.error += deviation / self.runs();
        self.squares += deviation * (error - self.error);
        self.expected += spread * spread;
    }

    fn runs(&self) -> f64 {
        self.count as f64
    }

    /// Returns the variance of the logarithm of one run: as expected, until enough of them show it.
    fn variance(&self) -> f64 {
        let expected = self.expected / self.runs();
        (REPEATED_RUNS * expected + self.squares) / (REPEATED_RUNS + self.runs() - 1.0)
    }
}

/// What measured runs say about a step time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditioned {
    /// Factor on the predicted time.
    pub factor: f64,
    /// Half-width of the interval, a natural logarithm.
    pub half_width: f64,
    /// Number of runs of the same layout with the same image.
    pub same: usize,
    /// Number of other runs that count.
    pub near: usize,
}

impl Evidence {
    /// Returns the evidence of runs for predictions by these constants. Runs that cannot be predicted do not
    /// count.
    pub fn new(
        file: String,
        runs: Vec<MeasuredRun>,
        finished: Vec<FinishedRun>,
        constants: &Constants,
    ) -> Self {
        let dates = runs.iter().map(|run| &run.date).chain(finished.iter().map(|run| &run.date));
        let newest = dates.flatten().max().cloned();
        let none = Self { file, newest, finished, ..Self::default() };
        runs.iter().fold(none, |all, run| all.with_run(run, constants))
    }

    /// Returns it with one run more, unless it cannot be predicted.
    pub(super) fn with_run(mut self, run: &MeasuredRun, constants: &Constants) -> Self {
        let Ok(predicted) = speed::speed_without_evidence(&run.layout, constants) else { return self };
        let error = (run.step_seconds / predicted.step_seconds).ln();
        let prior = 0.5 * (predicted.interval.high / predicted.interval.low).ln() / NINE_IN_TEN;
        if !error.is_finite() || !prior.is_finite() || prior <= 0.0 {
            return self;
        }
        let features = Features::from_layout(&run.layout);
        let spread = run.spread.filter(|spread| spread.is_finite()).unwrap_or(0.0).max(REPEATED);
        match self.repeated.iter_mut().find(|one| one.features.is_repeated_by(&features)) {
            Some(one) => one.add(error, spread),
            None => self.repeated.push(RepeatedRuns::new(features, prior, error, spread)),
        }
        self.runs += 1;
        self
    }

    /// Returns what the runs say about a layout whose interval without them has this half-width, a natural
    /// logarithm; `None` if none of them has enough in common with it.
    pub(super) fn condition(&self, layout: &Layout, half_width: f64) -> Option<Conditioned> {
        let features = Features::from_layout(layout);
        let mut near: Vec<(f64, &RepeatedRuns)> = self
            .repeated
            .iter()
            .map(|one| (one.features.correlation(&features), one))
            .filter(|(correlation, _)| *correlation >= LEAST)
            .collect();
        near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        near.truncate(MOST);
        let (nearest, _) = *near.first()?;
        let scale = surprise(&near, nearest);
        let prior = scale * half_width / NINE_IN_TEN;
        let noise = |one: &RepeatedRuns| {
            let release = if one.features.has_release_of(&features) { 0.0 } else { OTHER_RELEASE };
            one.variance() / one.runs() + release.powi(2)
        };
        let covariance = |near: &[(f64, &RepeatedRuns)]| -> Vec<Vec<f64>> {
            let entry = |a: &RepeatedRuns, b: &RepeatedRuns| {
                scale * scale * a.features.correlation(&b.features) * a.prior * b.prior
            };
            let row = |at: usize, one: &RepeatedRuns| {
                let before = near.iter().take(at).map(|(_, other)| entry(one, other));
                before.chain([entry(one, one) + noise(one)]).collect()
            };
            near.iter().enumerate().map(|(at, (_, one))| row(at, one)).collect()
        };
        // Correlations by rules of thumb may contradict each other: then the nearest runs alone count.
        let factor = cholesky(&covariance(&near)).or_else(|| {
            near.truncate(1);
            cholesky(&covariance(&near))
        })?;
        let with_layout: Vec<f64> = near.iter().map(|(c, one)| c * prior * scale * one.prior).collect();
        let errors: Vec<f64> = near.iter().map(|(_, one)| one.error).collect();
        let (whitened, explains) = (forward(&factor, &errors), forward(&factor, &with_layout));
        let shift: f64 = whitened.iter().zip(&explains).map(|(a, b)| a * b).sum();
        let explained: f64 = explains.iter().map(|value| value * value).sum();
        // The next run differs from the layout's mean as repeated runs do.
        let weights = || near.iter().map(|(c, one)| (c * c * one.runs(), one.variance()));
        let chance = weights().map(|(weight, variance)| weight * variance).sum::<f64>()
            / weights().map(|(weight, _)| weight).sum::<f64>();
        let variance = (prior * prior - explained).max(0.0) + chance;
        let half_width = (NINE_IN_TEN * variance.sqrt()).min(scale * half_width);
        if !shift.is_finite() || !half_width.is_finite() {
            return None;
        }
        let is_same = |one: &RepeatedRuns| {
            one.features.is_layout_of(&features) && one.features.has_release_of(&features)
        };
        let count = |same: bool| {
            let runs = near.iter().filter(|(_, one)| is_same(one) == same).map(|(_, one)| one.count);
            runs.sum()
        };
        Some(Conditioned { factor: shift.exp(), half_width, same: count(true), near: count(false) })
    }
}

impl Conditioned {
    /// Returns it with a factor of at least `least`: no run shows that a GPU computes faster than its peak.
    pub(super) fn at_least(self, least: f64) -> Option<Self> {
        least.is_finite().then(|| Self { factor: self.factor.max(least), ..self })
    }

    /// Returns true if runs of the same layout with the same image are among them.
    pub fn is_measured(&self) -> bool {
        self.same > 0
    }
}

/// Returns the name of a plan's image, by which its runs are compared: repository and tag.
pub fn release(plan: &Plan) -> Option<Arc<str>> {
    let uri = plan.image.as_ref()?.uri.as_str();
    Some(Arc::from(uri.rsplit('/').next().unwrap_or(uri)))
}

/// Returns the factor, at least 1, by which the errors of these runs exceed those that their intervals
/// expect: runs far outside of them show that the cost model errs by more here, and count for more
/// themselves.
fn surprise(near: &[(f64, &RepeatedRuns)], nearest: f64) -> f64 {
    let weight: f64 = near.iter().map(|(c, _)| c * c).sum();
    let squares: f64 = near.iter().map(|(c, one)| (c * one.error / one.prior).powi(2)).sum();
    (1.0 + nearest * nearest * (squares / weight - 1.0)).max(1.0).sqrt()
}

/// Returns the lower factor of a symmetric matrix, given its lower half by rows; `None` if it is not positive
/// definite.
fn cholesky(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let mut factor: Vec<Vec<f64>> = Vec::with_capacity(matrix.len());
    for row in matrix {
        let mut out: Vec<f64> = Vec::with_capacity(row.len());
        for (column, value) in row.iter().enumerate() {
            let other = factor.get(column).unwrap_or(&out);
            let rest = value - out.iter().zip(other).map(|(a, b)| a * b).sum::<f64>();
            let entry = match factor.get(column).and_then(|other| other.get(column)) {
                Some(diagonal) => rest / diagonal,
                None => rest.sqrt(),
            };
            if !entry.is_finite() {
                return None;
            }
            out.push(entry);
        }
        factor.push(out);
    }
    Some(factor)
}

/// Solves `factor · x = right` for a lower triangular matrix.
fn forward(factor: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut out: Vec<f64> = Vec::with_capacity(right.len());
    for (row, value) in factor.iter().zip(right) {
        let known: f64 = row.iter().zip(&out).map(|(a, b)| a * b).sum();
        let diagonal = row.last().copied().unwrap_or(1.0);
        out.push((value - known) / diagonal);
    }
    out
}
