//! Constants fitted to runs: bounded least squares over logarithms of step times, every family weighing alike by the
//! root of its rows, residuals dampened beyond 5 %, each constant drawn to what is known of it.
//!
//! The bounds and the pull stand in `priors.toml` with their sources. Deterministic: no random number, no clock.

use super::runs::Run;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use trainc_predict::constants::Range;
use trainc_predict::{Constants, FEWEST_OWN, GpuKind, Layout, Setting, System, speed};

const PRIORS: &str = include_str!("priors.toml");

/// Residuals count in full below this (a natural logarithm), with their root beyond.
const SOFT: f64 = 0.05;
/// How far one spread of a constant weighs, in the residuals' unit.
const PULL: f64 = 0.05;
/// Runs below which a table is a user's own: it moves what other runs have shown, instead of standing alone.
pub(super) const OWN: usize = 60;
/// Steps of the solver, at most.
const STEPS: usize = 80;

/// What is known of a constant before any run is seen.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
pub struct Prior {
    /// Its likely value.
    pub value: f64,
    /// Physical lower bound.
    pub low: f64,
    /// Physical upper bound.
    pub high: f64,
    /// Spread, a natural logarithm.
    pub spread: f64,
    /// Between which figures its source has it, where the bounds are wider.
    #[serde(default)]
    pub usual: Option<[f64; 2]>,
    /// Why it comes out beyond them.
    #[serde(default)]
    pub outside: Option<String>,
    /// Where bounds and value come from.
    pub source: String,
    /// Families of runs that the value comes from.
    #[serde(default)]
    pub of: Vec<String>,
    /// What is believed without them.
    #[serde(default)]
    pub withheld: Option<Withheld>,
}

/// What is believed of a constant without the runs that its prior comes from.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Withheld {
    /// Its likely value then.
    pub value: f64,
    /// Why.
    pub source: String,
}

impl Prior {
    /// Its likely value for somebody who has not seen the runs of a family.
    fn without(&self, family: Option<&str>) -> f64 {
        let blind = family.is_some_and(|family| self.of.iter().any(|of| of == family));
        self.withheld.as_ref().filter(|_| blind).map_or(self.value, |withheld| withheld.value)
    }
}

/// The priors by the constants' names.
pub fn priors() -> &'static BTreeMap<String, Prior> {
    static ONCE: LazyLock<BTreeMap<String, Prior>> =
        LazyLock::new(|| toml::from_str::<BTreeMap<String, Prior>>(PRIORS).unwrap_or_default());
    &ONCE
}

/// A run whose step time can be judged.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Its family.
    pub family: &'a str,
    /// Its layout.
    pub layout: &'a Layout,
    /// Measured seconds of a step.
    pub measured: f64,
}

/// The runs whose step time can be judged, with their places in the table.
pub fn samples<'a>(runs: &'a [Run], constants: &Constants) -> Vec<(usize, Sample<'a>)> {
    runs.iter()
        .enumerate()
        .filter(|(_, run)| !run.oom)
        .filter_map(|(at, run)| {
            let layout = run.layout.as_ref().ok()?;
            let measured = *run.step_seconds.as_ref().ok()?;
            speed::speed(layout, constants).ok()?;
            Some((at, Sample { family: &run.family, layout, measured }))
        })
        .collect()
}

/// Fits the constants that have a prior to the samples; all others stay as in `start`.
///
/// Many samples speak for themselves. A few are laid over what is known already: the constants are drawn to `start`'s
/// values instead of to the priors'.
pub fn fit(samples: &[Sample], start: &Constants) -> Constants {
    fit_without(None, samples, start)
}

/// The same for somebody who has not seen the runs of a family: what is known beforehand knows nothing of them either.
pub fn fit_without(family: Option<&str>, samples: &[Sample], start: &Constants) -> Constants {
    let mut constants = start.clone();
    let kinds: Vec<&str> = GpuKind::chips()
        .filter(|kind| samples.iter().any(|one| one.layout.hardware.gpu.map(GpuKind::chip) == Some(*kind)))
        .map(GpuKind::word)
        .collect();
    let own = samples.len() < OWN;
    let known: BTreeMap<&String, Prior> = priors()
        .iter()
        .map(|(key, prior)| {
            let value = constants.slot(key).map_or(prior.value, |value| *value);
            let value = if own { value.clamp(prior.low, prior.high) } else { prior.without(family) };
            (key, Prior { value, ..prior.clone() })
        })
        .collect();
    let free: Vec<(&String, &Prior)> = known
        .iter()
        .map(|(key, prior)| (*key, prior))
        .filter(|(key, _)| {
            let Some(rest) = key.strip_prefix("gpu.") else { return true };
            kinds.iter().any(|word| rest.split('.').next() == Some(*word))
        })
        .collect();
    // Kinds without a run keep what is known of them beforehand.
    for (key, prior) in &known {
        if let Some(slot) = constants.slot(key) {
            *slot = prior.value;
        }
    }
    for kind in GpuKind::chips() {
        let rows =
            samples.iter().filter(|one| one.layout.hardware.gpu.map(GpuKind::chip) == Some(kind)).count();
        let before = if own { constants.gpu(kind).map_or(0.0, |gpu| gpu.rows) } else { 0.0 };
        constants.set_rows(kind, rows as f64 + before);
    }
    for system in [System::Fsdp, System::Megatron] {
        let range = range(samples, &constants, system, own);
        if range.gpus > 0.0 {
            constants.set_range(system, range);
        }
    }
    constants.set_settings(settings(samples, &constants, own));
    let problem = Problem { samples, weights: weights(samples), free, base: constants };
    let x = problem.solve();
    problem.at(&x)
}

/// The largest of the samples whose range is that of a system; of a few runs of one's own, beside those before.
fn range(samples: &[Sample], constants: &Constants, system: System, own: bool) -> Range {
    let before = constants.range(system).filter(|_| own).unwrap_or_default();
    let of =
        |one: &Sample| Range { gpus: one.layout.hardware.gpus(), parameters: one.layout.model.parameters };
    let same = |one: &&Sample| Constants::same_range(one.layout.system, system);
    samples.iter().filter(same).map(of).fold(before, Range::with)
}

/// The settings of the samples with how many have each; of a few runs of one's own, beside those before, and of new ones
/// those alone that have enough to narrow an interval.
fn settings(samples: &[Sample], constants: &Constants, own: bool) -> Vec<(Setting, f64)> {
    let mut out = if own { constants.settings().to_vec() } else { Vec::new() };
    for setting in samples.iter().filter_map(|one| Setting::of(one.layout)) {
        match out.iter_mut().find(|(known, _)| known.is_like(&setting)) {
            Some((_, rows)) => *rows += 1.0,
            None => out.push((setting, 1.0)),
        }
    }
    let is_old = |setting: &Setting| constants.runs_of(setting) > 0.0;
    out.retain(|(setting, rows)| !own || is_old(setting) || *rows >= FEWEST_OWN);
    out
}

/// The root of each sample's weight: families weigh by the root of their rows.
fn weights(samples: &[Sample]) -> Vec<f64> {
    let mut rows: BTreeMap<&str, f64> = BTreeMap::new();
    for one in samples {
        *rows.entry(one.family).or_insert(0.0) += 1.0;
    }
    let raw: Vec<f64> =
        samples.iter().map(|one| rows.get(one.family).map_or(1.0, |n| n.powf(-0.25))).collect();
    let mean = raw.iter().sum::<f64>() / raw.len().max(1) as f64;
    raw.into_iter().map(|weight| weight / mean).collect()
}

struct Problem<'a> {
    samples: &'a [Sample<'a>],
    weights: Vec<f64>,
    free: Vec<(&'a String, &'a Prior)>,
    base: Constants,
}

impl Problem<'_> {
    fn at(&self, x: &[f64]) -> Constants {
        let mut constants = self.base.clone();
        for ((key, _), value) in self.free.iter().zip(x) {
            if let Some(slot) = constants.slot(key) {
                *slot = value.exp();
            }
        }
        constants
    }

    fn residuals(&self, x: &[f64]) -> Vec<f64> {
        let constants = self.at(x);
        let mut out: Vec<f64> = self
            .samples
            .iter()
            .zip(&self.weights)
            .map(|(one, weight)| {
                let predicted =
                    speed::speed(one.layout, &constants).map_or(f64::NAN, |speed| speed.step_seconds);
                let error = (predicted / one.measured).ln();
                if !error.is_finite() {
                    return 0.0;
                }
                let soft = 2.0 * SOFT * SOFT * ((1.0 + (error / SOFT).powi(2)).sqrt() - 1.0);
                weight * error.signum() * soft.sqrt()
            })
            .collect();
        out.extend(
            self.free.iter().zip(x).map(|((_, prior), x)| PULL * (x - prior.value.ln()) / prior.spread),
        );
        out
    }

    /// Levenberg and Marquardt within the bounds.
    fn solve(&self) -> Vec<f64> {
        let low: Vec<f64> = self.free.iter().map(|(_, prior)| prior.low.ln()).collect();
        let high: Vec<f64> = self.free.iter().map(|(_, prior)| prior.high.ln()).collect();
        let mut x: Vec<f64> = self.free.iter().map(|(_, prior)| prior.value.ln()).collect();
        let cost = |r: &[f64]| r.iter().map(|r| r * r).sum::<f64>();
        let mut r = self.residuals(&x);
        let mut damping = 1e-2;
        for _ in 0..STEPS {
            let jacobian = self.jacobian(&x, &r);
            let gradient: Vec<f64> = jacobian.iter().map(|column| dot(column, &r)).collect();
            // A constant at its bound that would go past it is held.
            let moves: Vec<usize> = (0..x.len())
                .filter(|i| {
                    let (x, g) = (of(&x, *i), of(&gradient, *i));
                    !(x <= of(&low, *i) + 1e-12 && g > 0.0 || x >= of(&high, *i) - 1e-12 && g < 0.0)
                })
                .collect();
            let before = cost(&r);
            let mut better = false;
            for _ in 0..12 {
                let step = normal_step(&jacobian, &gradient, &moves, damping);
                let mut next = x.clone();
                for (i, delta) in moves.iter().zip(&step) {
                    if let Some(value) = next.get_mut(*i) {
                        *value = (*value + delta).clamp(of(&low, *i), of(&high, *i));
                    }
                }
                let residuals = self.residuals(&next);
                if cost(&residuals) < before {
                    (x, r, better) = (next, residuals, true);
                    damping = (damping * 0.3).max(1e-9);
                    break;
                }
                damping *= 4.0;
            }
            if !better || before - cost(&r) < 1e-7 * before {
                break;
            }
        }
        x
    }

    /// Columns of the derivative, by differences.
    fn jacobian(&self, x: &[f64], r: &[f64]) -> Vec<Vec<f64>> {
        const STEP: f64 = 1e-5;
        (0..x.len())
            .map(|i| {
                let mut moved = x.to_vec();
                if let Some(value) = moved.get_mut(i) {
                    *value += STEP;
                }
                self.residuals(&moved).iter().zip(r).map(|(after, before)| (after - before) / STEP).collect()
            })
            .collect()
    }
}

fn of(values: &[f64], at: usize) -> f64 {
    values.get(at).copied().unwrap_or(0.0)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Solves the damped normal equations over the free columns, by Cholesky's factors.
fn normal_step(jacobian: &[Vec<f64>], gradient: &[f64], free: &[usize], damping: f64) -> Vec<f64> {
    let n = free.len();
    let column = |i: usize| free.get(i).and_then(|at| jacobian.get(*at)).map_or(&[][..], Vec::as_slice);
    let mut factor = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let mut sum = dot(column(i), column(j));
            if i == j {
                sum += damping * sum.max(1e-12);
            }
            for k in 0..j {
                sum -= entry(&factor, i, k) * entry(&factor, j, k);
            }
            let value = if i == j { sum.max(1e-15).sqrt() } else { sum / entry(&factor, j, j) };
            if let Some(slot) = factor.get_mut(i).and_then(|row| row.get_mut(j)) {
                *slot = value;
            }
        }
    }
    let mut y = Vec::with_capacity(n);
    for i in 0..n {
        let known: f64 = (0..i).map(|k| entry(&factor, i, k) * of(&y, k)).sum();
        let right = -free.get(i).map_or(0.0, |at| of(gradient, *at));
        y.push((right - known) / entry(&factor, i, i));
    }
    let mut x = vec![0.0; n];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|k| entry(&factor, k, i) * of(&x, k)).sum();
        let value = (of(&y, i) - known) / entry(&factor, i, i);
        if let Some(slot) = x.get_mut(i) {
            *slot = value;
        }
    }
    x
}

fn entry(matrix: &[Vec<f64>], i: usize, j: usize) -> f64 {
    matrix.get(i).and_then(|row| row.get(j)).copied().unwrap_or(0.0)
}
