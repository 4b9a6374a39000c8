//! Figures read from a job's log by the expressions that its request carries.

use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;

/// The expressions of a job, and the last figure of each.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    rows: Vec<(String, Regex)>,
    latest: BTreeMap<String, f64>,
}

/// The words of the trade for what a metric is called.
const WORDS: &[(&str, &[&str])] = &[
    ("step", &["step", "global_step", "iteration"]),
    ("loss", &["loss"]),
    ("tokens/s", &["tokens_per_s", "tokens_per_second", "tokens/s", "tps", "throughput"]),
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
        // Progress needs the step, which every training loop prints.
        if !rows.iter().any(|(name, _)| word_of(name) == Some("step"))
            && let Ok(step) = Regex::new(r"\b(?:global_)?step\s*[=:]?\s*(\d+)")
        {
            rows.push(("step".to_owned(), step));
        }
        Self { rows, latest: BTreeMap::new() }
    }

    /// Reads a line; whether it had a figure.
    pub fn read(&mut self, line: &str) -> bool {
        let mut found = false;
        for (name, regex) in &self.rows {
            let value = regex.captures(line).and_then(|groups| groups.get(1)?.as_str().parse::<f64>().ok());
            if let Some(value) = value.filter(|value| value.is_finite()) {
                self.latest.insert(name.clone(), value);
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
        for (name, value) in self.latest.iter().filter(|(name, _)| word_of(name).is_none()) {
            out.push((name.clone(), *value));
        }
        out
    }

    /// The last figure under a word of the trade.
    pub fn get(&self, word: &str) -> Option<f64> {
        let find = |wanted: &dyn Fn(&str) -> bool| {
            self.latest.iter().find(|(name, _)| wanted(name)).map(|(_, value)| *value)
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
        assert!(metrics.read("step=12 loss=2.5 gpu 91%"));
        assert!(metrics.read("eval_loss=3.5"));
        assert!(!metrics.read("nothing here"));
        assert_eq!(metrics.get("loss"), Some(2.5));
        let latest = metrics.latest();
        let names: Vec<&str> = latest.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["step", "loss", "gpu"]);
    }
}
