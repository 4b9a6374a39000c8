//! A measured run compared with its prediction: for a terminal, for a comment, for scripts.

use super::cost;
use super::human::print_packed;
use super::json::{self, AfterEnd, GroupPrice};
use super::sections::Section;
use super::terminal_page::{LABEL, Options, TerminalPage};
use schemars::JsonSchema;
use serde::Serialize;
use trainc_calibrate::measure::{Group, Job, Measured, Row};
use trainc_diag::markdown::escape_cell;
use trainc_diag::{sparkline, text};
use trainc_ir::mfu::format_mfu;
use trainc_ir::units::GIB;
use trainc_ir::{Plan, Price};
use trainc_predict::{Interval, round_to_u64};

/// The version of the JSON format.
const FORMAT_VERSION: &str = "1.0";

/// The JSON Schema of [`Document`], for `trainc schema report`.
pub const SCHEMA: &str = include_str!("../schemas/report.v1.json");

/// A measured run and its prediction.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// The job's name.
    pub job: &'a str,
    /// The manifest.
    pub path: &'a str,
    /// The measurements read from the log.
    pub measured: &'a Measured,
    /// The job as DescribeTrainingJob reports it.
    pub run: Option<&'a Job>,
    /// The figures, predicted and measured.
    pub rows: &'a [Row],
    /// The plan, whose costs are shown with the run's; `None` without a training job.
    pub planned: Option<(&'a Plan, &'a json::Document)>,
    /// Further remarks.
    pub notes: Vec<String>,
}

/// The output of `trainc report -o json`: a run compared with its prediction. Sizes are bytes, times seconds,
/// money US dollars. An unknown figure is null. Members are only added: readers must ignore unknown members,
/// and only a new major number of `format_version` removes members.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "trainc report, version 1")]
pub struct Document {
    /// Major and minor version of this format.
    #[schemars(regex(pattern = r"^1\.[0-9]+$"))]
    pub format_version: &'static str,
    /// The version of trainc that wrote it.
    pub trainc_version: &'static str,
    /// The job's name.
    pub job: String,
    /// The manifest.
    pub path: String,
    /// The training job; null for a local log.
    pub training_job: Option<String>,
    /// TrainingJobStatus; null for a local log.
    pub status: Option<String>,
    /// Statistics of the log.
    pub log: Log,
    /// Every figure that was predicted or measured.
    pub parts: Vec<Part>,
    /// The costs of the plan, as in the `run` of plan.json; all null for a local log.
    pub run: PlannedCost,
    /// Price of an instance; null for a local log, if the catalogue has none, and for a cluster of instance
    /// groups.
    pub price: Option<Price>,
    /// Price of an instance of each instance group. Absent without instance groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group_prices: Vec<GroupPrice>,
    /// What is still billed after the end of the training job. Empty for a cluster outside SageMaker. Empty
    /// also for a local log, and for a run of another version of the manifest.
    pub after_end: Vec<AfterEnd>,
    /// Notes.
    pub notes: Vec<String>,
}

/// The costs of the plan, as in the `run` of plan.json; all null for a local log.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PlannedCost {
    /// Expected cost, US dollars, including repeated work at a given interruption rate. Null if the price of
    /// a file system that the job creates is not known: the note has a lower bound. Volumes without a known
    /// price are excluded, with a note.
    cost_usd: Option<f64>,
    /// The cost at both bounds of the run time; at a given interruption rate, of
    /// run.spot.expected_seconds_interval. Null if the cost or that interval is.
    cost_usd_interval: Option<Interval>,
    /// Cost of the expected time, including work lost to interruptions, at on-demand prices, US dollars, for
    /// spot instances without a known discount, which cost less; else null.
    on_demand_usd: Option<f64>,
    /// on_demand_usd at both bounds of the run time.
    on_demand_usd_interval: Option<Interval>,
    /// Cost of a run until max-run at on-demand prices, US dollars: instances, and volumes and file systems
    /// with a known price; a note names the others.
    most_usd: Option<f64>,
}

impl PlannedCost {
    fn from_plan(document: &json::Document) -> Self {
        let run = document.run.clone();
        Self {
            cost_usd: run.cost_usd,
            cost_usd_interval: run.cost_usd_interval,
            on_demand_usd: run.on_demand_usd,
            on_demand_usd_interval: run.on_demand_usd_interval,
            most_usd: run.most_usd,
        }
    }
}

/// Statistics of the log.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Log {
    /// Lines with figures of a step.
    reports: usize,
    /// Those at the start that were skipped as warm-up.
    warm_up_reports: usize,
    /// The first counted step.
    first_step: Option<u64>,
    /// The last counted step.
    last_step: Option<u64>,
    /// The source of the step time.
    step_seconds_from: Option<&'static str>,
    /// Whether a GPU ran out of memory.
    out_of_memory: bool,
}

/// A figure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Part {
    /// As in plan.json: step_seconds, tokens_per_second, samples_per_second, mfu, loss; the parts of a step
    /// and its communication; memory_bytes and its parts; provisioning_seconds, startup_seconds,
    /// image_seconds, download_seconds, training_seconds, checkpoints_seconds, upload_seconds, run_seconds,
    /// cost_usd (as in plan.json).
    name: &'static str,
    /// The group of the figure. Figures of step_part add up to step_seconds, those of memory_part to the
    /// memory of the plan; links is the communication in a step, hidden or exposed.
    group: Group,
    /// The predicted value.
    predicted: Option<f64>,
    /// Lower bound of the 90 % interval of the prediction.
    low: Option<f64>,
    /// Upper bound of the interval.
    high: Option<f64>,
    /// The measured value: a median; for memory the maximum.
    measured: Option<f64>,
    /// The lower quartile; null if the value is not a median.
    lower_quartile: Option<f64>,
    /// The upper quartile; null if the value is not a median.
    upper_quartile: Option<f64>,
    /// Number of values of the median.
    of: Option<usize>,
    /// Measured / predicted - 1.
    difference: Option<f64>,
    /// Whether the measured value is in the interval; null if either is not known.
    inside_interval: Option<bool>,
    /// Why there is no measured value; null if there is one.
    not_measured: Option<&'static str>,
}

/// Returns the run for scripts.
pub fn document(subject: &Subject) -> Document {
    let measured = subject.measured;
    let planned = subject.planned.map(|(_, document)| document);
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
                group: row.group,
                predicted: row.predicted,
                low: row.interval.map(|interval| interval.low),
                high: row.interval.map(|interval| interval.high),
                measured: row.measured,
                lower_quartile: row.median.map(|median| median.low),
                upper_quartile: row.median.map(|median| median.high),
                of: row.median.map(|median| median.of),
                difference: row.difference(),
                inside_interval: row.is_inside_interval(),
                not_measured: not_measured(row),
            })
            .collect(),
        run: planned.map(PlannedCost::from_plan).unwrap_or_default(),
        price: planned.and_then(|document| document.price.clone()),
        group_prices: planned.map_or_else(Vec::new, |document| document.group_prices.clone()),
        after_end: planned.map_or_else(Vec::new, |document| document.after_end.clone()),
        notes: subject.notes.clone(),
    }
}

/// Returns why there is no measured value.
fn not_measured(row: &Row) -> Option<&'static str> {
    if row.measured.is_some() {
        return None;
    }
    Some(match row.group {
        Group::Run => "not reported for the job",
        _ => "not in the logs",
    })
}

/// Formats a value with the unit of its figure.
fn format_value(key: &str, group: Group, value: f64) -> String {
    match key {
        "mfu" => format_mfu(value),
        // As in the plan, so that figures can be compared.
        key if key.ends_with("_bytes") => format!("{:.2} GiB", value / GIB as f64),
        "cost_usd" => text::dollars(value),
        key if key.ends_with("_seconds") && group == Group::Run => text::rounded_duration(value),
        key if key.ends_with("_seconds") => format!("{} s", text::short_number(value)),
        "tokens_per_second" if value >= 1_000.0 => text::group_digits(round_to_u64(value)),
        _ => text::short_number(value),
    }
}

fn label(key: &str) -> &'static str {
    match key {
        "step_seconds" => "step",
        "tokens_per_second" => "tokens/s",
        "samples_per_second" => "samples/s",
        "mfu" => "mfu",
        "loss" => "loss",
        "compute_seconds" => "  compute",
        "exposed_communication_seconds" => "  exposed comm.",
        "bubble_seconds" => "  bubble",
        "offload_seconds" => "  offload",
        "optimizer_seconds" => "  optimizer",
        "input_seconds" => "  input wait",
        "all_gather_seconds" => "  all-gather",
        "reduce_scatter_seconds" => "  reduce-scatter",
        "replicas_all_reduce_seconds" => "  replica all-reduce",
        "gradients_all_reduce_seconds" => "  gradient all-reduce",
        "tensor_all_reduce_seconds" => "  tensor all-reduce",
        "context_ring_seconds" => "  context ring",
        "pipeline_send_seconds" => "  pipeline sends",
        "experts_all_to_all_seconds" => "  expert all-to-all",
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
        "download_seconds" => "  download",
        "training_seconds" => "training",
        "checkpoints_seconds" => "checkpoints",
        "upload_seconds" => "upload",
        "run_seconds" => "run",
        "cost_usd" => "cost",
        _ => "other",
    }
}

/// Returns label, prediction, its interval, measurement and difference of each figure with at least one
/// value.
fn figure_rows(subject: &Subject) -> Vec<[String; 5]> {
    subject
        .rows
        .iter()
        .filter(|row| row.predicted.is_some() || row.measured.is_some())
        .map(|row| {
            let value = |value: Option<f64>| {
                value.map_or_else(|| "-".to_owned(), |value| format_value(row.key, row.group, value))
            };
            let ends = row.interval.map(|interval| {
                [interval.low, interval.high].map(|end| format_value(row.key, row.group, end))
            });
            // A counted figure has no interval.
            let interval = ends.filter(|[low, high]| low != high).map_or_else(String::new, |[low, high]| {
                let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
                // A unit after a space is not repeated; `1h 12m` has none.
                match unit(&low).filter(|own| row.group != Group::Run && Some(own) == unit(&high).as_ref()) {
                    Some(own) => format!("{} to {high}", low.trim_end_matches(&format!(" {own}"))),
                    None => format!("{low} to {high}"),
                }
            });
            let difference = row.difference().map_or_else(String::new, |share| {
                let percent = 100.0 * share;
                let outside = if row.is_inside_interval() == Some(false) { ", outside" } else { "" };
                let amount = text::short_number((10.0 * percent.abs()).round() / 10.0);
                let sign = match amount.as_str() {
                    "0" => "",
                    _ if percent < 0.0 => "−",
                    _ => "+",
                };
                format!("{sign}{amount}%{outside}")
            });
            [label(row.key).to_owned(), value(row.predicted), interval, value(row.measured), difference]
        })
        .collect()
}

const HEAD: [&str; 5] = ["", "predicted", "interval", "measured", "difference"];

/// Explains the dashes of the table, if it has any.
fn describe_missing(subject: &Subject) -> Option<String> {
    let missing = |run: bool| {
        let mut rows = subject.rows.iter().filter(|row| row.predicted.is_some() && row.measured.is_none());
        rows.any(|row| (row.group == Group::Run) == run)
    };
    let why: Vec<&str> = [
        missing(false).then_some("not in the logs"),
        missing(true).then_some("time and cost: not reported for the job"),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!why.is_empty()).then(|| why.join("; "))
}

/// Explains the times of collectives, if the table has any.
fn describe_links(subject: &Subject) -> Option<String> {
    let has = subject.rows.iter().any(|row| row.group == Group::Links && row.predicted.is_some());
    has.then(|| "times of collectives include what computation hides".to_owned())
}

/// Describes the steps and reports that the measured figures were computed from.
fn describe_basis(subject: &Subject) -> String {
    let measured = subject.measured;
    let (reports, skipped) = measured.reports;
    let Some(median) = measured.step_seconds else {
        return if measured.out_of_memory {
            "a GPU ran out of memory before a step could be measured".to_owned()
        } else {
            "no step could be measured".to_owned()
        };
    };
    let mut out = format!("median of {}", text::count(median.of as u64, "value"));
    if let Some((first, last)) = measured.steps {
        out.push_str(&format!(", steps {} to {}", text::group_digits(first), text::group_digits(last)));
    }
    out.push_str(&format!(
        "; {}, the first {} skipped as warm-up",
        text::count(reports as u64, "report"),
        text::group_digits(skipped as u64)
    ));
    if let Some(from) = measured.step_from {
        out.push_str(&format!("; step time: {from}"));
    }
    out
}

/// Returns the costs of the plan, as every output shows them.
fn cost_sections(subject: &Subject, today: Option<i64>) -> Vec<Section> {
    subject.planned.map_or_else(Vec::new, |(plan, document)| cost::sections(document, plan, today))
}

fn heading(subject: &Subject) -> String {
    match subject.run {
        Some(run) => format!(": {}, {}", run.name, run.status),
        None => String::new(),
    }
}

/// Renders the run for a terminal.
pub fn human(subject: &Subject, options: Options) -> String {
    let mut page = TerminalPage::new(options);
    page.title(subject.job, &heading(subject));
    page.blank();
    page.table(&HEAD, &figure_rows(subject));
    page.blank();
    let columns = options.width.saturating_sub(LABEL + CHART_FIGURES);
    let Measured { losses, rates, .. } = subject.measured;
    for (label, line) in charts(losses, rates, None, columns, options.unicode) {
        page.field(label, &line);
    }
    for (label, lines) in cost_sections(subject, options.today) {
        print_packed(&mut page, label, &lines);
    }
    page.field("from", &describe_basis(subject));
    if let Some(words) = describe_missing(subject) {
        page.field("-", &words);
    }
    if let Some(words) = describe_links(subject) {
        page.field("links", &words);
    }
    for note in &subject.notes {
        page.field("note", note);
    }
    page.finish()
}

/// Columns of the figures next to a chart.
const CHART_FIGURES: usize = 24;

/// Draws the loss and the tokens per second of a run, each as a line of at most `columns` characters and a
/// label; none without two figures. With a `planned` rate, the last one is compared with it.
pub fn charts(
    losses: &[f64],
    rates: &[f64],
    planned: Option<f64>,
    columns: usize,
    unicode: bool,
) -> Vec<(&'static str, String)> {
    let short = |value: f64| format_value("tokens_per_second", Group::Step, value);
    let last = |figures: &[f64]| figures.last().copied().unwrap_or_default();
    let draw = |label, figures: &[f64], bottom: Option<f64>, words: String| {
        let line = sparkline(figures, bottom, columns.clamp(8, 60), unicode);
        (!line.is_empty()).then(|| (label, format!("{line}  {words}")))
    };
    let first = losses.first().copied().unwrap_or_default();
    let fall = format!("{} to {}", text::short_number(first), text::short_number(last(losses)));
    let rate = if let Some(planned) = planned {
        let share = text::short_number((100.0 * last(rates) / planned).round());
        format!("{}, {share}% of the plan", short(last(rates)))
    } else {
        let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = rates.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        format!("{} to {}", short(lowest), short(highest))
    };
    let loss = draw("loss", losses, None, fall);
    loss.into_iter().chain(draw("tokens/s", rates, Some(0.0), rate)).collect()
}

/// Renders the run as a comment for a pull request.
pub fn markdown(subject: &Subject) -> String {
    let mut out = format!(
        "<!-- trainc:report -->\n### {}{}\n\n| {} |\n|{}\n",
        escape_cell(subject.job),
        escape_cell(&heading(subject)),
        HEAD.join(" | "),
        " --- |".repeat(HEAD.len())
    );
    for row in figure_rows(subject) {
        let cells: Vec<String> = row.iter().map(|one| escape_cell(one)).collect();
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    out.push_str(&format!("\n{}\n", escape_cell(&describe_basis(subject))));
    for (label, lines) in cost_sections(subject, None) {
        out.push_str(&format!("- {label}: {}\n", escape_cell(&lines.join("; "))));
    }
    if let Some(words) = describe_missing(subject) {
        out.push_str(&format!("- `-`: {}\n", escape_cell(&words)));
    }
    if let Some(words) = describe_links(subject) {
        out.push_str(&format!("- {}\n", escape_cell(&words)));
    }
    for note in &subject.notes {
        out.push_str(&format!("- {}\n", escape_cell(note)));
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
        reader.read_file_text(
            "step=1 step_time=3\nstep=2 step_time=2 max_memory_allocated_gib=9\nstep=3 step_time=2\n",
        );
        let measured = Measured::from_reports(plan, &reader.reports, Some(1), false);
        let run = Job { name: "a-1".to_owned(), status: "Completed".to_owned(), ..Job::default() };
        let all = rows(plan, &sample.compiled.prediction, Constants::shipped(), &measured, Some(&run));
        let mut planned = sample.document();
        // As of instance groups, which the starter does not have.
        planned.group_prices = vec![json::GroupPrice {
            group: Some("g".to_owned()),
            instance: Some("ml.g5.12xlarge".to_owned()),
            nodes: Some(1),
            price: planned.price.clone().map(|price| Price {
                basis: trainc_ir::PriceBasis::Estimate(trainc_ir::PriceEstimate {
                    low_usd_per_hour: 1.0,
                    high_usd_per_hour: 3.0,
                    ec2_usd_per_hour: 1.0,
                }),
                ..price
            }),
        }];
        planned.run.on_demand_usd_interval = planned.run.cost_usd_interval;
        let subject = Subject {
            job: "a",
            path: "a.kdl",
            measured: &measured,
            run: Some(&run),
            rows: &all,
            planned: Some((plan, &planned)),
            notes: vec!["x".to_owned()],
        };
        let document = serde_json::to_value(document(&subject)).unwrap();
        assert_eq!(json_schema::violations(SCHEMA, &document), Vec::<String>::new());
        let mut written = BTreeSet::new();
        json_schema::collect_keys(&document, &mut written);
        assert_eq!(written, json_schema::described_keys(SCHEMA));
        let memory = all.iter().find(|row| row.key == "memory_bytes").unwrap();
        assert!(memory.predicted.is_some() && memory.interval.is_some());
        let text = human(&subject, Options::default());
        assert!(text.contains("median of 2 values, steps 2 to 3") && text.contains("9.00 GiB"), "{text}");
        let costs = crate::human::costs_of_apply(&planned, plan, Options::default());
        let costs = costs.split_once("  cost ").unwrap().1;
        assert!(costs.contains("at most $") && text.contains(costs), "{text}\n{costs}");
        for (member, wanted) in [
            ("/run/cost_usd", planned.run.cost_usd),
            ("/run/most_usd", planned.run.most_usd),
            ("/price/usd_per_hour", planned.price.as_ref().map(|price| price.usd_per_hour)),
        ] {
            assert_eq!(document.pointer(member).unwrap().as_f64(), wanted, "{member}");
        }
        assert_eq!(document["after_end"], serde_json::to_value(&planned.after_end).unwrap());
        let cost = all.iter().find(|row| row.key == "cost_usd").unwrap();
        assert_eq!(cost.predicted, planned.run.cost_usd);
        let narrow = human(&subject, Options { width: 60, ..Options::default() });
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    }

    #[test]
    fn the_course_of_the_run_is_drawn() {
        let drawn = |losses: &[f64], rates: &[f64], planned| charts(losses, rates, planned, 40, true);
        let expected = [("loss", "█▅▁  8 to 1".to_owned()), ("tokens/s", "█▅  500 to 1,000".to_owned())];
        assert_eq!(drawn(&[8.0, 4.5, 1.0], &[1_000.0, 500.0], None), expected);
        assert_eq!(drawn(&[], &[8.0, 4.0], Some(8.0)), [("tokens/s", "█▅  4, 50% of the plan".to_owned())]);
        assert!(drawn(&[8.0], &[], None).is_empty());
    }
}
