//! Figures read from a job's log by the expressions that its request carries.

use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;

/// The expressions of a job, and the last figure of each: that of the first host that has any, so that whoever reads one
/// log and whoever reads all say the same.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    rows: Vec<(String, Regex)>,
    /// How many of the expressions are the request's own; the others are guesses.
    own: usize,
    latest: BTreeMap<String, (Host, f64)>,
}

/// A host, in the order of their numbers: `algo-2` before `algo-10`.
type Host = (usize, String);

/// What tokens per second are called.
pub const RATE: &str = "tokens/s";

/// The words of the trade for what a metric is called.
const WORDS: &[(&str, &[&str])] = &[
    ("step", &["step", "global_step", "iteration"]),
    ("loss", &["loss"]),
    (RATE, &["tokens_per_s", "tokens_per_second", "tokens/s", "tps", "throughput"]),
    ("mfu", &["mfu"]),
];

/// The words of the trade, in their order.
pub fn words() -> Vec<&'static str> {
    WORDS.iter().map(|(word, _)| *word).collect()
}

impl Metrics {
    /// The expressions of a request (`AlgorithmSpecification.MetricDefinitions`). One that this dialect cannot read is
    /// left to SageMaker.
    pub fn of(request: &Value) -> Self {
        let text = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
        let list = request.pointer("/AlgorithmSpecification/MetricDefinitions").and_then(Value::as_array);
        let mut rows: Vec<(String, Regex)> = list
            .into_iter()
            .flatten()
            .filter_map(|row| Some((text(row, "Name")?, Regex::new(&text(row, "Regex")?).ok()?)))
            .collect();
        let own = rows.len();
        // Progress needs the step, which every training loop prints.
        if !rows.iter().any(|(name, _)| word_of(name) == Some("step"))
            && let Ok(step) = Regex::new(r"\b(?:global_)?step\s*[=:]?\s*(\d+)")
        {
            rows.push(("step".to_owned(), step));
        }
        Self { rows, own, latest: BTreeMap::new() }
    }

    /// Whether each of the request's own expressions has found a figure.
    pub fn is_whole(&self) -> bool {
        self.rows.iter().take(self.own).all(|(name, _)| self.latest.contains_key(name))
    }

    /// Reads a line of a host; whether it had a figure.
    pub fn read(&mut self, host: &str, line: &str) -> bool {
        let host = (host.len(), host.to_owned());
        let mut found = false;
        for (name, regex) in &self.rows {
            let value = regex.captures(line).and_then(|groups| groups.get(1)?.as_str().parse::<f64>().ok());
            if let Some(value) = value.filter(|value| value.is_finite()) {
                if self.latest.get(name).is_none_or(|(first, _)| host <= *first) {
                    self.latest.insert(name.clone(), (host.clone(), value));
                }
                found = true;
            }
        }
        found
    }

    /// The last figures under the words of the trade, in their order; others by their own names after them.
    pub fn latest(&self) -> Vec<(String, f64)> {
        let mut out: Vec<(String, f64)> = Vec::new();
        for (word, _) in WORDS {
            if let Some(value) = self.get(word) {
                out.push(((*word).to_owned(), value));
            }
        }
        for (name, (_, value)) in self.latest.iter().filter(|(name, _)| word_of(name).is_none()) {
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
        find(&|name| word_of(name) == Some(word) && name.starts_with("train"))
            .or_else(|| find(&|name| word_of(name) == Some(word)))
    }
}

/// Which word of the trade a metric's name is: `train:loss` is `loss`.
fn word_of(name: &str) -> Option<&'static str> {
    let last = name.rsplit([':', '.']).next().unwrap_or(name).to_lowercase();
    WORDS.iter().find(|(_, names)| names.contains(&last.as_str())).map(|(word, _)| *word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_read_by_the_jobs_own_expressions() {
        let mut metrics = Metrics::of(&json!({"AlgorithmSpecification": {"MetricDefinitions": [
            {"Name": "eval:loss", "Regex": "eval_loss=([0-9.]+)"},
            {"Name": "train:loss", "Regex": "\\bloss=([0-9.]+)"},
            {"Name": "broken", "Regex": "(?<=a)b"},
            {"Name": "gpu", "Regex": "gpu ([0-9]+)%"},
        ]}}));
        assert!(metrics.read("algo-2", "step=12 loss=2.5 gpu 91%"));
        assert!(!metrics.is_whole());
        assert!(metrics.read("algo-2", "eval_loss=3.5"));
        assert!(!metrics.read("algo-2", "nothing here"));
        assert_eq!(metrics.get("loss"), Some(2.5));
        let latest = metrics.latest();
        let names: Vec<&str> = latest.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["step", "loss", "gpu"]);
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
            let mut metrics = Metrics::of(&request);
            for (host, line) in lines.iter().filter(|(host, _)| hosts.contains(host)) {
                metrics.read(host, line);
            }
            (metrics.is_whole(), metrics.get("step"), metrics.get("loss"))
        };
        let first = (true, Some(1.0), Some(2.5));
        assert_eq!(read(&["algo-1"]), first);
        assert_eq!(read(&["algo-10", "algo-2", "algo-1", "algo-8"]), first);
        // The last stage of a pipeline is the one that knows the loss.
        assert_eq!(read(&["algo-10", "algo-2"]), (true, Some(4.0), Some(2.1)));
        assert_eq!(read(&[]), (false, None, None));
    }
}
