//! What the plan predicts for an open document, next to the values that decide it: for inlay hints, hover and code lenses.

use super::open_document::OpenDocument;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_ir::Plan;
use trainc_ir::units::GIB;
use trainc_plan::Compiled;
use trainc_predict::{Constants, Fit, Interval, Memory, Prediction, Run};
use trainc_report::Subject;
use trainc_report::origins::{OriginRow, predicted_rows};

/// A value of the manifest next to which figures are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// The name of the job.
    JobName,
    /// `nodes`.
    Nodes,
    /// `micro-batch`.
    MicroBatch,
    /// `shard-degree`.
    ShardDegree,
    /// `tokens`, `steps` or `epochs`.
    Length,
}

impl Anchor {
    /// Returns whether the value decides the memory of a GPU, and whether it decides the time and the cost of the run.
    fn decides(self) -> (bool, bool) {
        match self {
            Self::JobName => (true, true),
            Self::MicroBatch | Self::ShardDegree => (true, false),
            Self::Nodes | Self::Length => (false, true),
        }
    }
}

/// Returns the values of the plan next to which figures are shown, with the places where they were written.
pub(super) fn anchors(plan: &Plan) -> Vec<(Anchor, Span)> {
    let train = &plan.job.train;
    let length = [train.tokens.span(), train.steps.span(), train.epochs.span()];
    let mut out = vec![(Anchor::JobName, plan.job.name.span())];
    out.push((Anchor::Nodes, plan.job.cluster.as_ref().and_then(|cluster| cluster.nodes.span())));
    out.push((
        Anchor::MicroBatch,
        plan.batch.as_ref().and_then(|batch| batch.micro_batch_size.origin.span()),
    ));
    out.push((Anchor::ShardDegree, plan.mesh.as_ref().and_then(|mesh| mesh.shard_degree.origin.span())));
    out.extend(length.map(|span| (Anchor::Length, span)));
    out.into_iter().filter_map(|(anchor, span)| Some((anchor, span?))).collect()
}

/// Returns the figures that a value decides, in short: `15.5 of 22.4 GiB`, `1h 48m, $12.79`. `None` if unknown.
pub(super) fn short(prediction: &Prediction, anchor: Anchor) -> Option<String> {
    let (memory, run) = anchor.decides();
    let time = prediction.run.as_ref().filter(|_| run);
    let figures = [
        time.map(|run| text::rounded_duration(run.expected_seconds())),
        time.and_then(cost).map(|(usd, _)| text::dollars(usd)),
        prediction.memory.as_ref().filter(|_| memory).map(memory_of_card),
    ];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    (!figures.is_empty()).then(|| figures.join(", "))
}

/// Formats the memory against that of the card: `15.5 of 22.4 GiB`.
fn memory_of_card(memory: &Memory) -> String {
    let gib = |bytes: f64| text::short_number((bytes / GIB as f64 * 10.0).round() / 10.0);
    let needs = gib(memory.per_gpu_bytes);
    let Some(capacity) = memory.capacity_bytes else { return format!("{needs} GiB") };
    let mark = match memory.fit() {
        Some(Fit::Maybe) => ": may not fit",
        Some(Fit::Hardly | Fit::Never) => ": does not fit",
        _ => "",
    };
    format!("{needs} of {} GiB{mark}", gib(capacity))
}

/// Returns the cost of a run in dollars, or its lower bound, with the interval.
fn cost(run: &Run) -> Option<(f64, Option<Interval>)> {
    run.cost_usd
        .map(|usd| (usd, run.cost_interval()))
        .or_else(|| Some((run.least_usd?, run.least_cost_interval())))
}

/// Describes the figures that a value decides: each on a line of Markdown, with its interval and its source.
pub(super) fn describe(opened: &OpenDocument, anchor: Anchor) -> Option<String> {
    let plan = opened.compiled.plan.as_deref()?;
    let (memory, run) = anchor.decides();
    let mut lines = Vec::new();
    let with_interval = |name: &str, value: String, ends: Option<[String; 2]>, why: &str| {
        let ends = ends.filter(|[low, high]| low != high);
        let ends = ends.map_or_else(String::new, |[low, high]| format!(" ({low} to {high})"));
        format!("- {name}: {value}{ends}, {why}")
    };
    if memory && let Some(predicted) = &opened.compiled.prediction.memory {
        let gib = |bytes: f64| text::bytes(whole(bytes));
        let ends = [predicted.interval.low, predicted.interval.high].map(gib);
        let why = why_of(&predicted_rows(&subject(opened), plan), "predicted.memory.per-gpu");
        lines.push(with_interval("memory per GPU", memory_of_card(predicted), Some(ends), &why));
    }
    if let Some(speed) = &opened.compiled.prediction.speed {
        let seconds = |n: f64| format!("{} s", text::short_number(n));
        let ends = [speed.interval.low, speed.interval.high].map(seconds);
        let why = "computed from FLOPs, bytes and bandwidths";
        lines.push(with_interval("step", seconds(speed.step_seconds), Some(ends), why));
    }
    if let Some(predicted) = opened.compiled.prediction.run.as_ref().filter(|_| run) {
        let ends = predicted.expected_interval();
        let ends = ends.map(|ends| [ends.low, ends.high].map(text::rounded_duration));
        let time = text::rounded_duration(predicted.expected_seconds());
        lines.push(with_interval("run", time, ends, "the steps, start and checkpoints"));
        if let Some((usd, ends)) = cost(predicted) {
            let ends = ends.map(|ends| [ends.low, ends.high].map(text::dollars));
            let least = if predicted.cost_usd.is_none() { "at least " } else { "" };
            let price = trainc_report::document::document(&subject(opened)).price;
            let why = price.map_or_else(String::new, |price| {
                let date = price.date.map_or_else(String::new, |date| format!(", price of {date}"));
                format!("{} per instance-hour{date}", text::dollars(price.usd_per_hour))
            });
            lines.push(with_interval("cost", format!("{least}{}", text::dollars(usd)), ends, &why));
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn why_of(rows: &[OriginRow], path: &str) -> String {
    let row = rows.iter().find(|row| row.path == path);
    // The constants have rows of their own in `plan -v`.
    row.map_or("", |row| row.why.split("; constants: ").next().unwrap_or("")).to_owned()
}

fn subject(opened: &OpenDocument) -> Subject<'_> {
    let Compiled { job, plan, prediction, problems, .. } = &opened.compiled;
    Subject {
        path: &opened.name,
        sha256: "",
        job: job.as_deref(),
        plan: plan.as_deref(),
        identity: None,
        prediction,
        constants: Constants::shipped(),
        problems,
        sources: &opened.sources,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, held above zero")]
fn whole(bytes: f64) -> u64 {
    bytes.max(0.0).round() as u64
}
