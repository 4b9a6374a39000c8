//! Published speedups between two runs without a micro-batch.

use trainc_calibrate::Run;
use trainc_calibrate::unknown_micro_batch::StepRange;

/// Speedup of one row over another with the same model, tokens and machines.
#[derive(Clone, Debug)]
pub struct Speedup {
    /// Faster row.
    pub fast: String,
    /// Slower row.
    pub slow: String,
    /// Published speedup.
    pub published: f64,
    /// Smallest prediction, each row at any of its micro-batches.
    pub low: f64,
    /// Largest prediction.
    pub high: f64,
}

/// Returns the speedups between rows of one family with the same model on the same machines.
pub fn speedups(runs: &[Run], ranges: &[StepRange]) -> Vec<Speedup> {
    let layout =
        |id: &str| runs.iter().find(|run| run.id == id).and_then(|run| Some((run, run.candidates.first()?)));
    let is_comparable = |a: &StepRange, b: &StepRange| {
        layout(&a.id).zip(layout(&b.id)).is_some_and(|((one, a), (other, b))| {
            one.family == other.family
                && a.model == b.model
                && a.hardware == b.hardware
                && a.work.sequence_length.to_bits() == b.work.sequence_length.to_bits()
                && a.work.global_sequences.to_bits() == b.work.global_sequences.to_bits()
        })
    };
    let pairs = ranges.iter().enumerate().flat_map(|(at, a)| ranges.iter().skip(at + 1).map(move |b| (a, b)));
    pairs
        .filter(|(a, b)| is_comparable(a, b))
        .map(|(a, b)| {
            let (fast, slow) = if a.published <= b.published { (a, b) } else { (b, a) };
            Speedup {
                fast: fast.id.clone(),
                slow: slow.id.clone(),
                published: slow.published / fast.published,
                low: slow.low / fast.high,
                high: slow.high / fast.low,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_calibrate::unknown_micro_batch::step_ranges;
    use trainc_predict::Constants;

    /// AWS, 31 October 2022: 73.52 and 52.6 samples/s of 30 billion parameters on 32 nodes, without a micro-batch.
    #[test]
    fn the_published_speedup_lies_inside_the_range() {
        let table = trainc_calibrate::read(include_str!("../../trainc-calibrate/data/runs.csv")).unwrap();
        let ranges = step_ranges(&table.runs, Constants::shipped());
        let speedups = speedups(&table.runs, &ranges);
        let one = speedups.iter().find(|one| one.fast == "aws-smp-30b-s2048").unwrap();
        assert_eq!(one.slow, "aws-ds-30b-s2048");
        assert!((one.published / (73.52 / 52.6) - 1.0).abs() < 1e-3, "{one:?}");
        assert!(one.low <= one.published && one.published <= one.high, "{one:?}");
        // The example's README gives these figures.
        let page = include_str!("../../../examples/gpt2-30b-sharded/README.md");
        assert!(page.contains(&format!("{:.2} to {:.2} times", one.low, one.high)), "{one:?}");
        // A range belongs to a row that no error counts.
        let verdict = trainc_calibrate::judge::judge(&table, Constants::shipped());
        for one in &ranges {
            assert!(one.low <= one.high && !one.micro_batches.is_empty(), "{one:?}");
            assert!(verdict.rows.iter().any(|row| row.id == one.id && row.skipped.is_some()), "{one:?}");
        }
    }
}
