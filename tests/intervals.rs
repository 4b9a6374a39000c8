//! Every figure of a plan says between what it is expected.

use crate::support::{files, root, trainc_in};
use serde_json::Value;
use std::time::Duration;

/// What is no prediction: what is written, counted, or a fact of the catalogue.
const NO_FIGURES: [&str; 17] = [
    // Prices, bounds, and bytes that are counted.
    "after_end",
    "batch",
    "cluster",
    "groups",
    "group_prices",
    "mesh",
    "model",
    "price",
    "problems",
    "source",
    "memory.capacity_bytes",
    "run.steps",
    "run.tokens",
    // Values of the manifest.
    "delivery",
    // A choice, and a ratio of two figures.
    "elsewhere.nodes",
    "elsewhere.saves",
    // What `max-run` allows is a bound itself.
    "run.most_usd",
];

/// The bytes of a checkpoint are counted, as the states are.
const COUNTED: &str = "run.checkpoint.bytes";

/// The figures that their section's own interval is of.
const HEADS: [&str; 3] = ["memory.per_gpu_bytes", "speed.step_seconds", "run.seconds"];

fn walk(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    let is_interval = |path: &str| path.ends_with("interval") || path.contains("interval.");
    if NO_FIGURES.contains(&path) || is_interval(path) || path == COUNTED {
        return;
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                walk(&path, value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(path, item, found)),
        Value::Number(_) | Value::Null => found.push((path.to_owned(), value.clone())),
        Value::Bool(_) | Value::String(_) => {}
    }
}

/// Where the interval of a figure may stand, as pointers of JSON.
fn places(path: &str) -> Vec<String> {
    let pointer = |path: &str| format!("/{}", path.replace('.', "/"));
    let mut out = vec![pointer(&format!("{path}_interval"))];
    if let Some((group, name)) = path.rsplit_once('.') {
        out.push(pointer(&format!("{group}_interval.{name}")));
        if HEADS.contains(&path) {
            out.push(pointer(&format!("{group}.interval")));
        }
    }
    out
}

#[test]
fn every_figure_has_an_interval() {
    let mut predicted = 0;
    let mut counted = 0;
    for manifest in files("examples", &[".kdl"]) {
        let text = crate::support::read(&manifest);
        if !crate::support::has_job(&text) {
            continue;
        }
        let args = ["plan", &manifest, "--offline", "-o", "json", "--exit-zero"];
        let ran = trainc_in(root(), &args, b"", Duration::from_mins(1));
        let Ok(plan) = serde_json::from_str::<Value>(&ran.out) else { panic!("{manifest}: {}", ran.err) };
        let mut found = Vec::new();
        walk("", &plan, &mut found);
        for (path, figure) in found {
            let interval = places(&path).iter().find_map(|place| plan.pointer(place)).cloned();
            let Some(value) = figure.as_f64() else {
                // What is not known has none.
                assert!(interval.is_none_or(|interval| interval.is_null()), "{manifest}: {path}");
                continue;
            };
            let interval = interval.unwrap_or_else(|| panic!("{manifest}: {path} has no interval"));
            let [low, high] = ["low", "high"].map(|end| interval[end].as_f64());
            let (Some(low), Some(high)) = (low, high) else { panic!("{manifest}: {path} {interval}") };
            assert!(low.is_finite() && high.is_finite() && low >= 0.0, "{manifest}: {path} {interval}");
            // Ends are computed apart from the figure: a last digit may be rounded otherwise.
            let slack = 1e-9 * value.abs();
            assert!(low <= value + slack && value <= high + slack, "{manifest}: {path} {value} {interval}");
            predicted += 1;
            if interval["origin"] == "counted" {
                assert!(low == value && value == high, "{manifest}: {path} {value} {interval}");
                counted += 1;
            }
        }
    }
    assert!(predicted > 300 && counted > 20, "{predicted} {counted}");
}
