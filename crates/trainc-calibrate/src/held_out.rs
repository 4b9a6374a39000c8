//! Step times predicted by fits that did not use the row, its model or its source.

use super::fit::{Sample, fit, fit_without_family, samples};
use super::half_width::{MAX_SEEN, quantile_92, quantile_of_families, setting_half_width, unseen_half_width};
use super::run::Table;
use super::verdict::{RowVerdict, StepTime};
use std::collections::BTreeMap;
use trainc_predict::constants::Name;
use trainc_predict::{Constants, FEWEST_RUNS, Setting, speed};

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
}

impl Tier {
    /// All tiers.
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::C];

    /// Returns its letter.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
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
            Self::C => {
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
    let folds = tier.folds(samples);
    let last = folds.iter().copied().max().unwrap_or(0);
    let mut out = vec![f64::NAN; samples.len()];
    for fold in 0..=last {
        let fitted: Vec<Sample> =
            samples.iter().zip(&folds).filter(|(_, at)| **at != fold).map(|(one, _)| *one).collect();
        let fitted = thin_families(&fitted);
        // The priors do not use a source that is held out either.
        let family = samples.iter().zip(&folds).find(|(_, at)| **at == fold).map(|(one, _)| one.family);
        let family = family.filter(|_| tier == Tier::C);
        let constants = if fitted.is_empty() {
            start.clone()
        } else {
            fit_without_family(family, &fitted, start, Some(near))
        };
        for ((one, at), slot) in samples.iter().zip(&folds).zip(&mut out) {
            if *at == fold {
                *slot = speed::speed(one.layout, &constants).map_or(f64::NAN, |speed| speed.step_seconds);
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
    table: &'a Table,
    rows: Vec<usize>,
    samples: Vec<Sample<'a>>,
    by_tier: [Vec<f64>; 3],
}

impl<'a> HeldOut<'a> {
    /// Fits constants without each fold of each tier, starting from `start`.
    pub fn new(table: &'a Table, start: &Constants) -> Self {
        let (rows, samples): (Vec<usize>, Vec<Sample>) = samples(&table.runs, start).into_iter().unzip();
        // The fits of the folds differ little from that of all rows, from which the solver begins.
        let near = fit(&samples, start);
        let by_tier = Tier::ALL.map(|tier| predictions(tier, &samples, start, &near));
        Self { table, rows, samples, by_tier }
    }

    /// Returns the runs whose step time can be judged.
    pub fn samples(&self) -> &[Sample<'a>] {
        &self.samples
    }

    /// Returns the held-out step times of a tier in seconds, in the order of the samples.
    pub fn predicted_seconds(&self, tier: Tier) -> &[f64] {
        let [a, b, c] = &self.by_tier;
        match tier {
            Tier::A => a,
            Tier::B => b,
            Tier::C => c,
        }
    }

    /// Returns the held-out predictions, each with the relative interval of its row in `rows`.
    pub fn times(&self, tier: Tier, rows: &[RowVerdict]) -> Vec<HeldOutTime<'a>> {
        self.rows
            .iter()
            .zip(&self.samples)
            .zip(self.predicted_seconds(tier))
            .filter_map(|((row, sample), predicted)| {
                let shown = rows.get(*row)?.step_seconds.as_ref()?;
                let scale = predicted / shown.predicted;
                let time = StepTime {
                    measured: sample.measured,
                    predicted: *predicted,
                    low: shown.low * scale,
                    high: shown.high * scale,
                    error: predicted / sample.measured - 1.0,
                    parts: shown.parts.clone(),
                };
                Some(HeldOutTime { row: *row, family: sample.family, time })
            })
            .collect()
    }

    /// Widens the intervals of tier C as a plan would with such a fit: wherever no other source ran the
    /// system on that GPU type over those links.
    pub fn widen_tier_c(&self, times: &mut [HeldOutTime]) {
        let factor = (unseen_half_width(self.half_width_of_sources()) - MAX_SEEN).exp();
        let has_runs = |setting: &Setting, without: Option<&str>| {
            let is_like =
                |one: &&Sample| Setting::from_layout(one.layout).is_some_and(|other| other.is_like(setting));
            let others = self.samples.iter().filter(|one| Some(one.family) != without);
            others.filter(is_like).count() as f64 >= FEWEST_RUNS
        };
        for HeldOutTime { row, family, time } in times {
            let layout = self.table.runs.get(*row).and_then(|run| run.layout.as_ref().ok());
            let Some(setting) = layout.and_then(Setting::from_layout) else { continue };
            // With too few runs in all sources the interval is already the wider one.
            if has_runs(&setting, None) && !has_runs(&setting, Some(family)) {
                (time.low, time.high) = (time.low / factor, time.high * factor);
            }
        }
    }

    /// Returns the errors of a tier, natural logarithms of predicted over measured time.
    fn errors(&self, tier: Tier) -> impl Iterator<Item = (&Sample<'a>, f64)> {
        let pairs = self.samples.iter().zip(self.predicted_seconds(tier));
        pairs.map(|(one, predicted)| (one, (predicted / one.measured).ln()))
    }

    /// Returns the half-width, a natural logarithm, that contains 90 % of the errors of held-out sources,
    /// which weigh alike.
    pub fn half_width_of_sources(&self) -> Option<f64> {
        let errors: Vec<(&str, f64)> = self.errors(Tier::C).map(|(one, error)| (one.family, error)).collect();
        quantile_of_families(&errors)
    }

    /// Sets the half-width of each setting by the errors of its held-out shapes.
    pub fn set_half_widths(&self, constants: &mut Constants) {
        let (known, unseen) = (constants.get(Name::Known), constants.get(Name::Unseen));
        let mut settings = constants.settings().to_vec();
        for (setting, runs) in &mut settings {
            let is_like =
                |one: &Sample| Setting::from_layout(one.layout).is_some_and(|own| own.is_like(setting));
            let errors: Vec<f64> =
                self.errors(Tier::B).filter(|(one, _)| is_like(one)).map(|(_, error)| error).collect();
            runs.half_width = setting_half_width(&errors, (known, unseen));
        }
        constants.set_fitted_settings(settings);
    }

    /// Returns the half-width, a natural logarithm, that contains 92 % of the errors of these tiers.
    pub fn residual_half_width(&self, tiers: &[Tier]) -> Option<f64> {
        let error = |(predicted, one): (&f64, &Sample)| (predicted / one.measured).ln().abs();
        let of_tier = |tier: &Tier| self.predicted_seconds(*tier).iter().zip(&self.samples).map(error);
        quantile_92(tiers.iter().flat_map(of_tier).collect())
    }
}
