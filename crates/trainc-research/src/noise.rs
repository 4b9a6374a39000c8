//! Spread of repeated measurements: a lower bound of the error of any model of the table's columns.

use trainc_calibrate::{MemoryKind, Run};

/// Spread of the layouts that one family measured more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Number of these layouts.
    pub layouts: usize,
    /// Median of the largest over the smallest measurement of a layout, minus one.
    pub median_spread: Option<f64>,
    /// Largest.
    pub largest_spread: Option<f64>,
}

/// Returns the noise of step times.
pub fn noise_of_times<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Noise {
    spread_of_repeated_runs(runs, |run| run.step_seconds.clone().ok().map(|seconds| (seconds, None)))
}

/// Returns the noise of peaks measured with the same instrument.
pub fn noise_of_peaks<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Noise {
    spread_of_repeated_runs(runs, |run| {
        let (bytes, kind) = run.peak_memory?;
        (run.memory_layout.is_ok() && !run.oom && kind != MemoryKind::Computed).then_some((bytes, Some(kind)))
    })
}

/// Rows of one family are repeated measurements if every cell that describes the run is equal, including engine and notes.
/// An equal layout is not enough: runs may differ in a feature without a column (asynchronous tensor parallelism, an
/// optimizer that steps in the backward pass).
fn spread_of_repeated_runs<'a>(
    runs: impl IntoIterator<Item = &'a Run>,
    measured: impl Fn(&Run) -> Option<(f64, Option<MemoryKind>)>,
) -> Noise {
    let mut groups: Vec<(&Run, Option<MemoryKind>, Vec<f64>)> = Vec::new();
    for run in runs {
        let Some((value, kind)) = measured(run).filter(|(value, _)| *value > 0.0) else { continue };
        let same = |(other, by, _): &&mut (&Run, Option<MemoryKind>, Vec<f64>)| {
            *by == kind && other.family == run.family && other.description == run.description
        };
        if let Some((.., values)) = groups.iter_mut().find(same) {
            values.push(value);
        } else {
            groups.push((run, kind, vec![value]));
        }
    }
    let mut spreads: Vec<f64> = groups
        .iter()
        .filter(|(.., values)| values.len() > 1)
        .map(|(.., values)| {
            let (low, high) = values.iter().fold((f64::MAX, 0.0_f64), |(a, b), it| (a.min(*it), b.max(*it)));
            high / low - 1.0
        })
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
    use trainc_calibrate::read;

    #[test]
    fn bloom_was_measured_on_several_days() {
        // BLOOM's chronicles: 181B, t8 d8 p6, micro-batch 4 took 121.48, 114.11 and 113.95 s on three days (6.6 %), with
        // 128 heads 124.89 and 116.06 (7.6 %), and 182B 162.72 and 156.84 (3.7 %).
        let table = read(include_str!("../../trainc-calibrate/data/runs.csv")).unwrap();
        // No other source measured a layout twice.
        let noise = noise_of_times(&table.runs);
        assert_eq!(noise.layouts, 3, "{noise:?}");
        assert!((noise.median_spread.unwrap() - (121.48 / 113.95 - 1.0)).abs() < 1e-3, "{noise:?}");
        assert!((noise.largest_spread.unwrap() - (124.89 / 116.06 - 1.0)).abs() < 1e-3, "{noise:?}");
    }

    #[test]
    fn one_peak_was_measured_twice() {
        // BLOOM's chronicles: 181B, t8 d8 p6, micro-batch 4 took 56 and 55 GB on two days.
        let noise = noise_of_peaks(&read(include_str!("../../trainc-calibrate/data/runs.csv")).unwrap().runs);
        assert_eq!(noise.layouts, 1, "{noise:?}");
        assert!((noise.largest_spread.unwrap() - 1.0 / 55.0).abs() < 1e-9, "{noise:?}");
    }

    /// Asynchronous tensor parallelism, ZeRO++ and torchtune's flags are in the notes, the engine and the offload column;
    /// the layouts are equal.
    #[test]
    fn rows_that_differ_in_a_note_are_not_noise() {
        let table = read(include_str!("../../trainc-calibrate/data/runs.csv")).unwrap();
        for [one, other] in [
            ["tt25-70b-256g-tp8", "tt25-70b-256g-tp8-async"],
            ["tt25-8b-64g-tp8", "tt25-8b-64g-tp8-async"],
            ["dsgist-llama7b-z3-ck1oo1po1zpp0-b4-64", "dsgist-llama7b-z3-ck1oo1po1zpp1-b4-64"],
            ["ttune-3b-ac", "ttune-3b-optbwd"],
        ] {
            let pair: Vec<&Run> =
                table.runs.iter().filter(|run| [one, other].contains(&run.id.as_str())).collect();
            let [a, b] = pair.as_slice() else { panic!("{one}: {}", pair.len()) };
            assert_eq!(a.layout, b.layout, "{one}");
            assert!(a.step_seconds.is_ok() && b.step_seconds.is_ok(), "{one}");
            assert_eq!(noise_of_times(pair.iter().copied()), Noise::default(), "{one}");
            assert_eq!(noise_of_peaks(pair), Noise::default(), "{one}");
        }
    }

    #[test]
    fn a_layout_measured_once_is_not_noise() {
        let table = read(include_str!("../../trainc-calibrate/data/runs.csv")).unwrap();
        assert_eq!(noise_of_times(table.runs.get(..1).unwrap()), Noise::default());
    }
}
