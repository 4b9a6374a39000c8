//! How fast a simulated job trains: as its plan predicts, so that what a simulation shows is what was planned.

use super::state::JobState;
use serde::{Deserialize, Serialize};

/// What a plan predicts of the speed of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// Seconds of an optimizer step.
    pub step_seconds: f64,
    /// Tokens per second of all ranks together.
    pub tokens_per_second: f64,
    /// Model FLOPs over peak, a fraction.
    pub mfu: f64,
}

/// Seconds of training, tokens per second and model FLOPs over peak of a job of whose speed nothing is predicted: figures
/// that stand in for some, and are nobody's.
const STAND_IN: (f64, f64, f64) = (3_600.0, 41_250.0, 0.412);

/// The most seconds of training. A longer one is shown in time-lapse: its steps follow each other more quickly than its
/// tokens per second say, or whoever tries weeks of training would wait for them to be told.
const LONGEST: f64 = 6.0 * 3_600.0;

/// The fewest seconds after which a program fails: it has said something by then.
const LEAST_FAILING: f64 = 60.0;

/// Lines that a host writes while it trains, at most.
const LINES: u64 = 120;

/// How much of the time between two lines each of them may come sooner or later.
const WOBBLE: f64 = 0.006;

/// A line of a job's progress.
pub(super) struct Line {
    /// The step that has ended.
    pub step: u64,
    /// When, in seconds since the program began.
    pub seconds: f64,
    /// Tokens per second since the line before.
    pub tokens_per_second: f64,
    /// Model FLOPs over peak since then, a fraction.
    pub mfu: f64,
}

/// Seconds that a job trains.
pub(super) fn training_seconds(state: &JobState) -> f64 {
    let steps = state.steps.max(1) as f64;
    let planned = state.pace.map(|pace| pace.step_seconds * steps);
    planned.filter(|seconds| *seconds > 0.0).map_or(STAND_IN.0, |seconds| seconds.min(LONGEST))
}

/// After how many seconds of training a job that fails in its program does: with a sixth of its steps done.
pub(super) fn fails_after(state: &JobState) -> f64 {
    (training_seconds(state) / 6.0).max(LEAST_FAILING)
}

/// How many lines a host writes while it trains.
pub(super) fn line_count(state: &JobState) -> u64 {
    LINES.min(state.steps.max(1))
}

/// The step and the time of a line, from 1; of line 0 the beginning.
fn step_and_time(state: &JobState, number: u64) -> (u64, f64) {
    let (steps, lines) = (state.steps.max(1), line_count(state));
    let step = steps * number / lines;
    let seconds = training_seconds(state) / steps as f64;
    // Between -1 and 1, and the same every time; the first step and the last are in time.
    let swing = if number == 0 || number >= lines {
        0.0
    } else {
        ((number * number * 37 + number * 11) % 101) as f64 / 50.0 - 1.0
    };
    (step, seconds * (step as f64 + swing * WOBBLE * steps as f64 / lines as f64))
}

/// A line, from 1, if the job writes so many.
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
        // Not all lines say the same.
        assert!(line(&state, 1).unwrap().tokens_per_second != line(&state, 2).unwrap().tokens_per_second);
    }

    #[test]
    fn what_is_short_long_or_unknown_is_shown_too() {
        let pace = |step_seconds| Some(Pace { step_seconds, tokens_per_second: 10.0, mfu: 0.1 });
        // Each step has its line.
        let few = job(7, pace(2.0));
        assert_eq!(
            (1..=7).map(|at| line(&few, at).unwrap().step).collect::<Vec<_>>(),
            (1..=7).collect::<Vec<_>>()
        );
        assert_eq!((training_seconds(&few), fails_after(&few)), (14.0, 60.0));
        // Weeks are told in hours, at the rate that was planned.
        let long = job(100_000, pace(20.0));
        assert_eq!(training_seconds(&long), LONGEST);
        assert!((line(&long, 120).unwrap().tokens_per_second / 10.0 - 1.0).abs() < 0.02);
        let unknown = job(120, None);
        assert_eq!((training_seconds(&unknown), fails_after(&unknown)), (3_600.0, 600.0));
        assert!((line(&unknown, 60).unwrap().tokens_per_second / 41_250.0 - 1.0).abs() < 0.02);
    }
}
