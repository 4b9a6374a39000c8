//! Metrics in a job's log, read by the metric definitions of its request.

use super::account::LogEvent;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;

/// Metric definitions of a job, with the last value of each. Values are those of the first host that logs the
/// metric, so that reading one log or all of them gives the same values.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    rows: Vec<(String, Regex)>,
    /// Number of definitions from the request; the others are guesses.
    own: usize,
    latest: BTreeMap<String, (Host, f64)>,
    /// Index of the definition of the training step.
    step: Option<usize>,
    /// The first and the last step seen.
    steps: Option<Steps>,
    /// Losses, rates and steps per second of the first host that logs them.
    loss: Series,
    rate: Series,
    /// Find the loss and the tokens per second in a line if the job has no metric for them.
    guessed_loss: Option<Regex>,
    guessed_rate: Option<Regex>,
    steps_per_second: Series,
}

/// Figures in the order of the log, of the first host that logs them.
#[derive(Clone, Debug, Default)]
struct Series {
    host: Option<Host>,
    /// Means of 2^`halvings` figures each.
    means: Vec<f64>,
    /// Number of times that each two means became one.
    halvings: u32,
    /// Figures of the next mean.
    pending: Vec<f64>,
}

/// Most means of a series; then each two become one.
const MOST_MEANS: usize = 1_024;

impl Series {
    fn push(&mut self, host: &Host, figure: f64) {
        if self.host.as_ref().is_some_and(|own| own < host) {
            return;
        }
        if self.host.as_ref() != Some(host) {
            *self = Self { host: Some(host.clone()), ..Self::default() };
        }
        self.pending.push(figure);
        if self.pending.len() < 1 << self.halvings {
            return;
        }
        self.means.push(mean(&self.pending));
        self.pending.clear();
        if self.means.len() >= MOST_MEANS {
            self.means = self.means.chunks(2).map(mean).collect();
            self.halvings += 1;
        }
    }
}

fn mean(figures: &[f64]) -> f64 {
    figures.iter().map(|figure| figure / figures.len() as f64).sum()
}

/// Steps that a host has logged, each with its time in milliseconds since 1970.
#[derive(Clone, Debug)]
struct Steps {
    host: Host,
    first: (f64, i64),
    last: (f64, i64),
}

/// A host; ordered by number, `algo-2` before `algo-10`.
type Host = (usize, String);

/// Canonical name of tokens per second.
pub const RATE: &str = "tokens/s";

/// Canonical name of the model FLOPS utilization.
pub const MFU: &str = "mfu";

/// Canonical names of metrics with their aliases.
const NAMES: &[(&str, &[&str])] = &[
    ("step", &["step", "global_step", "iteration"]),
    ("loss", &["loss"]),
    (RATE, &["tokens_per_s", "tokens_per_second", "tokens/s", "tps", "throughput"]),
    (MFU, &["mfu"]),
];

/// Returns the canonical names, in display order.
pub fn names() -> Vec<&'static str> {
    NAMES.iter().map(|(word, _)| *word).collect()
}

impl Metrics {
    /// Reads the metric definitions of a request (`AlgorithmSpecification.MetricDefinitions`). Regular
    /// expressions that the `regex` crate does not support are skipped.
    pub fn from_request(request: &Value) -> Self {
        let text = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
        let list = request.pointer("/AlgorithmSpecification/MetricDefinitions").and_then(Value::as_array);
        let mut rows: Vec<(String, Regex)> = list
            .into_iter()
            .flatten()
            .filter_map(|row| Some((text(row, "Name")?, Regex::new(&text(row, "Regex")?).ok()?)))
            .collect();
        let own = rows.len();
        // Progress requires the step, which almost every training loop prints.
        if !rows.iter().any(|(name, _)| canonical_name(name) == Some("step"))
            && let Ok(step) = Regex::new(r"\b(?:global_)?step\s*[=:]?\s*(\d+)")
        {
            rows.push(("step".to_owned(), step));
        }
        let is_step = |(name, _): &(String, Regex)| canonical_name(name) == Some("step");
        let step = rows
            .iter()
            .position(|row| is_step(row) && row.0.starts_with("train"))
            .or_else(|| rows.iter().position(is_step));
        let has = |word: &str| rows.iter().any(|(name, _)| canonical_name(name) == Some(word));
        let guess = |word: &str, regex: &str| if has(word) { None } else { Regex::new(regex).ok() };
        let guessed_loss = guess("loss", r"\bloss\s*[=:]\s*([0-9]+(?:\.[0-9]+)?)");
        let guessed_rate =
            guess(RATE, r"(?i)\btokens(?:_per_s(?:ec(?:ond)?)?|/s)\s*[=:]\s*([0-9]+(?:\.[0-9]+)?)");
        Self { rows, own, step, guessed_loss, guessed_rate, ..Self::default() }
    }

    /// Returns true if each definition of the request has a value.
    pub fn is_complete(&self) -> bool {
        self.rows.iter().take(self.own).all(|(name, _)| self.latest.contains_key(name))
    }

    /// Reads a log event of a host; returns true if it contains a metric.
    pub fn read_event(&mut self, host: &str, event: &LogEvent) -> bool {
        let (found, step) = self.read_figures(host, &event.text);
        if let Some(step) = step {
            self.record_step((host.len(), host.to_owned()), step, event.time);
        }
        found
    }

    /// Reads a line of a host; returns true if it contains a metric.
    pub fn read(&mut self, host: &str, line: &str) -> bool {
        self.read_figures(host, line).0
    }

    /// Records a step. A host with a lower number, or a lower step after a restart from a checkpoint, resets
    /// the measurement.
    fn record_step(&mut self, host: Host, step: f64, time: i64) {
        match &mut self.steps {
            Some(steps) if host > steps.host => {}
            Some(steps) if host == steps.host && step >= steps.last.0 => {
                if step > steps.last.0 {
                    let seconds = (time - steps.last.1) as f64 / 1_000.0;
                    if seconds > 0.0 {
                        self.steps_per_second.push(&host, (step - steps.last.0) / seconds);
                    }
                    steps.last = (step, time);
                }
            }
            steps => *steps = Some(Steps { host, first: (step, time), last: (step, time) }),
        }
    }

    /// Returns the first and the last step of the current attempt, each with its time in milliseconds since
    /// 1970.
    pub fn steps(&self) -> Option<((f64, i64), (f64, i64))> {
        self.steps.as_ref().map(|steps| (steps.first, steps.last))
    }

    /// Returns the mean seconds per step from the first to the last step seen, without start-up; `None`
    /// before the second step.
    pub fn step_seconds(&self) -> Option<f64> {
        let steps = self.steps.as_ref()?;
        let seconds = (steps.last.1 - steps.first.1) as f64 / 1_000.0;
        let count = steps.last.0 - steps.first.0;
        (seconds > 0.0 && count > 0.0).then(|| seconds / count)
    }

    /// Reads a line; returns true if it contains a metric, and the training step if it contains one.
    fn read_figures(&mut self, host: &str, line: &str) -> (bool, Option<f64>) {
        let host = (host.len(), host.to_owned());
        let (mut found, mut step) = (false, None);
        for (regex, series) in [(&self.guessed_loss, &mut self.loss), (&self.guessed_rate, &mut self.rate)] {
            let figure = regex.as_ref().and_then(|regex| regex.captures(line));
            if let Some(figure) = figure.and_then(|groups| groups.get(1)?.as_str().parse::<f64>().ok()) {
                series.push(&host, figure);
            }
        }
        for (at, (name, regex)) in self.rows.iter().enumerate() {
            let value = regex.captures(line).and_then(|groups| groups.get(1)?.as_str().parse::<f64>().ok());
            if let Some(value) = value.filter(|value| value.is_finite()) {
                if self.latest.get(name).is_none_or(|(first, _)| host <= *first) {
                    self.latest.insert(name.clone(), (host.clone(), value));
                }
                match canonical_name(name) {
                    // The validation loss has its own course.
                    Some("loss") if !is_validation(name) => self.loss.push(&host, value),
                    Some(RATE) => self.rate.push(&host, value),
                    _ => {}
                }
                found = true;
                if self.step == Some(at) {
                    step = Some(value);
                }
            }
        }
        (found, step)
    }

    /// Returns the losses of the training data in the order of the log.
    pub fn losses(&self) -> &[f64] {
        &self.loss.means
    }

    /// Returns the tokens per second in the order of the log: as logged, or by the times of the steps, each
    /// with `tokens_per_step` tokens.
    pub fn rates(&self, tokens_per_step: Option<f64>) -> Vec<f64> {
        if !self.rate.means.is_empty() {
            return self.rate.means.clone();
        }
        let tokens = tokens_per_step.into_iter();
        tokens
            .flat_map(|tokens| self.steps_per_second.means.iter().map(move |steps| tokens * steps))
            .collect()
    }

    /// Returns the last values: first those with canonical names, in display order, then the others by their
    /// own names.
    pub fn latest(&self) -> Vec<(String, f64)> {
        let mut out: Vec<(String, f64)> = Vec::new();
        for (word, _) in NAMES {
            if let Some(value) = self.get(word) {
                out.push(((*word).to_owned(), value));
            }
        }
        for (name, (_, value)) in self.latest.iter().filter(|(name, _)| canonical_name(name).is_none()) {
            out.push((name.clone(), *value));
        }
        out
    }

    /// Returns the last value under a canonical name.
    pub fn get(&self, word: &str) -> Option<f64> {
        let find = |wanted: &dyn Fn(&str) -> bool| {
            self.latest.iter().find(|(name, _)| wanted(name)).map(|(_, (_, value))| *value)
        };
        // Training values take precedence over validation values.
        find(&|name| canonical_name(name) == Some(word) && name.starts_with("train"))
            .or_else(|| find(&|name| canonical_name(name) == Some(word)))
    }
}

/// Returns true for metrics of validation data: `eval:loss`, `validation:loss`.
fn is_validation(name: &str) -> bool {
    ["eval", "val", "test"].iter().any(|word| name.starts_with(word))
}

/// Returns the canonical name of a metric: `train:loss` is `loss`.
fn canonical_name(name: &str) -> Option<&'static str> {
    let last = name.rsplit([':', '.']).next().unwrap_or(name).to_lowercase();
    NAMES.iter().find(|(_, names)| names.contains(&last.as_str())).map(|(word, _)| *word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_read_by_the_jobs_own_expressions() {
        let mut metrics = Metrics::from_request(&json!({"AlgorithmSpecification": {"MetricDefinitions": [
            {"Name": "eval:loss", "Regex": "eval_loss=([0-9.]+)"},
            {"Name": "train:loss", "Regex": "\\bloss=([0-9.]+)"},
            {"Name": "broken", "Regex": "(?<=a)b"},
            {"Name": "gpu", "Regex": "gpu ([0-9]+)%"},
        ]}}));
        assert!(metrics.read("algo-2", "step=12 loss=2.5 gpu 91%"));
        assert!(!metrics.is_complete());
        assert!(metrics.read("algo-2", "eval_loss=3.5"));
        assert!(!metrics.read("algo-2", "nothing here"));
        assert_eq!(metrics.get("loss"), Some(2.5));
        let latest = metrics.latest();
        let names: Vec<&str> = latest.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["step", "loss", "gpu"]);
    }

    #[test]
    fn the_rate_is_that_of_the_steps_alone() {
        let mut metrics = Metrics::from_request(&json!({}));
        let mut at = |host: &str, seconds: i64, step: u32| {
            let text = format!("step={step} loss=2.5");
            metrics.read_event(host, &LogEvent { time: 1_700_000_000_000 + seconds * 1_000, text });
            metrics.step_seconds()
        };
        assert_eq!(at("algo-2", 600, 25), None, "one step says nothing of how long it took");
        assert_eq!(at("algo-2", 650, 50), Some(2.0));
        // Only the first host counts, from its own first step.
        assert_eq!(at("algo-1", 900, 25), None);
        assert_eq!(at("algo-2", 901, 75), None);
        assert_eq!(at("algo-1", 975, 50), Some(3.0));
        assert_eq!(at("algo-1", 980, 50), Some(3.0), "said twice");
        // After a restart from a checkpoint, the time without instances is not part of a step.
        assert_eq!(at("algo-1", 9_000, 26), None);
        assert_eq!(at("algo-1", 9_040, 36), Some(4.0));
    }

    #[test]
    fn a_series_is_that_of_the_first_host() {
        let mut metrics = Metrics::from_request(&json!({"AlgorithmSpecification": {"MetricDefinitions": [
            {"Name": "train:loss", "Regex": "\\bloss=([0-9.]+)"},
            {"Name": "eval:loss", "Regex": "eval_loss=([0-9.]+)"},
        ]}}));
        for (host, seconds, text) in [
            ("algo-2", 0, "step=1 loss=9"),
            ("algo-1", 10, "step=1 loss=5"),
            ("algo-2", 11, "step=2 loss=8"),
            ("algo-1", 12, "step=2 loss=4"),
            ("algo-1", 13, "eval_loss=7"),
            ("algo-1", 16, "step=4 loss=3"),
        ] {
            let event = LogEvent { time: 1_700_000_000_000 + seconds * 1_000, text: text.to_owned() };
            metrics.read_event(host, &event);
        }
        assert_eq!(metrics.losses(), [5.0, 4.0, 3.0]);
        assert_eq!(metrics.rates(Some(100.0)), [50.0, 50.0]);
        assert_eq!(metrics.rates(None), [0.0; 0]);
        // The log's own figures count more.
        for text in ["step=5 loss=2 tokens_per_s=60.5", "step=6 tokens/s: 61"] {
            metrics.read("algo-1", text);
        }
        assert_eq!(metrics.rates(Some(100.0)), [60.5, 61.0]);
    }

    #[test]
    fn a_long_series_stays_small() {
        let mut series = Series::default();
        for figure in 0..(1 << 17) {
            series.push(&(6, "algo-1".to_owned()), f64::from(figure));
        }
        // 512 means of 256 figures each.
        assert!((512..MOST_MEANS).contains(&series.means.len()), "{}", series.means.len());
        assert!((series.means[0] - 127.5).abs() < 1e-9, "{}", series.means[0]);
        let gaps = series.means.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.clone().all(|gap| (gap - 256.0).abs() < 1e-6), "{:?}", gaps.collect::<Vec<_>>());
    }

    #[test]
    fn a_figure_is_the_first_hosts_whoever_is_read() {
        let request = json!({"AlgorithmSpecification": {"MetricDefinitions": [
            {"Name": "train:loss", "Regex": "loss=([0-9.]+)"},
        ]}});
        let lines = [
            ("algo-10", "step=4 loss=2.0"),
            ("algo-2", "step=4 loss=2.1"),
            ("algo-1", "step=1 loss=2.5"),
            ("algo-8", "step=4 loss=2.0"),
        ];
        let read = |hosts: &[&str]| {
            let mut metrics = Metrics::from_request(&request);
            for (host, line) in lines.iter().filter(|(host, _)| hosts.contains(host)) {
                metrics.read(host, line);
            }
            (metrics.is_complete(), metrics.get("step"), metrics.get("loss"))
        };
        let first = (true, Some(1.0), Some(2.5));
        assert_eq!(read(&["algo-1"]), first);
        assert_eq!(read(&["algo-10", "algo-2", "algo-1", "algo-8"]), first);
        // Only the last pipeline stage logs the loss.
        assert_eq!(read(&["algo-10", "algo-2"]), (true, Some(4.0), Some(2.1)));
        assert_eq!(read(&[]), (false, None, None));
    }
}
