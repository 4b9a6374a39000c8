//! Half-widths of the intervals, from held-out errors.

use super::fit::Sample;
use std::collections::BTreeMap;
use trainc_predict::{FEWEST_OWN, GpuKind};

/// Returns the half-width, a natural logarithm, of a GPU type by a user's own runs; `None` if these do not
/// change it.
///
/// Held-out errors predict the error of the next run: of n errors, the one at rank ⌈0.9 (n + 1)⌉ is exceeded
/// with a probability of 1 in 10 (split conformal prediction, Vovk et al. 2005), so narrowing requires nine
/// ([`FEWEST_OWN`]). Fewer only widen `general`, the half-width without them, if one of them is outside. At
/// least 0.05 (rule of thumb): repeated runs of one layout differ by up to 7.6 % (BLOOM, 23 and 26 February
/// 2022), 0.037 around their middle.
pub(super) fn own_half_width(
    samples: &[Sample],
    predictions: &[f64],
    kind: GpuKind,
    general: f64,
) -> Option<f64> {
    let errors: Vec<f64> = samples
        .iter()
        .zip(predictions)
        .filter(|(one, _)| one.layout.hardware.gpu.map(GpuKind::kind_of_constants) == Some(kind))
        .map(|(one, predicted)| (predicted / one.measured).ln().abs())
        .filter(|error| error.is_finite())
        .collect();
    conformal_half_width(errors, general)
}

/// Returns the half-width that nine in ten of absolute errors need; of fewer than [`FEWEST_OWN`] the largest,
/// if it exceeds `general`.
fn conformal_half_width(mut errors: Vec<f64>, general: f64) -> Option<f64> {
    errors.sort_by(f64::total_cmp);
    if (errors.len() as f64) < FEWEST_OWN {
        return errors.last().copied().filter(|worst| *worst > general);
    }
    let place = (9 * (errors.len() + 1)).div_ceil(10);
    errors.get(place - 1).map(|width| width.max(0.05))
}

/// Smallest half-width: chosen, not fitted, above the 0.073 by which repeated runs of one layout differ
/// (BLOOM).
const MIN: f64 = 0.1;

/// Largest half-width of a setting that was fitted: chosen, not fitted. If the residuals require more, fewer
/// than 92 % of the rows are inside.
pub const MAX_SEEN: f64 = 0.19;

/// Returns the half-width of settings that were fitted, a natural logarithm: that of the residuals, at most
/// [`MAX_SEEN`].
pub(super) fn seen_half_width(residual: Option<f64>) -> f64 {
    residual.unwrap_or(MAX_SEEN).clamp(MIN, MAX_SEEN)
}

/// Returns the half-width of settings that were not fitted, a natural logarithm: that of the errors on
/// held-out sources, at least [`MAX_SEEN`], at most 45 % of the prediction.
pub(super) fn unseen_half_width(residual: Option<f64>) -> f64 {
    let most = 0.45_f64.asinh();
    residual.unwrap_or(most).clamp(MAX_SEEN, most)
}

/// Smallest ratio of measured to predicted time above which a run of a setting that was fitted counts as
/// disturbed: a full card whose allocator frees and allocates in every step, a slow node, a wait on the host.
/// On the clusters of the ultra-scale playbook layouts that differ in the stage of ZeRO alone took up to five
/// times as long.
const DISTURBED: f64 = 1.5;

/// Smallest ratio of a disturbed run's error to the median error of its setting. Where the cost model errs as
/// much in most runs, the error is the model's (rule of thumb).
const DISTURBED_OVER_MEDIAN: f64 = 3.5;

/// The same of a setting that was not fitted, where the cost model may be wrong by more.
const DISTURBED_ELSEWHERE: f64 = 2.0;

/// Returns the half-width of a setting by its held-out errors, natural logarithms of predicted over measured;
/// `None` if there are too few to narrow `general`, and none of them is outside of it.
///
/// At most `unseen`, the half-width of settings that were not fitted, unless three errors and a fifth of them
/// exceed it: the largest of a few errors says little.
pub(super) fn setting_half_width(errors: &[f64], (general, unseen): (f64, f64)) -> Option<f64> {
    let mut sizes: Vec<f64> =
        errors.iter().copied().filter(|error| error.is_finite()).map(f64::abs).collect();
    sizes.sort_by(f64::total_cmp);
    let median = sizes.get(sizes.len() / 2).copied().unwrap_or(0.0);
    let disturbed = DISTURBED.ln().max(DISTURBED_OVER_MEDIAN * median);
    let counted = errors.iter().filter(|error| error.is_finite() && **error > -disturbed);
    let counted: Vec<f64> = counted.map(|error| error.abs()).collect();
    let wide = counted.iter().filter(|error| **error > unseen).count();
    let most = if wide >= 3 && 5 * wide > counted.len() { f64::INFINITY } else { unseen };
    conformal_half_width(counted, general).map(|width| width.min(most))
}

/// Returns the 90 % quantile of absolute errors, whose families weigh alike.
pub(super) fn quantile_of_families(errors: &[(&str, f64)]) -> Option<f64> {
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    let kept: Vec<&(&str, f64)> =
        errors.iter().filter(|(_, error)| error.is_finite() && *error > -DISTURBED_ELSEWHERE.ln()).collect();
    for (family, _) in &kept {
        *sizes.entry(family).or_insert(0.0) += 1.0;
    }
    let mut weighted: Vec<(f64, f64)> = kept
        .iter()
        .map(|(family, error)| (error.abs(), 1.0 / sizes.get(family).map_or(1.0, |n| *n)))
        .collect();
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0.0;
    weighted.into_iter().find_map(|(error, weight)| {
        sum += weight;
        (sum >= 0.9 * sizes.len() as f64 - 1e-9).then_some(error)
    })
}

/// Returns the 92 % quantile of absolute errors that may contain non-finite ones.
pub(super) fn quantile_92(mut errors: Vec<f64>) -> Option<f64> {
    errors.retain(|error| error.is_finite());
    errors.sort_by(f64::total_cmp);
    let at = (errors.len() * 92 / 100).min(errors.len().saturating_sub(1));
    errors.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With fewer than nine errors the interval is only ever widened.
    #[test]
    fn fewer_than_nine_own_runs_only_widen_an_interval() {
        let table = crate::read(include_str!("../data/runs.csv")).unwrap();
        let layouts: Vec<_> = table.runs.iter().filter_map(|run| run.layout.as_ref().ok()).collect();
        let of = |layout: &&&trainc_predict::Layout| {
            layout.hardware.gpu.map(GpuKind::kind_of_constants) == Some(GpuKind::A100)
        };
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
        // Of nineteen errors, the second largest.
        let more: Vec<f64> = (1..20).map(|n| f64::from(n) / 100.0).collect();
        assert!((width(&more).unwrap() - 0.18).abs() < 1e-12);
    }

    /// By hand: of ten errors the one at rank 10 has a probability of 1 in 11 to be exceeded; a disturbed run
    /// is not one of them.
    #[test]
    fn a_setting_is_as_wide_as_its_errors() {
        let ten: Vec<f64> = (1..=10).map(|n| f64::from(n) / 100.0).collect();
        let width = |errors: &[f64]| setting_half_width(errors, (0.19, 0.34));
        assert!((width(&ten).unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(width(&[&ten[..], &[-1.5]].concat()), width(&ten), "a disturbed run does not count");
        assert_eq!(width(&[0.1, -0.15]), None);
        assert!((width(&[0.1, -0.25]).unwrap() - 0.25).abs() < 1e-12);
        // A prediction that is twice too slow is an error of the model, but one of them says little.
        assert!((width(&[0.9]).unwrap() - 0.34).abs() < 1e-12);
        // Most runs are as far off as the slow ones: an error of the model.
        assert!((width(&[-0.35, -0.4, 0.1, -0.5]).unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn families_weigh_alike_in_a_quantile() {
        let mut errors = vec![("large", 0.1); 90];
        errors.extend([("small", 0.3), ("small", 0.4)]);
        assert_eq!(quantile_of_families(&errors), Some(0.4));
        assert_eq!(quantile_of_families(&[]), None);
    }

    #[test]
    fn the_half_width_is_that_of_the_residuals_up_to_the_maximum() {
        assert!((seen_half_width(Some(0.15)) - 0.15).abs() < 1e-12);
        assert!((seen_half_width(Some(0.05)) - MIN).abs() < 1e-12);
        assert!((seen_half_width(Some(0.3)) - MAX_SEEN).abs() < 1e-12);
        assert!(quantile_92(Vec::new()).is_none());
    }
}
