//! Errors on what a fit did not see, in three tiers that differ by a factor of two to four and are never mixed.

use super::fit::{Sample, fit_without};
use std::collections::BTreeMap;
use trainc_predict::{Constants, FEWEST_OWN, GpuKind, speed};

/// What of a row was unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The row alone: others of its table were fitted.
    A,
    /// Every row of its model's shape, and of no other: others of its table were fitted.
    B,
    /// Its whole family.
    C,
}

impl Tier {
    /// All tiers.
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::C];

    /// Its letter.
    pub fn word(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }

    /// What it is held to, for people.
    pub fn goal(self) -> &'static str {
        match self {
            Self::A => {
                "mean absolute error of a step's time over rows whose table was fitted without them, families weighing alike, at most 4 % (FSDP), 6 % (3D parallel over nodes), 10 % (3D parallel on one node)"
            }
            Self::B => {
                "the same over rows of a model's shape that was left out, on a cluster that was fitted, at most 5 % (FSDP), 8 % (3D parallel over nodes)"
            }
            Self::C => {
                "the same over rows whose whole source was left out, at most 10 % where the kinds of GPU and links are known"
            }
        }
    }

    /// What the median half-width of its intervals is to be at most, a fraction of the prediction.
    pub fn half_width(self) -> f64 {
        if self == Self::C { 0.35 } else { 0.2 }
    }

    /// What it means, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::A => "rows of a table that the fit knows",
            Self::B => "models that the fit does not know, on clusters that it knows",
            Self::C => "whole sources that the fit does not know",
        }
    }

    /// Which samples are left out together.
    fn folds(self, samples: &[Sample]) -> Vec<usize> {
        match self {
            Self::A => {
                let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
                samples
                    .iter()
                    .map(|one| {
                        let n = seen.entry(one.family).or_insert(0);
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
                    .map(|one| shapes.iter().position(|other| *other == shape(one)).unwrap_or(0))
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

/// Each sample's step time from constants fitted without it, seconds.
pub fn left_out(tier: Tier, samples: &[Sample], start: &Constants) -> Vec<f64> {
    let folds = tier.folds(samples);
    let last = folds.iter().copied().max().unwrap_or(0);
    let mut out = vec![f64::NAN; samples.len()];
    for fold in 0..=last {
        let seen: Vec<Sample> =
            samples.iter().zip(&folds).filter(|(_, at)| **at != fold).map(|(one, _)| *one).collect();
        // A source that is left out is left out of what was known before the fit as well.
        let blind = samples.iter().zip(&folds).find(|(_, at)| **at == fold).map(|(one, _)| one.family);
        let blind = blind.filter(|_| tier == Tier::C);
        // Where nothing else was seen, what was known before holds.
        let constants = if seen.is_empty() { start.clone() } else { fit_without(blind, &seen, start) };
        for ((one, at), slot) in samples.iter().zip(&folds).zip(&mut out) {
            if *at == fold {
                *slot = speed::speed(one.layout, &constants).map_or(f64::NAN, |speed| speed.step_seconds);
            }
        }
    }
    out
}

/// The half-width, a natural logarithm, that a user's own runs of a kind of GPU have shown; none where they are too few.
///
/// The errors of rows that their fit did not see stand for those of the next run: of n of them the one at place
/// ⌈0.9 (n + 1)⌉ is passed one time in ten (split conformal prediction, Vovk et al. 2005), so that nine
/// ([`FEWEST_OWN`]) are the fewest that narrow anything. Fewer widen `general`, what holds without them, where one of
/// them lies outside of it. A twentieth at least: two runs of one layout differ by 6.5 % (BLOOM, three dates).
pub fn own_half_width(samples: &[Sample], predictions: &[f64], kind: GpuKind, general: f64) -> Option<f64> {
    let mut errors: Vec<f64> = samples
        .iter()
        .zip(predictions)
        .filter(|(one, _)| one.layout.hardware.gpu.map(GpuKind::chip) == Some(kind))
        .map(|(one, predicted)| (predicted / one.measured).ln().abs())
        .filter(|error| error.is_finite())
        .collect();
    errors.sort_by(f64::total_cmp);
    if (errors.len() as f64) < FEWEST_OWN {
        return errors.last().copied().filter(|worst| *worst > general);
    }
    let place = (9 * (errors.len() + 1)).div_ceil(10);
    errors.get(place - 1).map(|width| width.max(0.05))
}

/// The least that is said of an interval's half-width: two runs of one layout differ by 6.5 % (BLOOM, three dates).
const LEAST: f64 = 0.1;

/// The most, a cap that is chosen and not fitted: a wider interval holds more runs and says less. It binds where
/// [`residual_half_width`] is larger, and then the share of rows inside is what the tiers print, not 92 in a hundred.
pub const MOST: f64 = 0.19;

/// The half-width that is written, a natural logarithm: that of the residuals, at most [`MOST`].
pub fn half_width(residual: Option<f64>) -> f64 {
    residual.unwrap_or(MOST).clamp(LEAST, MOST)
}

/// The half-width of a source that was not fitted, a natural logarithm: that of the errors of sources that were left out,
/// at least that of one that was. Its cap is the goal of 35 % of the prediction.
pub fn unseen_half_width(residual: Option<f64>) -> f64 {
    let most = 0.35_f64.asinh();
    residual.unwrap_or(most).clamp(MOST, most)
}

/// The half-width, a natural logarithm, that holds 92 in a hundred of the left-out errors; none where there are none.
pub fn residual_half_width(samples: &[Sample], predictions: &[Vec<f64>]) -> Option<f64> {
    let mut errors: Vec<f64> = predictions
        .iter()
        .flat_map(|tier| {
            tier.iter().zip(samples).map(|(predicted, one)| (predicted / one.measured).ln().abs())
        })
        .filter(|error| error.is_finite())
        .collect();
    errors.sort_by(f64::total_cmp);
    let at = (errors.len() * 92 / 100).min(errors.len().saturating_sub(1));
    errors.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of nine errors the largest is passed one time in ten; fewer narrow nothing and widen what they disprove.
    #[test]
    fn a_few_runs_of_ones_own_widen_an_interval_and_do_not_narrow_it() {
        let table = crate::read(include_str!("../data/runs.csv")).unwrap();
        let layouts: Vec<_> = table.runs.iter().filter_map(|run| run.layout.as_ref().ok()).collect();
        let of =
            |layout: &&&trainc_predict::Layout| layout.hardware.gpu.map(GpuKind::chip) == Some(GpuKind::A100);
        let layout = layouts.iter().find(of).unwrap();
        let width = |errors: &[f64]| {
            let measured = |error: &f64| Sample { family: "own", layout, measured: error.exp() };
            let samples: Vec<Sample> = errors.iter().map(measured).collect();
            own_half_width(&samples, &vec![1.0; errors.len()], GpuKind::A100, 0.19)
        };
        assert_eq!(width(&[0.01; 8]), None);
        assert!((width(&[0.01, -0.6, 0.3]).unwrap() - 0.6).abs() < 1e-12);
        assert!((width(&[0.02; 9]).unwrap() - 0.05).abs() < 1e-12);
        let nine = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, -0.7];
        assert!((width(&nine).unwrap() - 0.7).abs() < 1e-12);
        // Of nineteen the second largest.
        let more: Vec<f64> = (1..20).map(|n| f64::from(n) / 100.0).collect();
        assert!((width(&more).unwrap() - 0.18).abs() < 1e-12);
    }

    #[test]
    fn the_half_width_is_that_of_the_residuals_up_to_the_cap() {
        assert!((half_width(Some(0.15)) - 0.15).abs() < 1e-12);
        assert!((half_width(Some(0.05)) - LEAST).abs() < 1e-12);
        assert!((half_width(Some(0.3)) - MOST).abs() < 1e-12);
        assert!(residual_half_width(&[], &[]).is_none());
    }
}
