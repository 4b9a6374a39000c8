//! Rows whose source leaves the micro-batch open: their times as ranges over what it may have been.
//!
//! A figure inside such a range agrees with the model and does not test it: it is calibration, not evidence, and no such
//! row is fitted or counted among the errors.

use super::misses::{Missed, missing};
use super::row::Row;
use super::runs::Run;
use serde::Serialize;
use trainc_plan::plan::divisors::divisors;
use trainc_predict::memory::{MemoryConstants, memory_with};
use trainc_predict::speed::speed;
use trainc_predict::{Constants, Layout};

/// A row with an open micro-batch.
#[derive(Clone, Debug, Serialize)]
pub struct Open {
    /// Its name.
    pub id: String,
    /// Micro-batches that divide the global batch and fit.
    pub micro_batches: Vec<f64>,
    /// Seconds of a step as published.
    pub published: f64,
    /// The least that is predicted over the micro-batches.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// Where the published figure lies outside: what is missing in the model, as far as somebody looked.
    pub missing: Option<&'static str>,
}

impl Open {
    /// Whether no micro-batch explains the published figure.
    pub fn is_outside(&self) -> bool {
        !(self.low..=self.high).contains(&self.published)
    }
}

/// How many times as fast one row is as another of the same model, tokens and machines.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// The faster row.
    pub fast: String,
    /// The slower one.
    pub slow: String,
    /// As published.
    pub published: f64,
    /// The least that is predicted, each row at any of its micro-batches.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl Row<'_> {
    /// The layouts that the row may mean where it leaves the micro-batch open: one for each that divides what a data rank
    /// takes in a step. None where the global batch is open too, or the row lacks something else.
    pub(super) fn open(&self) -> Vec<Layout> {
        if self.number("micro_batch").is_some() || self.number("global_batch_sequences").is_none() {
            return Vec::new();
        }
        let with = |micro: u64| Row { cells: self.cells.clone(), micro: Some(micro as f64) }.layout().ok();
        let Some(smallest) = with(1).filter(|layout| layout.work.passes.fract() == 0.0) else {
            return Vec::new();
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
        let each = smallest.work.passes as u64;
        divisors(each).into_iter().filter_map(with).collect()
    }
}

/// The ranges of rows that can be predicted for at least one micro-batch that fits.
pub fn open(runs: &[Run], constants: &Constants) -> Vec<Open> {
    runs.iter().filter_map(|run| one(run, constants)).collect()
}

fn one(run: &Run, constants: &Constants) -> Option<Open> {
    let own = MemoryConstants::of(constants);
    let published = *run.step_seconds_open.as_ref()?;
    let found: Vec<(f64, f64)> = run
        .open
        .iter()
        .filter(|layout| memory_with(layout, &own).fits == Some(true))
        .filter_map(|layout| {
            Some((layout.work.micro_batch_size, speed(layout, constants).ok()?.step_seconds))
        })
        .collect();
    let seconds = || found.iter().map(|(_, seconds)| *seconds);
    let mut open = Open {
        id: run.id.clone(),
        micro_batches: found.iter().map(|(micro, _)| *micro).collect(),
        published,
        low: seconds().fold(f64::MAX, f64::min),
        high: seconds().fold(0.0, f64::max),
        missing: None,
    };
    open.missing = if open.is_outside() { missing(&open.id, Missed::Time) } else { None };
    (!found.is_empty()).then_some(open)
}

/// Each two open rows of one family that trained the same model on the same machines.
pub fn ratios(runs: &[Run], open: &[Open]) -> Vec<Ratio> {
    let layout =
        |id: &str| runs.iter().find(|run| run.id == id).and_then(|run| Some((run, run.open.first()?)));
    let same = |a: &Open, b: &Open| {
        layout(&a.id).zip(layout(&b.id)).is_some_and(|((one, a), (other, b))| {
            one.family == other.family
                && a.model == b.model
                && a.hardware == b.hardware
                && a.work.sequence_length.to_bits() == b.work.sequence_length.to_bits()
                && a.work.global_sequences.to_bits() == b.work.global_sequences.to_bits()
        })
    };
    let pairs = open.iter().enumerate().flat_map(|(at, a)| open.iter().skip(at + 1).map(move |b| (a, b)));
    pairs
        .filter(|(a, b)| same(a, b))
        .map(|(a, b)| {
            let (fast, slow) = if a.published <= b.published { (a, b) } else { (b, a) };
            Ratio {
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

    /// AWS, 31 October 2022: 73.52 against 52.6 samples/s of 30 billion parameters on 32 nodes; neither micro-batch is given.
    #[test]
    fn the_published_ratio_lies_inside_the_range() {
        let table = crate::read(include_str!("../data/runs.csv")).unwrap();
        let all = open(&table.runs, Constants::shipped());
        let ratios = ratios(&table.runs, &all);
        let one = ratios.iter().find(|one| one.fast == "aws-smp-30b-s2048").unwrap();
        assert_eq!(one.slow, "aws-ds-30b-s2048");
        assert!((one.published / (73.52 / 52.6) - 1.0).abs() < 1e-3, "{one:?}");
        assert!(one.low <= one.published && one.published <= one.high, "{one:?}");
        // The example says so to its readers, in these figures.
        let shown = include_str!("../../../examples/gpt2-30b-sharded/README.md");
        assert!(shown.contains(&format!("{:.2} to {:.2} times", one.low, one.high)), "{one:?}");
        // A range is of rows that no error counts.
        let verdict = crate::judge::judge(&table, Constants::shipped());
        for one in &all {
            assert!(one.low <= one.high && !one.micro_batches.is_empty(), "{one:?}");
            assert!(verdict.rows.iter().any(|row| row.id == one.id && row.skipped.is_some()), "{one:?}");
            assert_eq!(one.is_outside(), one.missing.is_some(), "{one:?}");
        }
    }
}
