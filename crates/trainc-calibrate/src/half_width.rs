//! Half-widths of the intervals, from held-out errors.

use super::fit::Sample;
use trainc_predict::{FEWEST_OWN, GpuKind};

/// Returns the half-width, a natural logarithm, of a GPU type by a user's own runs; `None` if these do not change it.
///
/// Held-out errors predict the error of the next run: of n errors, the one at rank ⌈0.9 (n + 1)⌉ is exceeded with a
/// probability of 1 in 10 (split conformal prediction, Vovk et al. 2005), so narrowing requires nine ([`FEWEST_OWN`]).
/// Fewer only widen `general`, the half-width without them, if one of them is outside. At least 0.05 (rule of
/// thumb): repeated runs of one layout differ by up to 7.6 % (BLOOM, 23 and 26 February 2022), 0.037 around their
/// middle.
pub(super) fn own_half_width(
    samples: &[Sample],
    predictions: &[f64],
    kind: GpuKind,
    general: f64,
) -> Option<f64> {
    let mut errors: Vec<f64> = samples
        .iter()
        .zip(predictions)
        .filter(|(one, _)| one.layout.hardware.gpu.map(GpuKind::kind_of_constants) == Some(kind))
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

/// Smallest half-width: chosen, not fitted, above the 0.073 by which repeated runs of one layout differ (BLOOM).
const MIN: f64 = 0.1;

/// Largest half-width of a setting that was fitted: chosen, not fitted. If the residuals require more, fewer than 92 %
/// of the rows are inside.
pub const MAX_SEEN: f64 = 0.19;

/// Returns the half-width of settings that were fitted, a natural logarithm: that of the residuals, at most
/// [`MAX_SEEN`].
pub(super) fn seen_half_width(residual: Option<f64>) -> f64 {
    residual.unwrap_or(MAX_SEEN).clamp(MIN, MAX_SEEN)
}

/// Returns the half-width of settings that were not fitted, a natural logarithm: that of the errors on held-out
/// sources, at least [`MAX_SEEN`], at most 35 % of the prediction.
pub(super) fn unseen_half_width(residual: Option<f64>) -> f64 {
    let most = 0.35_f64.asinh();
    residual.unwrap_or(most).clamp(MAX_SEEN, most)
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

    #[test]
    fn the_half_width_is_that_of_the_residuals_up_to_the_maximum() {
        assert!((seen_half_width(Some(0.15)) - 0.15).abs() < 1e-12);
        assert!((seen_half_width(Some(0.05)) - MIN).abs() < 1e-12);
        assert!((seen_half_width(Some(0.3)) - MAX_SEEN).abs() < 1e-12);
        assert!(quantile_92(Vec::new()).is_none());
    }
}
