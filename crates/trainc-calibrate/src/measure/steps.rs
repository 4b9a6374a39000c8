//! Medians over the steps of a run, excluding the first ones.

use super::lines::Report;
use trainc_ir::Plan;
use trainc_predict::memory::MeasuredAs;

/// Default number of reports to skip at the start: compilation, caches, clocks.
const WARM_UP: usize = 5;

/// Median of several figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// The lower quartile.
    pub low: f64,
    /// The upper quartile.
    pub high: f64,
    /// Number of figures.
    pub of: usize,
}

impl Median {
    /// Returns the median of figures; `None` without figures.
    pub fn from_values(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut all: Vec<f64> = figures.into_iter().filter(|value| value.is_finite()).collect();
        all.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (all.len().checked_sub(1)? as f64);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a place in the list"
            )]
            let below = place.floor() as usize;
            let (low, high) = (all.get(below)?, all.get(below + 1).or(all.get(below))?);
            Some(low + (high - low) * place.fract())
        };
        Some(Self { value: at(0.5)?, low: at(0.25)?, high: at(0.75)?, of: all.len() })
    }
}

/// Measurements of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Seconds of an optimizer step.
    pub step_seconds: Option<Median>,
    /// Source of the step time.
    pub step_from: Option<&'static str>,
    /// Tokens per second of the whole cluster.
    pub tokens_per_second: Option<Median>,
    /// Sequences per second of the whole cluster.
    pub samples_per_second: Option<Median>,
    /// Model FLOPs over peak, a fraction.
    pub mfu: Option<Median>,
    /// Last reported loss of the training data; no unit.
    pub loss: Option<f64>,
    /// All of them, in the order of the log.
    pub losses: Vec<f64>,
    /// Tokens per second of the whole cluster of each report, with the first steps, in the order of the log.
    pub rates: Vec<f64>,
    /// Seconds that a step waited for its data.
    pub input_seconds: Option<Median>,
    /// Seconds of the optimizer in a step.
    pub optimizer_seconds: Option<Median>,
    /// Highest reported memory of a GPU, bytes, and the instrument.
    pub memory: Option<(f64, MeasuredAs)>,
    /// First and last step that count.
    pub steps: Option<(u64, u64)>,
    /// Number of reports, and the number of them skipped at the start.
    pub reports: (usize, usize),
    /// Times of the first and the last reported step, with their numbers, if lines carry a time.
    pub times: Option<((f64, u64), (f64, u64))>,
    /// True if a GPU ran out of memory.
    pub out_of_memory: bool,
}

impl Measured {
    /// Returns the medians of the reports. `warm_up` is the number of steps to skip.
    pub fn from_reports(plan: &Plan, reports: &[Report], warm_up: Option<u64>, out_of_memory: bool) -> Self {
        let telling = |report: &&Report| {
            report.step_seconds.is_some()
                || report.tokens_per_second.is_some()
                || report.samples_per_second.is_some()
                || report.step.is_some()
        };
        let all: Vec<&Report> = reports.iter().filter(telling).collect();
        let first = all.iter().find_map(|report| report.step);
        let skipped = match (warm_up, first) {
            (Some(steps), Some(first)) => {
                let cold = |report: &&&Report| report.step.is_none_or(|step| step < first.max(1) + steps);
                all.iter().take_while(cold).count()
            }
            (Some(steps), None) => usize::try_from(steps).unwrap_or(usize::MAX).min(all.len()),
            // A third of a short log is still most of its warm-up.
            (None, _) => WARM_UP.min(all.len() / 3),
        };
        let warm: Vec<&Report> = all.iter().skip(skipped).copied().collect();
        let batch = plan.batch.as_ref();
        let tokens = batch.and_then(|batch| batch.global_tokens).map(|n| n as f64);
        let sequences = batch.map(|batch| batch.global_sequences.value as f64);
        let median =
            |of: &dyn Fn(&Report) -> Option<f64>| Median::from_values(warm.iter().filter_map(|one| of(one)));
        let told = |unit: Option<f64>, rate: &dyn Fn(&Report) -> Option<f64>| {
            median(&|report| Some(unit? / rate(report)?))
        };
        let sources: [(&'static str, Option<Median>); 4] = [
            ("reported as such", median(&|report| report.step_seconds)),
            ("tokens per step over tokens/s", told(tokens, &|report| report.tokens_per_second)),
            ("sequences per step over samples/s", told(sequences, &|report| report.samples_per_second)),
            ("the time between reported steps", Median::from_values(seconds_between_reports(&warm))),
        ];
        let step = sources.into_iter().find_map(|(from, median)| Some((from, median?)));
        let rate = |own: Option<Median>, unit: Option<f64>| {
            let (_, step) = step?;
            let unit = unit?;
            own.or(Some(Median {
                value: unit / step.value,
                low: unit / step.high,
                high: unit / step.low,
                of: step.of,
            }))
        };
        let rates = |report: &&Report| {
            report
                .tokens_per_second
                .or_else(|| Some(tokens? / report.step_seconds.filter(|step| *step > 0.0)?))
        };
        let numbers = || warm.iter().filter_map(|report| report.step);
        let timed = || all.iter().filter_map(|report| Some((report.time?, report.step?)));
        Self {
            step_seconds: step.map(|(_, median)| median),
            step_from: step.map(|(from, _)| from),
            tokens_per_second: rate(median(&|report| report.tokens_per_second), tokens),
            samples_per_second: rate(median(&|report| report.samples_per_second), sequences),
            mfu: median(&|report| report.mfu),
            loss: reports.iter().rev().find_map(|report| report.loss),
            losses: reports.iter().filter_map(|report| report.loss).collect(),
            rates: all.iter().filter_map(rates).collect(),
            input_seconds: median(&|report| report.input_seconds),
            optimizer_seconds: median(&|report| report.optimizer_seconds),
            memory: reports.iter().filter_map(|report| report.memory).max_by(|a, b| a.0.total_cmp(&b.0)),
            steps: numbers().min().zip(numbers().max()),
            reports: (all.len(), skipped),
            times: timed().next().zip(timed().next_back()),
            out_of_memory,
        }
    }

    /// Returns true if the reports contain nothing to compare with a prediction.
    pub fn has_no_figures(&self) -> bool {
        self.step_seconds.is_none() && self.memory.is_none() && self.mfu.is_none() && !self.out_of_memory
    }
}

/// Returns the seconds per step between adjacent reports that carry a time.
fn seconds_between_reports(reports: &[&Report]) -> Vec<f64> {
    let marks: Vec<(f64, u64)> = reports.iter().filter_map(|one| Some((one.time?, one.step?))).collect();
    marks
        .windows(2)
        .filter_map(|pair| match pair {
            [(from, first), (to, last)] if last > first && to > from => {
                Some((to - from) / (last - first) as f64)
            }
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quartiles() {
        let median = Median::from_values([4.0, 1.0, 2.0, 3.0, f64::NAN]).unwrap();
        assert_eq!((median.value, median.low, median.high, median.of), (2.5, 1.75, 3.25, 4));
        assert_eq!(Median::from_values([]), None);
    }

    #[test]
    fn steps_lie_between_reports() {
        let at = |time: f64, step: u64| Report { time: Some(time), step: Some(step), ..Report::default() };
        let reports = [at(0.0, 0), at(20.0, 10), at(20.0, 10), at(60.0, 20), at(61.0, 5)];
        assert_eq!(seconds_between_reports(&reports.iter().collect::<Vec<_>>()), [2.0, 4.0]);
    }
}
