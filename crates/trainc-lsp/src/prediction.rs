//! What the plan predicts for an open document, next to the values that decide it: for inlay hints, hover and
//! code lenses.

use super::open_document::OpenDocument;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_ir::Plan;
use trainc_ir::units::GIB;
use trainc_plan::Compiled;
use trainc_predict::bills::{max_cost, on_demand_cost};
use trainc_predict::{Constants, Fit, Interval, Memory, Run};
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
    /// `max-run` or `budget`, which bound the cost: without a hint.
    Bound,
}

impl Anchor {
    /// Returns whether the value decides the memory of a GPU, and whether it decides the time and the cost of
    /// the run.
    fn decides(self) -> (bool, bool) {
        match self {
            Self::JobName | Self::Nodes => (true, true),
            Self::MicroBatch | Self::ShardDegree => (true, false),
            Self::Length => (false, true),
            Self::Bound => (false, false),
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
    let max_run = plan.job.cluster.as_ref().and_then(|cluster| cluster.max_run_seconds.span());
    let budget = plan.job.budget.as_ref().and_then(|budget| budget.usd.span());
    out.extend([max_run, budget].map(|span| (Anchor::Bound, span)));
    out.into_iter().filter_map(|(anchor, span)| Some((anchor, span?))).collect()
}

/// Returns the figures that a value decides, in short: `15.5 of 22.4 GiB`, `1h 48m, $12.79`. `None` if
/// unknown. With `priced`, the cost has the date of its price.
pub(super) fn short(opened: &OpenDocument, anchor: Anchor, priced: bool) -> Option<String> {
    let (memory, run) = anchor.decides();
    let prediction = &opened.compiled.prediction;
    let time = prediction.run.as_ref().filter(|_| run);
    let cost = time.and_then(|run| cost(opened.compiled.plan.as_deref()?, run));
    let figures = [
        time.map(|run| text::rounded_duration(run.expected_seconds())),
        cost.map(|cost| {
            let origin = opened.price_origin().filter(|_| priced);
            format!("{}{}", cost.words(), origin.map_or_else(String::new, |origin| format!(" ({origin})")))
        }),
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

/// The cost of a run in dollars.
struct Cost {
    /// `at least ` if prices are missing, `an estimated ` for an estimate; otherwise empty.
    bound: &'static str,
    /// ` on demand` for spot instances whose price is not known; otherwise empty.
    basis: &'static str,
    usd: f64,
    interval: Option<Interval>,
}

impl Cost {
    fn words(&self) -> String {
        format!("{}{}{}", self.bound, text::dollars(self.usd), self.basis)
    }
}

/// Returns the cost of a run; of spot instances without a known price, the on-demand price of the same hours.
fn cost(plan: &Plan, run: &Run) -> Option<Cost> {
    if let Some(usd) = run.cost_usd {
        let bound = run.cost_parts.total().bound();
        return Some(Cost { bound, basis: "", usd, interval: run.cost_interval() });
    }
    let cluster = plan.job.cluster.as_ref()?;
    // At the given rate of interruptions the run may never end.
    let ends = run.spot.is_some() || cluster.node_losses_per_hour().is_none();
    let total = on_demand_cost(plan, run.expected_seconds()).total();
    if let Some(usd) = total.exact().filter(|_| cluster.spot.is_some() && ends) {
        let (between, seconds) = (run.expected_interval(), run.expected_seconds());
        let interval = between.map(|ends| Interval {
            low: total.low_usd * ends.low / seconds,
            high: total.high_usd * ends.high / seconds,
        });
        return Some(Cost { bound: total.bound(), basis: " on demand", usd, interval });
    }
    let bound = run.cost_parts.total().bound();
    Some(Cost { bound, basis: "", usd: run.least_usd?, interval: run.least_cost_interval() })
}

/// Returns what the job costs at most, and the seconds of `max-run`, at which it is stopped.
fn most_usd(plan: &Plan) -> Option<(f64, u64)> {
    let limit = plan.job.cluster.as_ref()?.max_run_seconds.get()?;
    let cost = max_cost(plan, limit as f64).total();
    Some((cost.exact().map(|_| cost.high_usd)?, limit))
}

/// Describes the figures that a value decides: each on a line of Markdown, with its interval and its source.
pub(super) fn describe(opened: &OpenDocument, anchor: Anchor) -> Option<String> {
    let plan = opened.compiled.plan.as_deref()?;
    let (memory, run) = anchor.decides();
    let mut lines = Vec::new();
    let with_interval = |name: &str, value: String, ends: Option<[String; 2]>, why: &str| {
        let ends = ends.filter(|[low, high]| low != high);
        let ends = ends.map_or_else(String::new, |[low, high]| format!(" ({low} to {high})"));
        let why = if why.is_empty() { String::new() } else { format!(", {why}") };
        format!("- {name}: {value}{ends}{why}")
    };
    if memory && let Some(predicted) = &opened.compiled.prediction.memory {
        let gib = |bytes: f64| text::bytes(whole(bytes));
        let ends = [predicted.interval.low, predicted.interval.high].map(gib);
        let why = why_of(&predicted_rows(&subject(opened), plan), "predicted.memory.per-gpu");
        lines.push(with_interval("memory per GPU", memory_of_card(predicted), Some(ends), &why));
    }
    if anchor != Anchor::Bound
        && let Some(speed) = &opened.compiled.prediction.speed
    {
        let seconds = |n: f64| format!("{} s", text::short_number(n));
        let ends = [speed.interval.low, speed.interval.high].map(seconds);
        let why = "computed from FLOPs, bytes and bandwidths";
        lines.push(with_interval("step", seconds(speed.step_seconds), Some(ends), why));
    }
    let predicted = opened.compiled.prediction.run.as_ref();
    if let Some(predicted) = predicted.filter(|_| run) {
        let ends = predicted.expected_interval();
        let ends = ends.map(|ends| [ends.low, ends.high].map(text::rounded_duration));
        let time = text::rounded_duration(predicted.expected_seconds());
        lines.push(with_interval("run", time, ends, "the steps, start and checkpoints"));
    }
    if (run || anchor == Anchor::Bound)
        && let Some(cost) = predicted.and_then(|run| cost(plan, run))
    {
        // A run is stopped at max-run.
        let most = most_usd(plan).map_or(f64::INFINITY, |(usd, _)| usd);
        let ends = cost.interval.map(|ends| [ends.low, ends.high].map(|usd| text::dollars(usd.min(most))));
        let hourly = plan.price().map(|price| price.usd_per_hour);
        let hourly = hourly.map(|usd| format!("{} per instance-hour", text::dollars(usd)));
        let why: Vec<String> = [hourly, opened.price_origin()].into_iter().flatten().collect();
        let expected = if anchor == Anchor::Bound && cost.bound.is_empty() { "expected " } else { "" };
        lines.push(with_interval("cost", format!("{expected}{}", cost.words()), ends, &why.join(", ")));
    }
    if anchor == Anchor::Bound {
        lines.extend(most_usd(plan).map(|(usd, limit)| {
            let (usd, limit) = (text::dollars(usd), text::duration(limit));
            format!("- cost: at most {usd} for {limit}, the whole of `max-run`")
        }));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn why_of(rows: &[OriginRow], path: &str) -> String {
    let row = rows.iter().find(|row| row.path == path);
    // The constants have rows of their own in `plan -v`.
    row.map_or("", |row| row.why.split("; constants: ").next().unwrap_or("")).to_owned()
}

fn subject(opened: &OpenDocument) -> Subject<'_> {
    let Compiled { job, plan, prediction, problems, choices, .. } = &opened.compiled;
    Subject {
        path: &opened.name,
        sha256: "",
        job: job.as_deref(),
        plan: plan.as_deref(),
        identity: None,
        prediction,
        constants: Constants::shipped(),
        problems,
        choices: choices.as_deref(),
        sources: &opened.sources,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, held above zero")]
fn whole(bytes: f64) -> u64 {
    bytes.max(0.0).round() as u64
}
