//! Half-widths of the intervals of step times, from held-out errors.
//!
//! The scale of an error is `(1 + waiting · share) · factors · exp(distance · d)` of the physics of the run
//! and its distance `d` from the nearest run that the fit used; its logarithm is fitted by ridge
//! regression. Of the errors over their scale, nine in ten lie inside an interval, whose ends differ, since
//! disturbed runs are slow.

use super::fit::solve_symmetric;
use super::held_out::HeldOut;
use std::collections::BTreeMap;
use trainc_predict::Constants;
use trainc_predict::layout::{Code, Layout, System};

/// Largest error that counts as none, a natural logarithm: repeated runs differ by as much.
const SMALLEST: f64 = 0.015;

/// Weight of the regression's coefficients against the errors (chosen by leaving out whole sources: a tenth
/// to ten times of it changes the share of errors inside by two in a hundred).
const RIDGE: f64 = 3.0;

/// Share of the errors beyond either end of an interval (chosen: nine in ten of the rows that were added
/// last lie inside in tier D).
const BEYOND: f64 = 0.055;

/// Least half-width: with narrower ones the runs of a source that no fit has seen lie inside too rarely (70 %
/// of those within 0.1 in tier D, 2026-11-28). Repeated runs of one layout differ by 0.037 from their middle
/// (BLOOM).
const LEAST: f64 = 0.11;

/// A held-out error with what its scale depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScaledError<'a> {
    /// Layout.
    pub(super) layout: &'a Layout,
    /// Share of the step in which the GPU waits.
    pub(super) waiting: f64,
    /// Distance from the nearest run that the fit used.
    pub(super) distance: f64,
    /// Measured over predicted time, a natural logarithm.
    pub(super) error: f64,
    /// Weight.
    pub(super) weight: f64,
}

/// Names of the fitted constants, in the order of [`ScaledError::terms`].
const TERMS: [&str; 6] = [
    "interval.near",
    "interval.experts",
    "interval.context",
    "interval.deepspeed",
    "interval.transformers",
    "interval.distance",
];

impl ScaledError<'_> {
    fn terms(&self) -> [f64; 6] {
        let layout = self.layout;
        let one = |applies: bool| if applies { 1.0 } else { 0.0 };
        [
            1.0,
            one(layout.model.experts > 0.0),
            layout.degrees.context.max(1.0).ln(),
            one(layout.system == System::DeepSpeed),
            one(layout.code == Code::HuggingFace),
            self.distance,
        ]
    }

    fn is_offloaded(&self) -> bool {
        self.layout.offload.optimizer || self.layout.offload.parameters
    }

    fn log_size(&self) -> f64 {
        self.error.abs().max(SMALLEST).ln()
    }
}

/// Fits the half-widths of intervals to held-out errors, and sets them in the constants.
pub(super) fn fit_widths(held_out: &HeldOut, constants: &mut Constants) {
    set_widths(&held_out.scaled_errors(constants), constants);
}

fn set_widths(errors: &[ScaledError], constants: &mut Constants) {
    // States on the host are few runs with large errors, which say nothing about other runs of their code.
    let (offloaded, errors): (Vec<ScaledError>, Vec<ScaledError>) =
        errors.iter().partition(|one| one.is_offloaded());
    let errors = errors.as_slice();
    let tried = (0..=16).map(|n| f64::from(n) * 0.25).filter_map(|waiting| {
        let terms = regress(errors, waiting)?;
        let misfit: f64 = errors
            .iter()
            .map(|one| one.weight * (one.log_size() - scale(one, waiting, &terms).ln()).powi(2))
            .sum();
        Some((misfit, waiting, terms))
    });
    let Some((_, waiting, terms)) = tried.min_by(|a, b| a.0.total_cmp(&b.0)) else { return };
    let relative = |sign: f64| {
        let sized = errors.iter().map(|one| (sign * one.error / scale(one, waiting, &terms), one.weight));
        weighted_quantile(sized.collect(), 1.0 - BEYOND).unwrap_or(1.0).max(0.1)
    };
    let (below, above) = (relative(-1.0), relative(1.0));
    let excess = |one: &ScaledError| one.weight * (one.log_size() - scale(one, waiting, &terms).ln());
    let weight: f64 = offloaded.iter().map(|one| one.weight).sum();
    let offload = (offloaded.iter().map(excess).sum::<f64>() / weight.max(1e-9)).max(0.0).exp();
    let mut set = |key: &str, value: f64| {
        if let Some(slot) = constants.value_mut(key) {
            *slot = value;
        }
    };
    for (key, term) in TERMS.iter().zip(&terms) {
        let value = match *key {
            "interval.near" => (below * term.exp()).max(LEAST),
            // Exponents; a constant is positive.
            "interval.context" | "interval.distance" => term.max(1e-3),
            _ => term.exp(),
        };
        set(key, value);
    }
    set("interval.offload", offload);
    set("interval.waiting", (waiting * below * terms.first().map_or(1.0, |term| term.exp())).max(1e-3));
    set("interval.above", above / below);
}

fn scale(one: &ScaledError, waiting: f64, terms: &[f64]) -> f64 {
    let sum: f64 = one.terms().iter().zip(terms).map(|(a, b)| a * b).sum();
    (1.0 + waiting * one.waiting) * sum.exp()
}

/// Returns the coefficients of the terms for the logarithms of the errors' sizes; `None` without errors.
fn regress(errors: &[ScaledError], waiting: f64) -> Option<Vec<f64>> {
    let n = TERMS.len();
    let mut matrix = vec![vec![0.0; n]; n];
    let mut right = vec![0.0; n];
    for one in errors {
        let (terms, size) = (one.terms(), one.log_size() - (1.0 + waiting * one.waiting).ln());
        for ((a, row), slot) in terms.iter().zip(&mut matrix).zip(&mut right) {
            *slot += one.weight * a * size;
            for (b, cell) in terms.iter().zip(row) {
                *cell += one.weight * a * b;
            }
        }
    }
    for (at, row) in matrix.iter_mut().enumerate() {
        if let Some(cell) = row.get_mut(at) {
            *cell += if at == 0 { 1e-9 } else { RIDGE };
        }
    }
    let mut found = (!errors.is_empty()).then(|| solve_symmetric(&matrix, &right))?;
    // Nothing that is known to be hard narrows an interval.
    for term in found.iter_mut().skip(1) {
        *term = term.max(0.0);
    }
    Some(found)
}

fn weighted_quantile(mut values: Vec<(f64, f64)>, share: f64) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mut sum = 0.0;
    values.into_iter().find_map(|(value, weight)| {
        sum += weight;
        (sum >= share * all - 1e-9).then_some(value)
    })
}

/// Rows of a family up to which it weighs more: more of one kind say little.
const MOST_OF_FAMILY: f64 = 60.0;

/// Returns the weight of each of these families' rows: a family weighs the square root of its rows, up to
/// [`MOST_OF_FAMILY`].
pub(super) fn row_weights<'a>(families: impl Iterator<Item = &'a str> + Clone) -> Vec<f64> {
    let mut rows: BTreeMap<&str, f64> = BTreeMap::new();
    for family in families.clone() {
        *rows.entry(family).or_insert(0.0) += 1.0;
    }
    families.map(|family| rows.get(family).map_or(1.0, |n| n.min(MOST_OF_FAMILY).sqrt() / n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    /// Errors that double with the distance, and are twice as large to the slow side: both are found.
    #[test]
    fn the_fit_finds_how_errors_grow() {
        let table = read(include_str!("../data/runs.csv")).unwrap();
        let plain = |layout: &&Layout| {
            layout.code == Code::Composer && layout.system == System::Fsdp && layout.degrees.context <= 1.0
        };
        let layout = table.runs.iter().filter_map(|run| run.layout.as_ref().ok()).find(plain).unwrap();
        let mut errors = Vec::new();
        for step in 0..400 {
            let distance = f64::from(step % 4);
            // Spread evenly from -0.2 to 0.4 at a distance of 0.
            let place = f64::from(step / 4) / 99.0;
            let error = (place * 0.6 - 0.2) * 2.0_f64.powf(distance);
            errors.push(ScaledError { layout, waiting: 0.0, distance, error, weight: 1.0 });
        }
        let mut constants = Constants::shipped().clone();
        set_widths(&errors, &mut constants);
        let get = |key: &str| *constants.clone().value_mut(key).unwrap();
        assert!((get("interval.distance") - 2.0_f64.ln()).abs() < 0.05, "{}", get("interval.distance"));
        // By hand: 5.5 % beyond either end leave -0.167 to 0.367.
        let (near, above) = (get("interval.near"), get("interval.above"));
        assert!((near - 0.167).abs() < 0.03 && (above - 0.367 / 0.167).abs() < 0.2, "{near} {above}");
        assert!((get("interval.experts") - 1.0).abs() < 1e-6);
        // Errors a tenth as large are within the least width.
        for one in &mut errors {
            one.error /= 10.0;
        }
        set_widths(&errors, &mut constants);
        assert!((*constants.value_mut("interval.near").unwrap() - LEAST).abs() < 1e-9);
    }

    #[test]
    fn rows_of_a_large_family_weigh_less() {
        let weights = row_weights(["a", "a", "a", "a", "b"].into_iter());
        assert_eq!(weights, [0.5, 0.5, 0.5, 0.5, 1.0]);
        let large = row_weights(std::iter::repeat_n("a", 240));
        assert!((large.iter().sum::<f64>() - 60.0_f64.sqrt()).abs() < 1e-9);
    }
}
