//! How far apart measurements of one layout lie: what no model of the table's columns can be better than.

use super::runs::Run;
use serde::Serialize;

/// Layouts that one family measured more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Noise {
    /// How many there are.
    pub layouts: usize,
    /// The median of how much longer the slowest step of a layout takes than its fastest, a fraction.
    pub median_spread: Option<f64>,
    /// The largest.
    pub largest_spread: Option<f64>,
}

/// The noise of the rows whose step times are known: rows of one family with equal layouts are measurements of the same
/// thing, as far as the columns can tell it. One that rests on a feature without a column counts as noise too.
pub fn noise<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Noise {
    let mut groups: Vec<(&Run, f64, f64)> = Vec::new();
    let mut several: Vec<bool> = Vec::new();
    for run in runs {
        let (Ok(layout), Ok(seconds)) = (&run.layout, run.step_seconds.clone()) else { continue };
        let same = |other: &Run| other.family == run.family && other.layout.as_ref() == Ok(layout);
        if let Some(((_, low, high), several)) =
            groups.iter_mut().zip(&mut several).find(|((first, ..), _)| same(first))
        {
            (*low, *high, *several) = (low.min(seconds), high.max(seconds), true);
        } else {
            groups.push((run, seconds, seconds));
            several.push(false);
        }
    }
    let mut spreads: Vec<f64> = groups
        .iter()
        .zip(&several)
        .filter(|((_, low, _), several)| **several && *low > 0.0)
        .map(|((_, low, high), _)| high / low - 1.0)
        .collect();
    spreads.sort_unstable_by(f64::total_cmp);
    Noise {
        layouts: spreads.len(),
        median_spread: spreads.get(spreads.len() / 2).copied(),
        largest_spread: spreads.last().copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::read;

    #[test]
    fn the_shipped_table_has_bloom_s_days() {
        // BLOOM's chronicles: 181B, t8 d8 p6, micro-batch 4 took 121.48, 114.11 and 113.95 s on three days (6.6 %), with
        // 128 heads 124.89 and 116.06 (7.6 %), and 182B 162.72 and 156.84 (3.7 %).
        let table = read(include_str!("../../data/runs.csv")).unwrap();
        let bloom: Vec<Run> = table.runs.into_iter().filter(|run| run.family == "bloom").collect();
        let noise = noise(&bloom);
        assert_eq!(noise.layouts, 3, "{noise:?}");
        assert!((noise.median_spread.unwrap() - (121.48 / 113.95 - 1.0)).abs() < 1e-3, "{noise:?}");
        assert!((noise.largest_spread.unwrap() - (124.89 / 116.06 - 1.0)).abs() < 1e-3, "{noise:?}");
    }

    #[test]
    fn a_layout_measured_once_is_no_noise() {
        let table = read(include_str!("../../data/runs.csv")).unwrap();
        assert_eq!(noise(table.runs.get(..1).unwrap()), Noise::default());
    }
}
