//! Reads log lines as figures: JSON of the worker or of `trainc logs -o json`, and text by the job's own
//! expressions.

use super::faults::{Fault, Faults, Wrong};
use super::names::{Meaning, SAMPLES, STEP_TIMES, TOKENS, parse_metric_name};
use regex::Regex;
use serde_json::Value;
use trainc_diag::text;
use trainc_ir::mfu::mfu_as_fraction;
use trainc_predict::memory::MeasuredAs;

/// Figures that a line reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Optimizer step of the report.
    pub step: Option<u64>,
    /// Time of writing, seconds since an arbitrary origin.
    pub time: Option<f64>,
    /// Seconds of a step.
    pub step_seconds: Option<f64>,
    /// Tokens per second of the whole cluster.
    pub tokens_per_second: Option<f64>,
    /// Sequences per second of the whole cluster.
    pub samples_per_second: Option<f64>,
    /// Model FLOPs over peak, a fraction.
    pub mfu: Option<f64>,
    /// Memory of a GPU, bytes, and the instrument.
    pub memory: Option<(f64, MeasuredAs)>,
    /// Mean loss of the training data; no unit.
    pub loss: Option<f64>,
    /// Seconds that a step waited for its data.
    pub input_seconds: Option<f64>,
    /// Seconds of the optimizer in a step.
    pub optimizer_seconds: Option<f64>,
}

/// Reader of log lines.
#[derive(Debug)]
pub struct Reader {
    rows: Vec<(Meaning, f64, Regex)>,
    pairs: Option<Regex>,
    gpus: f64,
    /// Names of the job's metrics, with true for each that the reader looks for.
    metrics: Vec<(String, bool)>,
    host: Option<String>,
    /// Parsed value.
    pub reports: Vec<Report>,
    /// True if a GPU ran out of memory.
    pub out_of_memory: bool,
    faults: Faults,
    /// The last reported step.
    last: Option<u64>,
}

impl Reader {
    /// Creates a reader for a job on `gpus` GPUs from its expressions, each with its metric's name. Figures
    /// without an expression are read from `name=value` and `name: value`.
    pub fn new<'a>(metrics: impl IntoIterator<Item = (&'a str, &'a str)>, gpus: u64) -> Self {
        let gpus = gpus as f64;
        let mut told = Vec::new();
        let rows = metrics
            .into_iter()
            .filter_map(|(name, regex)| {
                let row = parse_metric_name(name, gpus).and_then(|(meaning, times)| {
                    // An expression that this regex dialect does not support is left to SageMaker.
                    Some((meaning, times, Regex::new(regex).ok()?))
                });
                told.push((name.to_owned(), row.is_some()));
                row
            })
            .collect();
        Self {
            metrics: told,
            rows,
            pairs: Regex::new(
                r"([A-Za-z][\w/.:-]*?)['\x22]?\s*[=:]\s*(-?[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?|-?(?i:nan|inf(?:inity)?)\b)",
            )
            .ok(),
            gpus,
            host: None,
            reports: Vec::new(),
            out_of_memory: false,
            faults: Faults::default(),
            last: None,
        }
    }

    /// Returns the impossible figures, each at its first line; those lines are ignored.
    pub fn faults(&self) -> &[Fault] {
        &self.faults.found
    }

    /// Describes the names that the reader looks for in a log, including the job's own metrics.
    pub fn describe_sought_names(&self) -> String {
        let names: Vec<&str> =
            [STEP_TIMES, TOKENS, SAMPLES].iter().filter_map(|words| words.first().copied()).collect();
        let names = text::backtick_list(&[&names[..], &["mfu", "max_memory_allocated_gib"]].concat(), "or");
        let of = |is_read: bool| -> Vec<&str> {
            let these = self.metrics.iter().filter(|(_, read)| *read == is_read);
            these.map(|(name, _)| name.as_str()).collect()
        };
        let noun = |names: &[&str]| if names.len() == 1 { "metric" } else { "metrics" };
        let (read, unread) = (of(true), of(false));
        let mut out = format!(
            "looked for a number after {names}, as `name=value`, `name: value` or a key of a JSON line"
        );
        if !read.is_empty() {
            out.push_str(&format!(", and for the {} {}", noun(&read), text::backtick_list(&read, "and")));
        }
        if !unread.is_empty() {
            let is = if unread.len() == 1 { "is" } else { "are" };
            out.push_str(&format!(
                "; the {} {} {is} ignored: unknown name, or unsupported expression",
                noun(&unread),
                text::backtick_list(&unread, "and")
            ));
        }
        out
    }

    /// Reads the text of a file, line by line.
    pub fn read_file_text(&mut self, text: &str) {
        self.faults.begin_log();
        // Another log may repeat step numbers of this one.
        self.last = None;
        for line in text.lines() {
            self.faults.begin_line(line);
            match serde_json::from_str::<Value>(line.trim()) {
                Ok(Value::Object(members)) => self.read_json_object(&members, None),
                _ => self.parse_line(None, None, line),
            }
        }
    }

    /// Reads a line of text, of a host, with its time in seconds.
    pub fn read_line(&mut self, host: Option<&str>, time: Option<f64>, text: &str) {
        self.faults.begin_line(text);
        self.parse_line(host, time, text);
    }

    /// Reads a line of JSON: from `trainc logs -o json`, or from a program that reports JSON.
    fn read_json_object(&mut self, members: &serde_json::Map<String, Value>, time: Option<f64>) {
        if let Some(text) = members.get("text").and_then(Value::as_str) {
            let host = members.get("host").and_then(Value::as_str);
            let time = members.get("time").and_then(Value::as_f64).map(|time| time / 1_000.0);
            self.parse_line(host, time, text);
            return;
        }
        let mut found = Found::default();
        for (name, value) in members {
            let Some(number) = value.as_f64() else { continue };
            if let Some((meaning, times)) = parse_metric_name(name, self.gpus) {
                found.put_figure(
                    meaning,
                    number * times,
                    (name.as_str(), &self.faults.member_as_written(name, value)),
                );
            }
        }
        if !found.is_empty() {
            found.report.time = time;
            self.keep_report(found);
        }
    }

    fn parse_line(&mut self, host: Option<&str>, time: Option<f64>, text: &str) {
        // The output of a container may itself be JSON.
        if let Ok(Value::Object(members)) = serde_json::from_str::<Value>(text.trim())
            && !members.contains_key("text")
        {
            self.read_json_object(&members, time);
            return;
        }
        self.out_of_memory |= text.contains("CUDA out of memory") || text.contains("torch.OutOfMemoryError");
        let mut found = Found::default();
        for (meaning, times, regex) in &self.rows {
            let Some(groups) = regex.captures(text) else { continue };
            let value = groups.get(1).and_then(|group| group.as_str().parse::<f64>().ok());
            if let Some(value) = value {
                let cell = groups.get(0).map_or("", |whole| whole.as_str());
                found.put_figure(*meaning, value * times, (meaning.as_str(), cell));
            }
        }
        for groups in self.pairs.iter().flat_map(|pairs| pairs.captures_iter(text)) {
            let (Some(name), Some(value)) = (groups.get(1), groups.get(2)) else { continue };
            let known = parse_metric_name(name.as_str(), self.gpus).zip(value.as_str().parse::<f64>().ok());
            if let Some(((meaning, times), value)) = known {
                let cell = groups.get(0).map_or("", |whole| whole.as_str());
                found.put_figure(meaning, value * times, (name.as_str(), cell));
            }
        }
        if found.is_empty() {
            return;
        }
        // All hosts report the same figures: the first host with a report is used.
        if let Some(host) = host {
            let speaker = self.host.get_or_insert_with(|| host.to_owned());
            if speaker != host {
                return;
            }
        }
        found.report.time = time;
        self.keep_report(found);
    }

    /// Keeps a report, or records why it is invalid.
    fn keep_report(&mut self, mut found: Found) {
        if let Some(step) = found.report.step.filter(|_| found.report.is_measured()) {
            let last = self.last.replace(step);
            let wrong = last.and_then(|last| Wrong::step_backwards("step", &found.step, step, last));
            found.wrong = found.wrong.or(wrong);
        }
        match found.wrong {
            Some(wrong) => self.faults.record_fault(wrong),
            None => self.reports.push(found.report),
        }
    }
}

/// Figures of a line.
#[derive(Default)]
struct Found {
    report: Report,
    /// Step as written.
    step: String,
    wrong: Option<Wrong>,
}

impl Found {
    fn is_empty(&self) -> bool {
        self.wrong.is_none() && self.report == Report::default()
    }

    /// Records a figure by its name, as written. The first value of a figure wins: the job's own expressions
    /// precede guesses by name.
    fn put_figure(&mut self, meaning: Meaning, value: f64, (name, cell): (&str, &str)) {
        let wrong = match meaning {
            Meaning::StepSeconds if self.report.step_seconds.is_none() => {
                Wrong::not_positive(name, cell, value)
            }
            Meaning::Tokens if self.report.tokens_per_second.is_none() => {
                Wrong::not_positive(name, cell, value)
            }
            Meaning::Samples if self.report.samples_per_second.is_none() => {
                Wrong::not_positive(name, cell, value)
            }
            // A negative value means that it is not known yet.
            Meaning::Mfu if self.report.mfu.is_none() => {
                Wrong::mfu_above_one(name, cell, mfu_as_fraction(value))
            }
            _ => None,
        };
        if wrong.is_some() {
            self.wrong = self.wrong.take().or(wrong);
            return;
        }
        if meaning == Meaning::Step && self.step.is_empty() {
            cell.clone_into(&mut self.step);
        }
        set_report_figure(&mut self.report, meaning, value);
    }
}

impl Report {
    /// Returns true if it contains more than a step number.
    fn is_measured(&self) -> bool {
        *self != Self { step: self.step, ..Self::default() }
    }
}

/// Sets a figure that has no value yet.
fn set_report_figure(report: &mut Report, meaning: Meaning, value: f64) {
    if !value.is_finite() || value <= 0.0 && meaning != Meaning::Step {
        return;
    }
    let slot = match meaning {
        Meaning::Step => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a step counts from 0"
            )]
            report.step.get_or_insert(value.max(0.0) as u64);
            return;
        }
        Meaning::Memory(kind) => {
            report.memory.get_or_insert((value, kind));
            return;
        }
        Meaning::StepSeconds => &mut report.step_seconds,
        Meaning::Tokens => &mut report.tokens_per_second,
        Meaning::Samples => &mut report.samples_per_second,
        Meaning::Mfu => &mut report.mfu,
        Meaning::Loss => &mut report.loss,
        Meaning::Input => &mut report.input_seconds,
        Meaning::Optimizer => &mut report.optimizer_seconds,
    };
    let value = if meaning == Meaning::Mfu { mfu_as_fraction(value) } else { value };
    slot.get_or_insert(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(metrics: &[(&str, &str)], text: &str) -> Vec<Report> {
        let mut reader = Reader::new(metrics.iter().copied(), 16);
        reader.read_file_text(text);
        reader.reports
    }

    #[test]
    fn the_workers_lines_are_read_in_both_forms() {
        let json = r#"{"event":"start","memory_parts":{"parameters":1}}
{"step":3,"loss":2.5,"grad_norm":0.75,"lr":0.0003,"tokens_per_s":1234.5,"mfu":null,"memory":5242880}
{"step":3,"validation_loss":2.5}"#;
        let found = read(&[], json);
        let read_of =
            Report { step: Some(3), tokens_per_second: Some(1234.5), loss: Some(2.5), ..Report::default() };
        assert_eq!(found[0], read_of);
        let text = "step=3 loss=2.500000 grad_norm=0.7500 lr=3.000e-04 tokens_per_s=1234 mfu=- memory_mib=5";
        assert_eq!(read(&[], text)[0].tokens_per_second, Some(1234.0));
    }

    #[test]
    fn logs_of_trainc_carry_host_and_time() {
        let text = r#"{"type":"version","format":"1.0"}
{"type":"log","host":"algo-1","time":1000,"text":"step=1 tps=10"}
{"type":"log","host":"algo-2","time":1001,"text":"step=1 tps=10"}
{"type":"log","host":"algo-1","time":3500,"text":"{\"step\": 2, \"mfu\": 41.0}"}"#;
        let found = read(&[], text);
        let times: Vec<_> = found.iter().map(|report| (report.step, report.time, report.mfu)).collect();
        assert_eq!(times, [(Some(1), Some(1.0), None), (Some(2), Some(3.5), Some(0.41))]);
    }

    #[test]
    fn the_jobs_expressions_come_first() {
        let metrics =
            [("train:tokens_per_second", r"rate ([0-9.]+)"), ("train:step_time_ms", r"took (\d+)ms")];
        let found = read(&metrics, "it 7 rate 500 took 250ms tokens_per_second=9");
        assert_eq!((found[0].tokens_per_second, found[0].step_seconds), (Some(500.0), Some(0.25)));
    }

    #[test]
    fn names_carry_their_units_and_their_share() {
        let found = read(&[], "step: 4, tokens/s/gpu=100 samples_per_sec: 2.5 max_memory_allocated_gib=2");
        assert_eq!(found[0].samples_per_second, Some(2.5));
        assert_eq!(found[0].memory, Some((2.0 * 1_073_741_824.0, MeasuredAs::Allocated)));
        assert_eq!(read(&[], "tokens_per_s_per_gpu=100")[0].tokens_per_second, Some(1600.0));
        // A figure without an instrument is not evidence.
        assert!(read(&[], "memory_gib=12 validation_loss=3 epoch=1").is_empty());
    }

    #[test]
    fn losses_and_parts_of_a_step_are_read() {
        let line =
            "step=2 train/loss: 1.5 eval_loss=9 validation:loss=8 data_time_ms=20 optimizer_seconds=0.25";
        let found = read(&[], line);
        let report = found[0].clone();
        assert_eq!((report.loss, report.input_seconds), (Some(1.5), Some(0.02)));
        assert_eq!(report.optimizer_seconds, Some(0.25));
    }

    #[test]
    fn what_cannot_be_is_said_and_left_out() {
        let log = "iter 0 mfu -100.00%\nstep=1 step_time=2 mfu=550%\nstep=2 tokens_per_s=0\nstep=3 \
            tokens_per_s=NaN\n{\"step\": 4, \"tokens_per_s\":-5}\nstep=9 step_time=2 mfu=55 \
            loss=nan\nstep=7 step_time=2\nstep=8 step_time=2\nstep: 3\n";
        let mut reader = Reader::new([("mine:samples_per_s", r"rate (\S+)")], 1);
        reader.read_file_text(log);
        let steps: Vec<_> = reader.reports.iter().map(|report| (report.step, report.mfu)).collect();
        assert_eq!(steps, [(Some(9), Some(0.55)), (Some(8), None), (Some(3), None)]);
        reader.read_file_text("rate -3\nrate 3\n");
        let faults: Vec<_> = reader
            .faults()
            .iter()
            .map(|it| (it.log, it.line, it.cell.as_str(), it.message.as_str(), it.lines))
            .collect();
        let expected = [
            (0, 2, "mfu=550", "`mfu` would be 550 %, more than 100 % of the peak", 1),
            (0, 3, "tokens_per_s=0", "`tokens_per_s` is `0`, not a number above 0", 3),
            (0, 7, "step=7", "step 7 follows step 9", 1),
            (1, 1, "rate -3", "`samples/s` is `-3`, not a number above 0", 1),
        ];
        assert_eq!(faults, expected);
    }

    #[test]
    fn running_out_of_memory_is_seen() {
        let mut reader = Reader::new([], 1);
        reader.read_file_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.");
        assert!(reader.out_of_memory && reader.reports.is_empty());
    }
}
