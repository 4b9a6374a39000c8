//! Half-widths of the intervals, from held-out errors.

use super::fit::Sample;
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
}
