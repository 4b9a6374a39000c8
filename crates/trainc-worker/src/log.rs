//! Step metrics: one JSON line on stdout and one human-readable line on stderr.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::console;
use crate::train::{Report, Start};

/// Metrics of one optimizer step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepMetrics {
    /// Completed optimizer steps, from 1.
    pub step: usize,
    /// Loss in nats per token, mean over the global batch, before the update.
    pub loss: f64,
    /// Norm of the full gradient before clipping.
    pub grad_norm: f64,
    /// Learning rate of the update, per step.
    pub lr: f64,
    /// Tokens per second of all ranks.
    pub tokens_per_s: f64,
    /// Tokens per second since this run started or resumed, with evaluations and saves.
    #[serde(default)]
    pub average_tokens_per_s: f64,
    /// Model FLOPs utilization; null if the device's peak is unknown, as on CPUs.
    pub mfu: Option<f64>,
    /// Peak resident memory of the largest rank so far, in bytes.
    pub memory: u64,
}

impl StepMetrics {
    /// Formats the metrics for people.
    pub fn describe(&self) -> String {
        let mfu = self.mfu.map_or_else(|| "-".to_owned(), |mfu| format!("{mfu:.3}"));
        format!(
            "step={} loss={:.6} grad_norm={:.4} lr={:.3e} tokens_per_s={:.0} \
                average_tokens_per_s={:.0} mfu={mfu} memory_mib={}",
            self.step,
            self.loss,
            self.grad_norm,
            self.lr,
            self.tokens_per_s,
            self.average_tokens_per_s,
            self.memory >> 20
        )
    }
}

/// Log of the first rank: JSON lines on stdout and in `metrics.jsonl`, human-readable lines on stderr.
#[derive(Debug)]
pub struct MetricsLog {
    path: PathBuf,
    metrics: Option<File>,
}

/// Truncates the log after `step`: later steps are trained and logged again.
fn reopen(path: &Path, step: usize) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let before = match fs::read(path) {
        Ok(bytes) if step > 0 => bytes,
        Err(error) if step > 0 && error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => Vec::new(),
    };
    // An incomplete last line is dropped.
    let before = String::from_utf8_lossy(&before);
    let kept = before.lines().filter(|line| {
        let value = serde_json::from_str::<Value>(line).unwrap_or_default();
        value.get("step").and_then(Value::as_u64).is_some_and(|at| at <= step as u64)
    });
    let text: String = kept.flat_map(|line| [line, "\n"]).collect();
    let partial = path.with_extension("partial");
    fs::write(&partial, text)?;
    fs::rename(&partial, path)?;
    File::options().append(true).open(path)
}

impl MetricsLog {
    /// Creates a log that writes `metrics.jsonl` to `directory`.
    pub fn new(directory: &Path) -> Self {
        Self { path: directory.join("metrics.jsonl"), metrics: None }
    }

    fn write_line(&mut self, line: &Value) {
        let written = self.metrics.as_mut().map(|file| file.write_all(format!("{line}\n").as_bytes()));
        if let Some(Err(error)) = written {
            // Training continues without the metrics file.
            self.metrics = None;
            self.warning(&format!("{}: {error}; no further metrics are written", self.path.display()));
        }
    }
}

impl Report for MetricsLog {
    fn start(&mut self, start: &Start) {
        match reopen(&self.path, start.step) {
            Ok(file) => self.metrics = Some(file),
            Err(error) => {
                self.warning(&format!("{}: {error}; no metrics are written", self.path.display()));
            }
        }
        let mut line = json!({"event": "start"});
        if let (Some(line), Ok(Value::Object(start))) = (line.as_object_mut(), serde_json::to_value(start)) {
            line.extend(start);
        }
        self.write_line(&line);
        console::print_stderr(format_args!(
            "memory per rank: {}; resident: {} MiB",
            start.memory_parts.describe(),
            start.resident >> 20
        ));
    }
    fn step(&mut self, line: &StepMetrics) {
        if let Ok(json) = serde_json::to_value(line) {
            self.write_line(&json);
        }
        if let Ok(json) = serde_json::to_string(line) {
            console::print_stdout(json);
        }
        console::print_stderr(line.describe());
    }
    fn evaluation(&mut self, step: usize, loss: f64) {
        let line = json!({"step": step, "validation_loss": loss});
        self.write_line(&line);
        console::print_stdout(&line);
        console::print_stderr(format_args!("step={step} validation_loss={loss:.6}"));
    }
    fn note(&mut self, text: &str) {
        console::print_stderr(text);
    }
    fn warning(&mut self, text: &str) {
        let line = json!({"event": "warning", "warning": text});
        self.write_line(&line);
        console::print_stdout(&line);
        console::print_stderr(format_args!("warning: {text}"));
    }
}

/// Reads a number in kB from /proc/self/status and returns it in bytes.
fn proc_status_bytes(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|n| n.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

/// Returns the peak resident memory of this process in bytes.
pub fn peak_resident() -> u64 {
    proc_status_bytes("VmHWM")
}

/// Returns the current resident memory of this process in bytes.
pub fn resident() -> u64 {
    proc_status_bytes("VmRSS")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line = StepMetrics {
            step: 3,
            loss: 2.5,
            grad_norm: 0.75,
            lr: 3e-4,
            tokens_per_s: 1234.5,
            average_tokens_per_s: 1200.0,
            mfu: None,
            memory: 5 << 20,
        };
        assert_eq!(
            line.describe(),
            "step=3 loss=2.500000 grad_norm=0.7500 lr=3.000e-4 tokens_per_s=1234 \
                average_tokens_per_s=1200 mfu=- memory_mib=5"
        );
        let json = serde_json::to_string(&line).unwrap();
        assert_eq!(
            json,
            r#"{"step":3,"loss":2.5,"grad_norm":0.75,"lr":0.0003,"tokens_per_s":1234.5,"average_tokens_per_s":1200.0,"mfu":null,"memory":5242880}"#
        );
        assert!(peak_resident() > 1 << 20);
    }
}
