//! A run against its prediction: for people, for a comment, for scripts.

use super::page::{Options, Page};
use serde::Serialize;
use trainc_calibrate::measure::{Group, Job, Measured, Row};
use trainc_diag::markdown::cell;
use trainc_diag::text;

/// The version of the form for scripts.
const FORMAT_VERSION: &str = "1.0";

/// The JSON Schema of [`Document`], for `trainc schema report`.
pub const SCHEMA: &str = include_str!("../schemas/report.v1.json");

/// A run and what was predicted of it.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// The job's name.
    pub job: &'a str,
    /// The manifest.
    pub path: &'a str,
    /// What was read of the log.
    pub measured: &'a Measured,
    /// What the service says of the job.
    pub run: Option<&'a Job>,
    /// Every figure.
    pub rows: &'a [Row],
    /// What else there is to say.
    pub notes: Vec<String>,
}

/// A run for scripts; what is not known is null.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "schemas/report.v1.json says what each member is")]
pub struct Document {
    pub format_version: &'static str,
    pub trainc_version: &'static str,
    pub job: String,
    pub path: String,
    pub training_job: Option<String>,
    pub status: Option<String>,
    pub log: Log,
    pub parts: Vec<Part>,
    pub notes: Vec<String>,
}

/// How the log was read.
#[derive(Clone, Debug, Serialize)]
pub struct Log {
    reports: usize,
    warm_up_reports: usize,
    first_step: Option<u64>,
    last_step: Option<u64>,
    step_seconds_from: Option<&'static str>,
    out_of_memory: bool,
}

/// A figure.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    name: &'static str,
    group: &'static str,
    predicted: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    measured: Option<f64>,
    lower_quartile: Option<f64>,
    upper_quartile: Option<f64>,
    of: Option<usize>,
    difference: Option<f64>,
    inside_interval: Option<bool>,
    not_measured: Option<&'static str>,
}

/// The run for scripts.
pub fn document(subject: &Subject) -> Document {
    let measured = subject.measured;
    Document {
        format_version: FORMAT_VERSION,
        trainc_version: env!("CARGO_PKG_VERSION"),
        job: subject.job.to_owned(),
        path: subject.path.to_owned(),
        training_job: subject.run.map(|run| run.name.clone()),
        status: subject.run.map(|run| run.status.clone()),
        log: Log {
            reports: measured.reports.0,
            warm_up_reports: measured.reports.1,
            first_step: measured.steps.map(|steps| steps.0),
            last_step: measured.steps.map(|steps| steps.1),
            step_seconds_from: measured.step_from,
            out_of_memory: measured.out_of_memory,
        },
        parts: subject
            .rows
            .iter()
            .map(|row| Part {
                name: row.key,
                group: row.group.word(),
                predicted: row.predicted,
                low: row.interval.map(|interval| interval.low),
                high: row.interval.map(|interval| interval.high),
                measured: row.measured,
                lower_quartile: row.median.map(|median| median.low),
                upper_quartile: row.median.map(|median| median.high),
                of: row.median.map(|median| median.of),
                difference: row.difference(),
                inside_interval: row.inside(),
                not_measured: not_measured(row),
            })
            .collect(),
        notes: subject.notes.clone(),
    }
}

/// Why there is no measured figure.
fn not_measured(row: &Row) -> Option<&'static str> {
    if row.measured.is_some() {
        return None;
    }
    Some(match row.group {
        Group::Run => "not said of the job",
        _ => "not in the logs",
    })
}

/// The figure's words and the form of its value.
fn said(key: &str, group: Group, value: f64) -> String {
    match key {
        "mfu" => format!("{}%", text::short(100.0 * value)),
        key if key.ends_with("_bytes") => text::bytes(whole(value)),
        "cost_usd" => text::dollars(value),
        key if key.ends_with("_seconds") && group == Group::Run => text::duration(whole(value)),
        key if key.ends_with("_seconds") => format!("{} s", text::short(value)),
        "tokens_per_second" if value >= 1_000.0 => text::group(whole(value)),
        _ => text::short(value),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "figures, held above zero")]
fn whole(value: f64) -> u64 {
    value.max(0.0).round() as u64
}

fn label(key: &str) -> &'static str {
    match key {
        "step_seconds" => "a step",
        "tokens_per_second" => "tokens/s",
        "samples_per_second" => "samples/s",
        "mfu" => "mfu",
        "loss" => "loss",
        "compute_seconds" => "  compute",
        "exposed_communication_seconds" => "  waits for links",
        "bubble_seconds" => "  bubble",
        "offload_seconds" => "  offload",
        "optimizer_seconds" => "  optimizer",
        "input_seconds" => "  waits for data",
        "all_gather_seconds" => "  links: all-gather",
        "reduce_scatter_seconds" => "  links: reduce-scatter",
        "replicas_all_reduce_seconds" => "  links: all-reduce over replicas",
        "gradients_all_reduce_seconds" => "  links: all-reduce of gradients",
        "tensor_all_reduce_seconds" => "  links: all-reduce of tensor groups",
        "context_ring_seconds" => "  links: context ring",
        "pipeline_send_seconds" => "  links: sends between stages",
        "experts_all_to_all_seconds" => "  links: all-to-all of experts",
        "memory_bytes" => "memory",
        "parameters_bytes" => "  parameters",
        "gradients_bytes" => "  gradients",
        "optimizer_bytes" => "  optimizer",
        "activations_bytes" => "  activations",
        "gathered_bytes" => "  gathered units",
        "logits_bytes" => "  logits",
        "buffers_bytes" => "  buffers",
        "reserve_bytes" => "  reserve",
        "provisioning_seconds" => "provisioning",
        "startup_seconds" => "start-up",
        "image_seconds" => "  image",
        "download_seconds" => "download",
        "training_seconds" => "training",
        "checkpoints_seconds" => "checkpoints",
        "upload_seconds" => "upload",
        "run_seconds" => "run",
        "cost_usd" => "cost",
        _ => "other",
    }
}

/// Predicted, measured, difference, verdict: of each figure that has at least one side.
fn lines(subject: &Subject) -> Vec<[String; 5]> {
    subject
        .rows
        .iter()
        .filter(|row| row.predicted.is_some() || row.measured.is_some())
        .map(|row| {
            let of = |value: Option<f64>| {
                value.map_or_else(|| "not known".to_owned(), |value| said(row.key, row.group, value))
            };
            let ends = row
                .interval
                .map(|interval| [interval.low, interval.high].map(|end| said(row.key, row.group, end)));
            let predicted = match ends {
                // What is counted has one figure.
                Some([low, high]) if low != high => format!("{} [{low} to {high}]", of(row.predicted)),
                _ => of(row.predicted),
            };
            let measured = row.measured.map_or_else(
                || not_measured(row).unwrap_or_default().to_owned(),
                |value| said(row.key, row.group, value),
            );
            let difference = row.difference().map_or_else(String::new, |share| {
                let percent = 100.0 * share;
                format!("{}{}%", if percent < 0.0 { '−' } else { '+' }, text::short(percent.abs()))
            });
            let verdict = match row.inside() {
                Some(true) => "inside",
                Some(false) => "outside",
                None => "",
            };
            [label(row.key).to_owned(), predicted, measured, difference, verdict.to_owned()]
        })
        .collect()
}

const HEAD: [&str; 5] = ["", "predicted", "measured", "difference", "interval"];

/// What the measured figures are made of.
fn basis(subject: &Subject) -> String {
    let measured = subject.measured;
    let (reports, skipped) = measured.reports;
    let Some(median) = measured.step_seconds else {
        return if measured.out_of_memory {
            "a GPU ran out of memory before a step could be measured".to_owned()
        } else {
            "no step could be measured".to_owned()
        };
    };
    let mut out = format!("median of {}", text::count(median.of as u64, "figure"));
    if let Some((first, last)) = measured.steps {
        out.push_str(&format!(", steps {} to {}", text::group(first), text::group(last)));
    }
    out.push_str(&format!(
        "; of {} the first {} warmed up",
        text::count(reports as u64, "report"),
        text::group(skipped as u64)
    ));
    if let Some(from) = measured.step_from {
        out.push_str(&format!("; a step is {from}"));
    }
    out
}

fn heading(subject: &Subject) -> String {
    match subject.run {
        Some(run) => format!(": {}, {}", run.name, run.status),
        None => String::new(),
    }
}

/// The run for people.
pub fn human(subject: &Subject, options: Options) -> String {
    let mut page = Page::new(options);
    page.title(subject.job, &heading(subject));
    page.blank();
    page.table(&HEAD, &lines(subject));
    page.blank();
    page.field("from", &basis(subject));
    for note in &subject.notes {
        page.field("note", note);
    }
    page.finish()
}

/// The run for a comment.
pub fn markdown(subject: &Subject) -> String {
    let mut out = format!(
        "<!-- trainc:report -->\n### {}{}\n\n| {} |\n|{}\n",
        cell(subject.job),
        cell(&heading(subject)),
        HEAD.join(" | "),
        " --- |".repeat(HEAD.len())
    );
    for row in lines(subject) {
        let cells: Vec<String> = row.iter().map(|one| cell(one)).collect();
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    out.push_str(&format!("\n{}\n", cell(&basis(subject))));
    for note in &subject.notes {
        out.push_str(&format!("- {}\n", cell(note)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use trainc_calibrate::measure::{Reader, rows};
    use trainc_predict::Constants;
    use trainc_testing::json_schema;

    #[test]
    fn the_schema_describes_a_report() {
        let sample = crate::samples::sample(include_str!("../../../examples/starter/trainc.kdl"), &[]);
        let plan = sample.compiled.plan.as_ref().unwrap();
        let mut reader = Reader::new([], 4);
        reader
            .text("step=1 step_time=3\nstep=2 step_time=2 max_memory_allocated_gib=9\nstep=3 step_time=2\n");
        let measured = Measured::of(plan, &reader.reports, Some(1), false);
        let run = Job { name: "a-1".to_owned(), status: "Completed".to_owned(), ..Job::default() };
        let all = rows(plan, &sample.compiled.prediction, Constants::shipped(), &measured, Some(&run));
        let subject = Subject {
            job: "a",
            path: "a.kdl",
            measured: &measured,
            run: Some(&run),
            rows: &all,
            notes: vec!["x".to_owned()],
        };
        let document = serde_json::to_value(document(&subject)).unwrap();
        assert_eq!(json_schema::violations(SCHEMA, &document), Vec::<String>::new());
        let mut written = BTreeSet::new();
        json_schema::keys(&document, &mut written);
        assert_eq!(written, json_schema::described(SCHEMA));
        let memory = all.iter().find(|row| row.key == "memory_bytes").unwrap();
        assert!(memory.predicted.is_some() && memory.interval.is_some());
        let text = human(&subject, Options::default());
        assert!(text.contains("median of 2 figures, steps 2 to 3") && text.contains("9 GiB"), "{text}");
        let narrow = human(&subject, Options { width: 60, ..Options::default() });
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    }
}
