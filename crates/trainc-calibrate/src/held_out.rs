//! Step times predicted by fits that did not use the row, its model or its source.

use super::fit::{Sample, count_settings, fit, fit_without_family, samples, waiting_share};
use super::run::Table;
use super::verdict::{StepShare, StepTime};
use super::width_fit::{ScaledError, row_weights};
use std::collections::{BTreeMap, BTreeSet};
use trainc_predict::constants::Position;
use trainc_predict::{Constants, FARTHEST, Setting, speed};

/// Largest number of fits of tier B: with more shapes, several are held out at a time.
const MAX_FOLDS: usize = 20;

/// Scope of what is held out with a row. Errors of different tiers differ by a factor of two to four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// A fifth of the rows of each family.
    A,
    /// All rows of its family with the same layers and width.
    B,
    /// Its whole family.
    C,
    /// Its whole family, and all runs of the models of that family.
    D,
}

impl Tier {
    /// All tiers.
    pub const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::D];

    /// Returns its letter.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
        }
    }

    /// Returns the fold of each sample; the samples of a fold are left out together.
    fn folds(self, samples: &[Sample]) -> Vec<usize> {
        match self {
            Self::A => {
                let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
                samples
                    .iter()
                    .map(|one| {
                        let n = counts.entry(one.family).or_insert(0);
                        *n += 1;
                        *n % 5
                    })
                    .collect()
            }
            Self::B => {
                let shape = |one: &Sample| {
                    (
                        one.family.to_owned(),
                        one.layout.model.layers.to_bits(),
                        one.layout.model.hidden.to_bits(),
                    )
                };
                let mut shapes: Vec<_> = samples.iter().map(shape).collect();
                shapes.sort();
                shapes.dedup();
                samples
                    .iter()
                    .map(|one| shapes.iter().position(|other| *other == shape(one)).unwrap_or(0) % MAX_FOLDS)
                    .collect()
            }
            Self::C | Self::D => {
                let mut families: Vec<&str> = samples.iter().map(|one| one.family).collect();
                families.sort_unstable();
                families.dedup();
                samples
                    .iter()
                    .map(|one| families.iter().position(|other| *other == one.family).unwrap_or(0))
                    .collect()
            }
        }
    }
}

/// Shape of a model: layers, hidden and feed-forward width.
fn shape(one: &Sample) -> [u64; 3] {
    let model = &one.layout.model;
    [model.layers, model.hidden, model.ffn].map(f64::to_bits)
}

/// A fold of a tier: the samples that are predicted, and those that the fit uses.
struct Fold {
    predicted: Vec<usize>,
    fitted: Vec<usize>,
}

impl Tier {
    fn split(self, samples: &[Sample]) -> Vec<Fold> {
        let folds = self.folds(samples);
        let last = folds.iter().copied().max().unwrap_or(0);
        (0..=last)
            .map(|fold| {
                let (predicted, others): (Vec<usize>, Vec<usize>) =
                    (0..samples.len()).partition(|at| folds.get(*at) == Some(&fold));
                let of = |at: &usize| samples.get(*at);
                let left_out: BTreeSet<[u64; 3]> = match self {
                    Self::D => predicted.iter().filter_map(of).map(shape).collect(),
                    Self::A | Self::B | Self::C => BTreeSet::new(),
                };
                let is_fitted = |at: &usize| of(at).is_some_and(|one| !left_out.contains(&shape(one)));
                Fold { predicted, fitted: others.into_iter().filter(is_fitted).collect() }
            })
            .filter(|fold| !fold.predicted.is_empty())
            .collect()
    }
}

/// Largest number of rows of a family in the fit of a fold: more of the same kind take time and say little.
const MAX_OF_FAMILY: usize = 60;

/// Returns at most [`MAX_OF_FAMILY`] samples of each family, evenly spaced.
fn thin_families<'a>(samples: &[Sample<'a>]) -> Vec<Sample<'a>> {
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for one in samples {
        *sizes.entry(one.family).or_insert(0) += 1;
    }
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut out = Vec::new();
    for one in samples {
        let size = sizes.get(one.family).copied().unwrap_or(1);
        let at = seen.entry(one.family).or_insert(0);
        let kept = size.min(MAX_OF_FAMILY);
        if *at * kept / size != (*at + 1) * kept / size {
            out.push(*one);
        }
        *at += 1;
    }
    out
}

/// Returns each sample's step time in seconds by constants fitted without it.
fn predictions(tier: Tier, samples: &[Sample], start: &Constants, near: &Constants) -> Vec<f64> {
    let mut out = vec![f64::NAN; samples.len()];
    for Fold { predicted, fitted } in tier.split(samples) {
        let fitted: Vec<Sample> = fitted.iter().filter_map(|at| samples.get(*at)).copied().collect();
        let fitted = thin_families(&fitted);
        // The priors do not use a source that is held out either.
        let family = predicted.first().and_then(|at| samples.get(*at)).map(|one| one.family);
        let family = family.filter(|_| matches!(tier, Tier::C | Tier::D));
        let constants = if fitted.is_empty() {
            start.clone()
        } else {
            fit_without_family(family, &fitted, start, Some(near))
        };
        for at in predicted {
            if let (Some(one), Some(slot)) = (samples.get(at), out.get_mut(at)) {
                *slot = speed::step_seconds(one.layout, &constants).unwrap_or(f64::NAN);
            }
        }
    }
    out
}

/// A held-out prediction of a row.
#[derive(Clone, Debug)]
pub struct HeldOutTime<'a> {
    /// Index of the row in the table.
    pub row: usize,
    /// Family of the row.
    pub family: &'a str,
    /// Predicted and measured time.
    pub time: StepTime,
}

/// Held-out predictions of a table in each tier.
#[derive(Clone, Debug)]
pub struct HeldOut<'a> {
    rows: Vec<usize>,
    samples: Vec<Sample<'a>>,
    by_tier: [Vec<f64>; 4],
}

impl<'a> HeldOut<'a> {
    /// Fits constants without each fold of each tier, starting from `start`.
    pub fn new(table: &'a Table, start: &Constants) -> Self {
        let (rows, samples): (Vec<usize>, Vec<Sample>) = samples(&table.runs, start).into_iter().unzip();
        // The fits of the folds differ little from that of all rows, from which the solver begins.
        let near = fit(&samples, start);
        let by_tier = Tier::ALL.map(|tier| predictions(tier, &samples, start, &near));
        Self { rows, samples, by_tier }
    }

    /// Returns the stored results of the fits of [`Self::new`]: for each row, by its id, the step times of
    /// all tiers in seconds. `None` if a row that can be judged is missing, or another one is there.
    pub fn from_times(
        table: &'a Table,
        constants: &Constants,
        times: &BTreeMap<String, [f64; 4]>,
    ) -> Option<Self> {
        let (rows, samples): (Vec<usize>, Vec<Sample>) = samples(&table.runs, constants).into_iter().unzip();
        let stored: Option<Vec<[f64; 4]>> =
            rows.iter().map(|row| times.get(&table.runs.get(*row)?.id).copied()).collect();
        let stored = stored.filter(|stored| stored.len() == times.len())?;
        let by_tier = [0, 1, 2, 3]
            .map(|tier| stored.iter().map(|times| times.get(tier).copied().unwrap_or(f64::NAN)).collect());
        Some(Self { rows, samples, by_tier })
    }

    /// Returns the step times of all tiers in seconds, by the id of the row.
    pub fn times_by_id(&self, table: &Table) -> BTreeMap<String, [f64; 4]> {
        let times = |at: usize| {
            let [a, b, c, d] = &self.by_tier;
            [a, b, c, d].map(|tier| tier.get(at).copied().unwrap_or(f64::NAN))
        };
        let id = |row: &usize| table.runs.get(*row).map(|run| run.id.clone());
        self.rows.iter().enumerate().filter_map(|(at, row)| Some((id(row)?, times(at)))).collect()
    }

    /// Returns the runs whose step time can be judged.
    pub fn samples(&self) -> &[Sample<'a>] {
        &self.samples
    }

    /// Returns the held-out step times of a tier in seconds, in the order of the samples.
    pub fn predicted_seconds(&self, tier: Tier) -> &[f64] {
        let [a, b, c, d] = &self.by_tier;
        match tier {
            Tier::A => a,
            Tier::B => b,
            Tier::C => c,
            Tier::D => d,
        }
    }

    /// Returns the held-out predictions by these constants, each with the interval that a plan would show
    /// if the runs that are held out with it had not been measured.
    pub fn times(&self, tier: Tier, constants: &Constants) -> Vec<HeldOutTime<'a>> {
        let mut out = Vec::new();
        for Fold { predicted, fitted } in tier.split(&self.samples) {
            let constants = self.with_settings_of(&fitted, constants);
            for at in predicted {
                let (Some(row), Some(sample)) = (self.rows.get(at), self.samples.get(at)) else { continue };
                let predicted = self.predicted_seconds(tier).get(at).copied().unwrap_or(f64::NAN);
                let Ok(shown) = speed::speed(sample.layout, &constants) else { continue };
                let scale = predicted / shown.step_seconds;
                let time = StepTime {
                    measured: sample.measured,
                    predicted,
                    low: shown.interval.low * scale,
                    high: shown.interval.high * scale,
                    error: predicted / sample.measured - 1.0,
                    parts: StepShare::from_speed(&shown),
                };
                out.push(HeldOutTime { row: *row, family: sample.family, time });
            }
        }
        out.sort_by_key(|time| time.row);
        out
    }

    /// Returns the constants as if these samples alone had been measured.
    fn with_settings_of(&self, fitted: &[usize], constants: &Constants) -> Constants {
        let samples: Vec<Sample> = fitted.iter().filter_map(|at| self.samples.get(*at)).copied().collect();
        let mut constants = constants.clone();
        let settings = count_settings(&samples, &constants, false);
        constants.set_fitted_settings(settings);
        constants
    }

    /// Returns the errors of tiers B and D, with what their scale depends on: near the runs that the fit
    /// used, and far from them.
    pub(super) fn scaled_errors(&self, constants: &Constants) -> Vec<ScaledError<'a>> {
        let weights = row_weights(self.samples.iter().map(|one| one.family));
        let mut out = Vec::new();
        for tier in [Tier::B, Tier::D] {
            for Fold { predicted, fitted } in tier.split(&self.samples) {
                let constants = self.with_settings_of(&fitted, constants);
                for at in predicted {
                    let (Some(sample), Some(weight)) = (self.samples.get(at), weights.get(at)) else {
                        continue;
                    };
                    let seconds = self.predicted_seconds(tier).get(at).copied().unwrap_or(f64::NAN);
                    let Ok(shown) = speed::speed(sample.layout, &constants) else { continue };
                    let waiting = waiting_share(&shown);
                    let position = Position::new(sample.layout, waiting);
                    let nearest = Setting::from_layout(sample.layout)
                        .and_then(|setting| constants.nearest_run(&setting, &position));
                    let distance = nearest.map_or(FARTHEST, |nearest| nearest.distance.min(FARTHEST));
                    let error = (sample.measured / seconds).ln();
                    if error.is_finite() {
                        out.push(ScaledError {
                            layout: sample.layout,
                            waiting,
                            distance,
                            error,
                            weight: *weight,
                        });
                    }
                }
            }
        }
        out
    }
}
