//! Training speed of a simulated job: as predicted by its plan, so that the simulation agrees with the plan.

use super::state::JobState;
use serde::{Deserialize, Serialize};

/// A plan's prediction of the speed of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// Seconds per optimizer step.
    pub step_seconds: f64,
    /// Tokens per second, over all ranks.
    pub tokens_per_second: f64,
    /// Model FLOPs utilization, a fraction.
    pub mfu: f64,
}

/// Placeholder values for a job without a prediction: seconds of training (at most half of its max-run),
/// tokens per second, and model FLOPs utilization.
const STAND_IN: (f64, f64, f64) = (3_600.0, 41_250.0, 0.412);

/// Minimum seconds until a program fails, so that it has logged some lines.
const LEAST_FAILING: f64 = 60.0;

/// Maximum number of lines that a host logs during training.
const LINES: u64 = 120;

/// Variation of each line's time, as a fraction of the interval between lines.
const WOBBLE: f64 = 0.006;

/// A progress line of a job.
pub(super) struct Line {
    /// The completed step.
    pub step: u64,
    /// Time in seconds since the program's start.
    pub seconds: f64,
    /// Tokens per second since the previous line.
    pub tokens_per_second: f64,
    /// Model FLOPs utilization since the previous line, a fraction.
    pub mfu: f64,
}

/// Returns the seconds of training.
pub(super) fn training_seconds(state: &JobState) -> f64 {
    let steps = state.steps.max(1) as f64;
    let planned = state.pace.map(|pace| pace.step_seconds * steps);
    planned.filter(|seconds| *seconds > 0.0).unwrap_or_else(|| STAND_IN.0.min(max_run_seconds(state) / 2.0))
}

/// Returns `MaxRuntimeInSeconds` of the request; infinite without one.
pub(super) fn max_run_seconds(state: &JobState) -> f64 {
    let bound = state.job.request.pointer("/StoppingCondition/MaxRuntimeInSeconds");
    bound.and_then(serde_json::Value::as_f64).unwrap_or(f64::INFINITY)
}

/// Returns the seconds of training after which a failing program ends: a sixth of the training.
pub(super) fn fails_after(state: &JobState) -> f64 {
    (training_seconds(state) / 6.0).max(LEAST_FAILING)
}

/// Returns the number of lines that a host logs during training.
pub(super) fn line_count(state: &JobState) -> u64 {
    LINES.min(state.steps.max(1))
}

/// Returns the step and time of a line, counted from 1; line 0 is the start.
fn step_and_time(state: &JobState, number: u64) -> (u64, f64) {
    let (steps, lines) = (state.steps.max(1), line_count(state));
    let step = steps * number / lines;
    let seconds = training_seconds(state) / steps as f64;
    // Deterministic, between -1 and 1; the first and the last line are on time.
    let swing = if number == 0 || number >= lines {
        0.0
    } else {
        ((number * number * 37 + number * 11) % 101) as f64 / 50.0 - 1.0
    };
    (step, seconds * (step as f64 + swing * WOBBLE * steps as f64 / lines as f64))
}

/// Returns a line, counted from 1; `None` beyond the last.
pub(super) fn line(state: &JobState, number: u64) -> Option<Line> {
    if number == 0 || number > line_count(state) {
        return None;
    }
    let ((before, from), (step, seconds)) = (step_and_time(state, number - 1), step_and_time(state, number));
    let even = training_seconds(state) * (step - before) as f64 / state.steps.max(1) as f64;
    let quicker = even / (seconds - from);
    let (rate, mfu) = state.pace.map_or((STAND_IN.1, STAND_IN.2), |pace| (pace.tokens_per_second, pace.mfu));
    Some(Line { step, seconds, tokens_per_second: rate * quicker, mfu: mfu * quicker })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(steps: u64, pace: Option<Pace>) -> JobState {
        JobState { steps, pace, ..JobState::default() }
    }

    /// By hand: 1,000 steps of 8,192 tokens in 2 seconds each.
    #[test]
    fn steps_and_tokens_and_time_agree() {
        let pace = Pace { step_seconds: 2.0, tokens_per_second: 4_096.0, mfu: 0.5 };
        let state = job(1_000, Some(pace));
        assert_eq!((training_seconds(&state), line_count(&state)), (2_000.0, 120));
        let mut last = (0, 0.0);
        for number in 1..=120 {
            let line = line(&state, number).unwrap();
            let tokens = (line.step - last.0) as f64 * 8_192.0;
            assert!((line.tokens_per_second * (line.seconds - last.1) / tokens - 1.0).abs() < 1e-9);
            let off = line.tokens_per_second / 4_096.0 - 1.0;
            assert!(off.abs() < 0.02 && (line.mfu / 0.5 - 1.0 - off).abs() < 1e-9, "{number}: {off}");
            last = (line.step, line.seconds);
        }
        assert!(last == (1_000, 2_000.0) && line(&state, 121).is_none());
        // The rate varies between lines.
        assert!(line(&state, 1).unwrap().tokens_per_second != line(&state, 2).unwrap().tokens_per_second);
    }

    #[test]
    fn what_is_short_long_or_unknown_is_shown_too() {
        let pace = |step_seconds| Some(Pace { step_seconds, tokens_per_second: 10.0, mfu: 0.1 });
        // Each step has a line.
        let few = job(7, pace(2.0));
        assert_eq!(
            (1..=7).map(|at| line(&few, at).unwrap().step).collect::<Vec<_>>(),
            (1..=7).collect::<Vec<_>>()
        );
        assert_eq!((training_seconds(&few), fails_after(&few)), (14.0, 60.0));
        let long = job(100_000, pace(20.0));
        assert_eq!(training_seconds(&long), 2_000_000.0);
        assert!((line(&long, 120).unwrap().tokens_per_second / 10.0 - 1.0).abs() < 0.02);
        let mut short = job(120, None);
        short.job.request = serde_json::json!({"StoppingCondition": {"MaxRuntimeInSeconds": 1_000}});
        assert_eq!(training_seconds(&short), 500.0);
        let unknown = job(120, None);
        assert_eq!((training_seconds(&unknown), fails_after(&unknown)), (3_600.0, 600.0));
        assert!((line(&unknown, 60).unwrap().tokens_per_second / 41_250.0 - 1.0).abs() < 0.02);
    }
}
