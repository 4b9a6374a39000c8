//! Fit of the speed constants: bounded nonlinear least squares over logarithms of step times. Families are
//! weighted by the square root of their rows, residuals above 5 % are softened, and each constant is
//! regularised towards its prior.
//!
//! Bounds and priors are in `priors.toml` with their sources. Deterministic: no random numbers, no clock.

use super::priors::{Prior, priors};
use super::run::Run;
use std::collections::BTreeMap;
use trainc_predict::constants::{MeasuredRuns, Position, Range};
use trainc_predict::{Constants, FEWEST_OWN, GpuKind, Layout, Setting, Speed, System, speed};

/// Residuals above this (a natural logarithm) count with their square root.
const SOFT: f64 = 0.05;
/// Weight of a deviation of one spread from the prior, in units of a residual.
const PULL: f64 = 0.05;
/// Smallest table that is fitted on its own. A smaller one adjusts the constants that it starts from.
pub const STANDALONE: usize = 60;
/// Maximum number of solver steps.
const STEPS: usize = 80;

/// A run whose step time can be judged.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Family.
    pub family: &'a str,
    /// Layout.
    pub layout: &'a Layout,
    /// Measured seconds per step.
    pub measured: f64,
}

/// Returns the runs whose step time can be judged, with their indices in the table.
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

/// Fits the constants that have a prior to the samples; all others keep the values of `start`.
///
/// With fewer than [`STANDALONE`] samples the constants are regularised towards the values of `start` instead
/// of the priors.
pub fn fit(samples: &[Sample], start: &Constants) -> Constants {
    fit_without_family(None, samples, start, None)
}

/// Fits the constants with priors that do not use the runs of a family either. The solver begins with the
/// constants `near`, by default the priors.
pub fn fit_without_family(
    family: Option<&str>,
    samples: &[Sample],
    start: &Constants,
    near: Option<&Constants>,
) -> Constants {
    let mut constants = start.clone();
    let kinds: Vec<&str> = GpuKind::with_own_constants()
        .filter(|kind| {
            samples.iter().any(|one| one.layout.hardware.gpu.map(GpuKind::kind_of_constants) == Some(*kind))
        })
        .map(GpuKind::as_str)
        .collect();
    let adjusts = samples.len() < STANDALONE;
    let priors: BTreeMap<&String, Prior> = priors()
        .iter()
        .map(|(key, prior)| {
            let value = constants.value_mut(key).map_or(prior.value, |value| *value);
            let value =
                if adjusts { value.clamp(prior.low, prior.high) } else { prior.value_without_family(family) };
            (key, Prior { value, ..prior.clone() })
        })
        .collect();
    let free: Vec<(&String, &Prior)> = priors
        .iter()
        .map(|(key, prior)| (*key, prior))
        .filter(|(key, _)| {
            let Some(rest) = key.strip_prefix("gpu.") else { return true };
            kinds.iter().any(|word| rest.split('.').next() == Some(*word))
        })
        .collect();
    // GPU types without a run keep their prior.
    for (key, prior) in &priors {
        if let Some(slot) = constants.value_mut(key) {
            *slot = prior.value;
        }
    }
    for kind in GpuKind::with_own_constants() {
        let rows = samples
            .iter()
            .filter(|one| one.layout.hardware.gpu.map(GpuKind::kind_of_constants) == Some(kind))
            .count();
        let before = if adjusts { constants.gpu(kind).map_or(0.0, |gpu| gpu.rows) } else { 0.0 };
        constants.set_rows(kind, rows as f64 + before);
    }
    for system in [System::Fsdp, System::Megatron] {
        let range = largest_fitted_runs(samples, &constants, system, adjusts);
        if range.gpus > 0.0 {
            constants.set_measured_limits(system, range);
        }
    }
    let problem = Problem { samples, weights: weights(samples), free, base: constants };
    let mut near = near.cloned();
    let begin = problem.free.iter().map(|(key, prior)| {
        let near = near.as_mut().and_then(|near| near.value_mut(key)).map_or(prior.value, |value| *value);
        near.clamp(prior.low, prior.high).ln()
    });
    let x = problem.solve(begin.collect());
    let mut constants = problem.constants(&x);
    constants.set_fitted_settings(count_settings(samples, &constants, adjusts));
    constants
}

/// Returns the largest number of GPUs and parameters of a system's samples, and of the constants' range if
/// they are adjusted.
fn largest_fitted_runs(samples: &[Sample], constants: &Constants, system: System, adjusts: bool) -> Range {
    let before = constants.measured_limits(system).filter(|_| adjusts).unwrap_or_default();
    let of =
        |one: &Sample| Range { gpus: one.layout.hardware.gpus(), parameters: one.layout.model.parameters };
    let same = |one: &&Sample| Constants::share_measured_range(one.layout.system, system);
    samples.iter().filter(same).map(of).fold(before, Range::max_with)
}

/// Largest distance of a run from one that the constants list (assumed: a third of the distance over which
/// errors change).
const COVERED: f64 = 0.35;

/// Returns the settings of the samples, each with the number of its runs and the positions that are near
/// all of them. If the constants are adjusted, their settings are kept, and a new one requires enough runs
/// to narrow an interval.
pub(super) fn count_settings(
    samples: &[Sample],
    constants: &Constants,
    adjusts: bool,
) -> Vec<(Setting, MeasuredRuns)> {
    let mut out = if adjusts { constants.settings().to_vec() } else { Vec::new() };
    for one in samples {
        let Some(setting) = Setting::from_layout(one.layout) else { continue };
        let waiting = speed::speed(one.layout, constants).map_or(0.0, |speed| waiting_share(&speed));
        let position = Position::new(one.layout, waiting);
        let at = out.iter().position(|(known, _)| known.is_like(&setting)).unwrap_or_else(|| {
            out.push((setting, MeasuredRuns::default()));
            out.len() - 1
        });
        let Some((_, runs)) = out.get_mut(at) else { continue };
        runs.rows += 1.0;
        let is_near = |known: &Position| known.squared_distance(&position) < COVERED * COVERED;
        if !runs.positions.iter().any(is_near) {
            runs.positions.push(position);
        }
    }
    let is_old = |setting: &Setting| constants.runs_of(setting) > 0.0;
    out.retain(|(setting, runs)| !adjusts || is_old(setting) || runs.rows >= FEWEST_OWN);
    out
}

/// Returns the share of a step in which the GPU waits for others, for a pipeline or for the host.
pub(super) fn waiting_share(speed: &Speed) -> f64 {
    let parts = &speed.parts;
    ((parts.exposed_communication + parts.bubble + parts.offload) / speed.step_seconds).clamp(0.0, 1.0)
}

/// Returns the square root of each sample's weight; the weight of a family is the square root of its rows.
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
    fn constants(&self, x: &[f64]) -> Constants {
        let mut constants = self.base.clone();
        for ((key, _), value) in self.free.iter().zip(x) {
            if let Some(slot) = constants.value_mut(key) {
                *slot = value.exp();
            }
        }
        constants
    }

    fn residuals(&self, x: &[f64]) -> Vec<f64> {
        let constants = self.constants(x);
        let mut out: Vec<f64> = self
            .samples
            .iter()
            .zip(&self.weights)
            .map(|(one, weight)| {
                let predicted = speed::step_seconds(one.layout, &constants).unwrap_or(f64::NAN);
                let error = (predicted / one.measured).ln();
                if !error.is_finite() {
                    return 0.0;
                }
                let soft = SOFT * SOFT * (error / SOFT).powi(2).ln_1p();
                weight * error.signum() * soft.sqrt()
            })
            .collect();
        out.extend(
            self.free.iter().zip(x).map(|((_, prior), x)| PULL * (x - prior.value.ln()) / prior.spread),
        );
        out
    }

    /// Runs Levenberg-Marquardt within the bounds, from `x`.
    fn solve(&self, mut x: Vec<f64>) -> Vec<f64> {
        let low: Vec<f64> = self.free.iter().map(|(_, prior)| prior.low.ln()).collect();
        let high: Vec<f64> = self.free.iter().map(|(_, prior)| prior.high.ln()).collect();
        let cost = |r: &[f64]| r.iter().map(|r| r * r).sum::<f64>();
        let mut r = self.residuals(&x);
        let mut damping = 1e-2;
        for _ in 0..STEPS {
            let jacobian = self.jacobian(&x, &r);
            let gradient: Vec<f64> = jacobian.iter().map(|column| dot(column, &r)).collect();
            // A constant at its bound that would leave it is fixed.
            let moves: Vec<usize> = (0..x.len())
                .filter(|i| {
                    let (x, g) = (value_at(&x, *i), value_at(&gradient, *i));
                    !(x <= value_at(&low, *i) + 1e-12 && g > 0.0
                        || x >= value_at(&high, *i) - 1e-12 && g < 0.0)
                })
                .collect();
            let before = cost(&r);
            let mut better = false;
            for _ in 0..12 {
                let step = normal_step(&jacobian, &gradient, &moves, damping);
                let mut next = x.clone();
                for (i, delta) in moves.iter().zip(&step) {
                    if let Some(value) = next.get_mut(*i) {
                        *value = (*value + delta).clamp(value_at(&low, *i), value_at(&high, *i));
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

    /// Returns the columns of the Jacobian, by forward differences.
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

fn value_at(values: &[f64], at: usize) -> f64 {
    values.get(at).copied().unwrap_or(0.0)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Solves the damped normal equations over the free columns.
fn normal_step(jacobian: &[Vec<f64>], gradient: &[f64], free: &[usize], damping: f64) -> Vec<f64> {
    let column = |i: &usize| jacobian.get(*i).map_or(&[][..], Vec::as_slice);
    let matrix: Vec<Vec<f64>> = free
        .iter()
        .enumerate()
        .map(|(row, i)| {
            let damped = |(at, j): (usize, &usize)| {
                let sum = dot(column(i), column(j));
                if at == row { sum + damping * sum.max(1e-12) } else { sum }
            };
            free.iter().take(row + 1).enumerate().map(damped).collect()
        })
        .collect();
    let right: Vec<f64> = free.iter().map(|at| -value_at(gradient, *at)).collect();
    solve_symmetric(&matrix, &right)
}

/// Solves a positive definite system by Cholesky factorisation; of the matrix the lower half is read.
pub(super) fn solve_symmetric(matrix: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let n = right.len();
    let mut factor = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let mut sum = entry(matrix, i, j);
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
        let sum: f64 = (0..i).map(|k| entry(&factor, i, k) * value_at(&y, k)).sum();
        y.push((value_at(right, i) - sum) / entry(&factor, i, i));
    }
    let mut x = vec![0.0; n];
    for i in (0..n).rev() {
        let sum: f64 = (i + 1..n).map(|k| entry(&factor, k, i) * value_at(&x, k)).sum();
        let value = (value_at(&y, i) - sum) / entry(&factor, i, i);
        if let Some(slot) = x.get_mut(i) {
            *slot = value;
        }
    }
    x
}

fn entry(matrix: &[Vec<f64>], i: usize, j: usize) -> f64 {
    matrix.get(i).and_then(|row| row.get(j)).copied().unwrap_or(0.0)
}
