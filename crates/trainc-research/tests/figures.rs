//! Published figures, each with its source, inside the range of their predictions.
//!
//! What a source leaves open is varied over its plausible values. The rows of `data/runs.csv` were fitted, so agreement
//! with them is calibration; `tiers.rs` has the errors on held-out rows.

use crate::shipped_table;
use std::collections::BTreeMap;
use trainc_calibrate::unknown_micro_batch::step_ranges;
use trainc_predict::Constants;
use trainc_research::questions::{FigureRange, answers};

/// Returns the predicted samples per second of a row without a micro-batch, smallest and largest.
fn rate_range(id: &str, global_batch: f64) -> (f64, f64) {
    let ranges = step_ranges(&shipped_table().runs, Constants::shipped());
    let range = ranges.iter().find(|range| range.id == id).unwrap();
    (global_batch / range.high, global_batch / range.low)
}

/// Returns the ranges of the figures in `questions.toml` by id.
fn figure_ranges() -> BTreeMap<String, FigureRange> {
    let answers = answers(Constants::shipped());
    answers.into_iter().flat_map(|answer| answer.cases).map(|case| (case.id.clone(), case)).collect()
}

#[track_caller]
fn assert_inside((low, high): (f64, f64), published: f64) {
    // Published figures are rounded.
    let inside = low <= 1.01 * published && published <= 1.01 * high;
    assert!(inside, "{published} is not between {low} and {high}");
}

/// AWS, "Train gigantic models with near-linear scaling using sharded data parallelism on Amazon SageMaker", 31 October
/// 2022: rows of the table, at every micro-batch that fits.
#[test]
fn thirty_billion_parameters_over_every_micro_batch() {
    for (id, global, published) in [
        ("aws-smp-30b-s512", 3_072.0, 181.05),
        ("aws-smp-30b-s2048", 1_536.0, 73.52),
        ("aws-ds-30b-s2048", 1_536.0, 52.6),
    ] {
        assert_inside(rate_range(id, global), published);
    }
}

/// All figures of `questions.toml`: 30 billion parameters under SMP, under DeepSpeed and their ratio, 10 billion parameters,
/// the scaling of BERT, the minutes of GPT-J, the seconds of GPT-NeoX.
#[test]
fn figures_with_open_properties_lie_inside_their_ranges() {
    let found = figure_ranges();
    for (id, published) in [
        ("smp-30b-16-nodes", 181.05),
        ("smp-30b-32-nodes", 73.52),
        ("deepspeed-30b-16-nodes", 142.0),
        ("deepspeed-30b-32-nodes", 52.6),
        ("smp-over-deepspeed-30b-16-nodes", 181.05 / 142.0),
        ("smp-over-deepspeed-30b-32-nodes", 73.52 / 52.6),
        ("smp-10b-s512", 564.0),
        ("bert-squad-2n", 1.80),
        ("bert-squad-4n", 3.67),
        ("bert-squad-8n", 7.33),
        ("gptj-training", 480.0),
        ("neox-20b-job", 9_407.0),
    ] {
        let range = &found[id];
        assert!((range.published / published - 1.0).abs() < 1e-4, "{range:?}");
        assert_inside((range.low.unwrap(), range.high.unwrap()), published);
        assert_eq!(range.is_inside, Some(true), "{range:?}");
    }
    assert_eq!(found.len(), 12, "a figure is missing here");
    // Near-linear scaling: over nine tenths of it at the best batch.
    for (id, nodes) in [("bert-squad-2n", 2.0), ("bert-squad-4n", 4.0), ("bert-squad-8n", 8.0)] {
        assert!(found[id].high.unwrap() > 0.9 * nodes, "{:?}", found[id]);
    }
}

/// The same article: the days for 100 and 500 billion tokens follow from its samples per second, inside the predicted range.
#[test]
fn days_for_100_and_500_billion_tokens() {
    let days = |samples: f64, length: f64, tokens: f64| tokens / (samples * length) / 86_400.0;
    for (samples, length, tokens, published) in [
        (181.05, 512.0, 100e9, 12.49),
        (181.05, 512.0, 500e9, 62.43),
        (73.52, 2048.0, 100e9, 7.69),
        (73.52, 2048.0, 500e9, 38.43),
    ] {
        assert!((days(samples, length, tokens) - published).abs() < 0.006, "{published}");
    }
    let found = figure_ranges();
    for (id, length, tokens, published) in
        [("smp-30b-16-nodes", 512.0, 100e9, 12.49), ("smp-30b-32-nodes", 2048.0, 500e9, 38.43)]
    {
        let (low, high) = (found[id].low.unwrap(), found[id].high.unwrap());
        assert_inside((days(high, length, tokens), days(low, length, tokens)), published);
    }
}
