//! Figures read from a job's log by the expressions that its request carries.

use super::account::LogEvent;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;

/// The metric expressions of a job, and the last value of each: that of the first host that logs any, so that reading one
/// log and reading all give the same values.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    rows: Vec<(String, Regex)>,
    /// How many of the expressions are the request's own; the others are guesses.
    own: usize,
    latest: BTreeMap<String, (Host, f64)>,
    /// Which of the expressions is that of the training step.
    step: Option<usize>,
    /// From the first step that was seen to the last.
    steps: Option<Steps>,
}

/// Steps that a host told of, each with its time, milliseconds since 1970.
#[derive(Clone, Debug)]
struct Steps {
    host: Host,
    first: (f64, i64),
    last: (f64, i64),
}

/// A host, in the order of their numbers: `algo-2` before `algo-10`.
type Host = (usize, String);

/// The name of tokens per second.
pub const RATE: &str = "tokens/s";

/// The canonical names of metrics and their aliases.
const NAMES: &[(&str, &[&str])] = &[
    ("step", &["step", "global_step", "iteration"]),
    ("loss", &["loss"]),
    (RATE, &["tokens_per_s", "tokens_per_second", "tokens/s", "tps", "throughput"]),
    ("mfu", &["mfu"]),
];

/// Returns the canonical names, in display order.
pub fn names() -> Vec<&'static str> {
    NAMES.iter().map(|(word, _)| *word).collect()
}

impl Metrics {
    /// The expressions of a request (`AlgorithmSpecification.MetricDefinitions`). One that this dialect cannot read is
    /// left to SageMaker.
    pub fn from_request(request: &Value) -> Self {
        let text = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
        let list = request.pointer("/AlgorithmSpecification/MetricDefinitions").and_then(Value::as_array);
        let mut rows: Vec<(String, Regex)> = list
            .into_iter()
            .flatten()
            .filter_map(|row| Some((text(row, "Name")?, Regex::new(&text(row, "Regex")?).ok()?)))
            .collect();
        let own = rows.len();
        // Progress needs the step, which every training loop prints.
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
        Self { rows, own, latest: BTreeMap::new(), step, steps: None }
    }

    /// Returns true if each of the request's own expressions has found a figure.
    pub fn is_complete(&self) -> bool {
        self.rows.iter().take(self.own).all(|(name, _)| self.latest.contains_key(name))
    }

    /// Reads a line of a host that has a time; whether it had a figure.
    pub fn read_event(&mut self, host: &str, event: &LogEvent) -> bool {
        let (found, step) = self.read_figures(host, &event.text);
        if let Some(step) = step {
            self.record_step((host.len(), host.to_owned()), step, event.time);
        }
        found
    }

    /// Reads a line of a host; whether it had a figure.
    pub fn read(&mut self, host: &str, line: &str) -> bool {
        self.read_figures(host, line).0
    }

    /// A host that counts more than the one before begins anew, and so does a run that goes on from a checkpoint.
    fn record_step(&mut self, host: Host, step: f64, time: i64) {
        match &mut self.steps {
            Some(steps) if host > steps.host => {}
            Some(steps) if host == steps.host && step >= steps.last.0 => {
                if step > steps.last.0 {
                    steps.last = (step, time);
                }
            }
            steps => *steps = Some(Steps { host, first: (step, time), last: (step, time) }),
        }
    }

    /// Seconds of a step, from the first that was seen to the last: start-up is no part of it. Nothing before a second one
    /// is seen.
    pub fn step_seconds(&self) -> Option<f64> {
        let steps = self.steps.as_ref()?;
        let seconds = (steps.last.1 - steps.first.1) as f64 / 1_000.0;
        let count = steps.last.0 - steps.first.0;
        (seconds > 0.0 && count > 0.0).then(|| seconds / count)
    }

    /// Returns true if a line had a figure, and the training step in it.
    fn read_figures(&mut self, host: &str, line: &str) -> (bool, Option<f64>) {
        let host = (host.len(), host.to_owned());
        let (mut found, mut step) = (false, None);
        for (at, (name, regex)) in self.rows.iter().enumerate() {
            let value = regex.captures(line).and_then(|groups| groups.get(1)?.as_str().parse::<f64>().ok());
            if let Some(value) = value.filter(|value| value.is_finite()) {
                if self.latest.get(name).is_none_or(|(first, _)| host <= *first) {
                    self.latest.insert(name.clone(), (host.clone(), value));
                }
                found = true;
                if self.step == Some(at) {
                    step = Some(value);
                }
            }
        }
        (found, step)
    }

    /// The last figures under the words of the trade, in their order; others by their own names after them.
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

    /// The last figure under a word of the trade.
    pub fn get(&self, word: &str) -> Option<f64> {
        let find = |wanted: &dyn Fn(&str) -> bool| {
            self.latest.iter().find(|(name, _)| wanted(name)).map(|(_, (_, value))| *value)
        };
        // Training comes before validation, where both are measured.
        find(&|name| canonical_name(name) == Some(word) && name.starts_with("train"))
            .or_else(|| find(&|name| canonical_name(name) == Some(word)))
    }
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
        // The first host counts, from its own first step on.
        assert_eq!(at("algo-1", 900, 25), None);
        assert_eq!(at("algo-2", 901, 75), None);
        assert_eq!(at("algo-1", 975, 50), Some(3.0));
        assert_eq!(at("algo-1", 980, 50), Some(3.0), "said twice");
        // From a checkpoint: the time without machines is no step's.
        assert_eq!(at("algo-1", 9_000, 26), None);
        assert_eq!(at("algo-1", 9_040, 36), Some(4.0));
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
        // The last stage of a pipeline is the one that knows the loss.
        assert_eq!(read(&["algo-10", "algo-2"]), (true, Some(4.0), Some(2.1)));
        assert_eq!(read(&[]), (false, None, None));
    }
}
