//! The same training on other numbers of nodes: throughput compared with linear scaling, and the cost of a
//! run.

use super::axis::{Axis, compact};
use super::format::format_duration;
use super::memory::gib;
use super::page::{Cell, Picture, Section, Table, is_wide, number_column, text_column};
use super::svg::{Anchor, SMALL, Svg, width};
use trainc_diag::text;
use trainc_predict::Interval;
use trainc_predict::round_to_u64;

/// The job on other numbers of nodes, or why there is no comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// One entry for each number of nodes, ascending.
    Points(Vec<Point>),
    /// The reason, as a lowercase fragment.
    Unknown(String),
}

/// The job on a number of nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Nodes.
    pub nodes: u64,
    /// GPUs of all nodes.
    pub gpus: u64,
    /// Whether this is the plan itself.
    pub is_plan: bool,
    /// The outcome on this number of nodes.
    pub outcome: Outcome,
}

/// The outcome on a number of nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It runs.
    Runs(Box<Runs>),
    /// Does not fit: the bytes that a GPU needs.
    TooBig(f64),
    /// No valid layout: the reason, as a lowercase fragment.
    Illegal(String),
}

/// A layout and its figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// Micro-batch, accumulation and shard degree, as text.
    pub layout: String,
    /// Tokens per second of the whole cluster.
    pub tokens_per_second: f64,
    /// Its 90 % interval, tokens per second.
    pub interval: Interval,
    /// Memory of a GPU, bytes.
    pub memory_bytes: f64,
    /// The upper bound of it, bytes, if that exceeds the GPU's memory: it may not fit.
    pub may_need_bytes: Option<f64>,
    /// Seconds of the run, if known.
    pub run_seconds: Option<f64>,
    /// US dollars of the run, if prices are known.
    pub cost_usd: Option<f64>,
    /// True if that is at the on-demand price, because the spot price is not known.
    pub is_on_demand: bool,
}

/// Heights of the two panels.
const UPPER: f64 = 250.0;
const LOWER: f64 = 96.0;
/// Width of the numbers left of the panels.
const LEFT: f64 = 52.0;

/// Returns the section.
pub(super) fn section(scaling: &Scaling) -> Section {
    let mut section = Section { id: "scaling", title: "Scaling over nodes", ..Section::default() };
    let points = match scaling {
        Scaling::Points(points) => points,
        Scaling::Unknown(why) => {
            section.text.push(format!("No comparison: {why}."));
            return section;
        }
    };
    let running: Vec<(&Point, &Runs)> =
        points.iter().filter_map(|point| Some((point, outcome_runs(point)?))).collect();
    section.text.push(sentence(&running));
    let unsure: Vec<String> = running
        .iter()
        .filter(|(_, runs)| runs.may_need_bytes.is_some())
        .map(|(point, _)| text::group_digits(point.nodes))
        .collect();
    if !unsure.is_empty() {
        let noun = if unsure.as_slice() == ["1"] { "node" } else { "nodes" };
        section.text.push(format!(
            "On {} {noun} it may not fit: the upper bound of the predicted memory exceeds that of a GPU.",
            text::list(&unsure, "and")
        ));
    }
    if running.len() > 1 {
        section.pictures.push(Picture::new(|width| draw(points, &running, width)));
        section.caption = String::from(
            "The same training: global batch and number of steps are unchanged. Micro-batch and \
                shard degree are those of the plan where they divide and fit, else the next smaller ones; \
                every point passes all checks. Ideal is linear scaling of the plan's throughput: with few \
                nodes, memory may only allow smaller, less efficient micro-batches. Nodes and tokens/s are \
                on logarithmic scales; vertical lines are 90% intervals.",
        );
        if !unsure.is_empty() {
            section.caption += " Dashed circles may not fit.";
        }
    }
    let first = baseline(&running);
    section.tables.push(Table {
        summary: None,
        head: vec![
            number_column("nodes"),
            number_column("GPUs"),
            text_column("layout"),
            number_column("GiB per GPU"),
            number_column("tokens/s"),
            number_column("of ideal"),
            number_column("run"),
            number_column(if is_on_demand(&running) { "cost on demand" } else { "cost" }),
        ],
        rows: points.iter().map(|point| row(point, first)).collect(),
        has_sum: false,
        shape: "scaled",
    });
    section
}

fn outcome_runs(point: &Point) -> Option<&Runs> {
    match &point.outcome {
        Outcome::Runs(runs) => Some(runs),
        Outcome::TooBig(_) | Outcome::Illegal(_) => None,
    }
}

/// Returns whether the costs are at the on-demand price of a spot job.
fn is_on_demand(running: &[(&Point, &Runs)]) -> bool {
    running.iter().any(|(_, runs)| runs.is_on_demand)
}

/// Returns the baseline: the plan itself, or the fewest nodes that run if it does not.
fn baseline<'a>(running: &[(&'a Point, &'a Runs)]) -> Option<(&'a Point, &'a Runs)> {
    running.iter().find(|(point, _)| point.is_plan).or_else(|| running.first()).copied()
}

/// Returns the throughput relative to linear scaling from the baseline.
fn efficiency(point: &Point, runs: &Runs, first: Option<(&Point, &Runs)>) -> Option<f64> {
    let (least, its) = first?;
    Some(runs.tokens_per_second / (its.tokens_per_second * point.nodes as f64 / least.nodes as f64))
}

fn sentence(running: &[(&Point, &Runs)]) -> String {
    let (Some(first), Some(last)) = (running.first(), running.last()) else {
        return "No number of nodes has a valid layout that fits.".to_owned();
    };
    if running.len() == 1 {
        return format!(
            "Of the numbers of nodes compared, only {} has a valid layout that fits.",
            first.0.nodes
        );
    }
    let own = baseline(running).unwrap_or(*first);
    // The most nodes compared with the plan, or the fewest if the plan has the most.
    let other = if last.0.nodes == own.0.nodes { first } else { last };
    let gain = other.1.tokens_per_second / own.1.tokens_per_second;
    let share = efficiency(other.0, other.1, Some(own)).unwrap_or(gain);
    let mut out = format!(
        "Training is {} times as fast on {} as on {}, {:.0}% of ideal",
        text::short_number(gain),
        text::count(other.0.nodes, "node"),
        if own.0.is_plan { format!("the plan's {}", own.0.nodes) } else { own.0.nodes.to_string() },
        100.0 * share
    );
    if let (Some(was), Some(is)) = (own.1.cost_usd, other.1.cost_usd) {
        out += &format!(", and a run costs {} instead of {}", text::dollars(is), text::dollars(was));
    }
    out + "."
}

fn row(point: &Point, first: Option<(&Point, &Runs)>) -> Vec<Cell> {
    let mut cells: Vec<Cell> =
        vec![text::group_digits(point.nodes).into(), text::group_digits(point.gpus).into()];
    let none = || Cell::from("–");
    match &point.outcome {
        Outcome::Runs(runs) => {
            let plan = if point.is_plan { "the plan: " } else { "" };
            cells.push(format!("{plan}{}", runs.layout).into());
            let figure = |bytes: f64| gib(bytes).trim_end_matches(" GiB").to_owned();
            cells.push(match runs.may_need_bytes {
                None => figure(runs.memory_bytes).into(),
                Some(high) => {
                    format!("{}, up to {}: may not fit", figure(runs.memory_bytes), figure(high)).into()
                }
            });
            cells.push(text::group_digits(round_to_u64(runs.tokens_per_second)).into());
            let share = efficiency(point, runs, first);
            cells.push(share.map_or_else(none, |share| format!("{:.0}%", 100.0 * share).into()));
            cells.push(runs.run_seconds.map_or_else(none, |seconds| format_duration(seconds).into()));
            cells.push(runs.cost_usd.map_or_else(none, |usd| text::dollars(usd).into()));
        }
        Outcome::TooBig(bytes) => {
            cells.push("does not fit".into());
            cells.push(gib(*bytes).trim_end_matches(" GiB").into());
            cells.extend((0..4).map(|_| none()));
        }
        Outcome::Illegal(why) => {
            cells.push(why.as_str().into());
            cells.extend((0..5).map(|_| none()));
        }
    }
    cells
}

fn draw(points: &[Point], running: &[(&Point, &Runs)], wide: f64) -> String {
    let below = LowerPanel::new(running);
    let lower = if below.is_some() { LOWER + 30.0 } else { 0.0 };
    let height = 22.0 + UPPER + lower + 40.0;
    let mut svg = Svg::new(wide, height);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    let inset = if is_wide(wide) { 40.0 } else { 26.0 };
    let x = Axis::log(first.nodes as f64, last.nodes as f64, LEFT + inset, wide - inset);

    // Throughput.
    let rates = running.iter().flat_map(|(_, runs)| [runs.interval.low, runs.interval.high]);
    let least = rates.clone().fold(f64::MAX, f64::min);
    let most = rates.fold(0.0, f64::max).max(linear_throughput(running, last.nodes));
    let (top, bottom) = (26.0, 22.0 + UPPER);
    // Room for the label below the lowest bar.
    let floor_rate = least / (most / least).powf(0.1).max(1.45);
    let y = Axis::log(floor_rate, most * 1.1, bottom, top);
    svg.text("b", Anchor::Start, 0.0, 13.0, "tokens/s");
    for mark in y.marks(6) {
        svg.line("grid", (LEFT, y.coordinate(mark)), (wide, y.coordinate(mark)));
        svg.text("s m", Anchor::End, LEFT - 6.0, y.coordinate(mark) + 4.0, &compact(mark));
    }
    let line: Vec<(f64, f64)> = [first.nodes, last.nodes]
        .map(|nodes| {
            (x.coordinate(nodes as f64), y.coordinate(linear_throughput(running, nodes).max(floor_rate)))
        })
        .to_vec();
    if let Some((from, _)) = running.first()
        && let Some(end) = line.last()
    {
        let start = (
            x.coordinate(from.nodes as f64),
            y.coordinate(linear_throughput(running, from.nodes).max(floor_rate)),
        );
        svg.polyline("ideal", &[start, *end]);
        let words = if is_wide(wide) { "ideal: linear scaling" } else { "ideal" };
        let begin = wide - width(words, SMALL);
        svg.line("ideal", (begin - 34.0, 9.0), (begin - 6.0, 9.0));
        svg.text("s m", Anchor::End, wide, 13.0, words);
    }
    let curve: Vec<(f64, f64)> = running
        .iter()
        .map(|(point, runs)| (x.coordinate(point.nodes as f64), y.coordinate(runs.tokens_per_second)))
        .collect();
    svg.polyline("curve", &curve);
    let mut free = f64::MIN;
    for ((point, runs), (px, py)) in running.iter().zip(&curve) {
        svg.line("range", (*px, y.coordinate(runs.interval.low)), (*px, y.coordinate(runs.interval.high)));
        match (point.is_plan, runs.may_need_bytes.is_some()) {
            (true, false) => svg.circle("own", *px, *py, 6.0),
            (true, true) => svg.circle("own unsure", *px, *py, 6.0),
            (false, false) => svg.circle("dot", *px, *py, 4.5),
            (false, true) => svg.circle("dot unsure", *px, *py, 4.5),
        }
        let words = compact(runs.tokens_per_second);
        let under = (y.coordinate(runs.interval.low) + 14.0).min(bottom - 3.0);
        let half = width(&words, SMALL) / 2.0;
        if px - half >= free {
            svg.text(if point.is_plan { "s b" } else { "s" }, Anchor::Middle, *px, under, &words);
            free = px + half + 3.0;
        }
    }
    for point in points.iter().filter(|point| outcome_runs(point).is_none()) {
        let px = x.coordinate(point.nodes as f64);
        let words = match point.outcome {
            Outcome::TooBig(_) => ["does", "not fit"],
            Outcome::Runs(_) | Outcome::Illegal(_) => ["no valid", "layout"],
        };
        for (line, word) in words.iter().enumerate() {
            svg.text("s bad", Anchor::Middle, px, bottom - 20.0 + 13.0 * line as f64, word);
        }
    }
    svg.line("rule", (LEFT, bottom), (wide, bottom));

    // Cost or time of a run.
    let mut floor = bottom;
    if let Some(below) = below {
        let head = bottom + 22.0;
        floor = bottom + 30.0 + LOWER;
        svg.text("b", Anchor::Start, 0.0, head, below.name);
        let most = below.amounts.iter().copied().fold(0.0, f64::max);
        let y = Axis::linear(0.0, most * 1.02, floor, head + 24.0);
        let steps = points.len().saturating_sub(1).max(1) as f64;
        let half =
            (0.38 * (x.coordinate(last.nodes as f64) - x.coordinate(first.nodes as f64)) / steps).min(22.0);
        let mut free = f64::MIN;
        for ((point, _), amount) in running.iter().zip(&below.amounts) {
            let (px, py) = (x.coordinate(point.nodes as f64), y.coordinate(*amount));
            svg.rect(if point.is_plan { "c1" } else { "c8" }, px - half, py, 2.0 * half, floor - py);
            let class = if point.is_plan { "s b" } else { "s" };
            let words = (below.say)(*amount);
            let wide = width(&words, SMALL) / 2.0;
            if px - wide >= free {
                svg.text(class, Anchor::Middle, px, py - 5.0, &words);
                free = px + wide + 3.0;
            }
        }
        svg.line("rule", (LEFT, floor), (wide, floor));
    }

    // Numbers of nodes and GPUs below both panels.
    svg.text("s m", Anchor::Start, 0.0, floor + 16.0, "nodes");
    svg.text("s m", Anchor::Start, 0.0, floor + 31.0, "GPUs");
    let mut free = 0.0;
    for point in points {
        let px = x.coordinate(point.nodes as f64);
        let (nodes, gpus) = (text::group_digits(point.nodes), text::group_digits(point.gpus));
        let half = width(&gpus, SMALL).max(width(&nodes, SMALL)) / 2.0;
        svg.line("tick", (px, floor), (px, floor + 4.0));
        if px - half >= free {
            svg.text(if point.is_plan { "s b" } else { "s" }, Anchor::Middle, px, floor + 16.0, &nodes);
            svg.text("s m", Anchor::Middle, px, floor + 31.0, &gpus);
            free = px + half + 4.0;
        }
    }
    svg.finish(
        "Tokens per second by number of nodes compared with linear scaling, and the cost of a run; \
        the table below lists every figure",
    )
}

/// The lower panel: the cost of a run if it is known for all points, else its time.
struct LowerPanel {
    name: &'static str,
    amounts: Vec<f64>,
    say: fn(f64) -> String,
}

impl LowerPanel {
    fn new(running: &[(&Point, &Runs)]) -> Option<Self> {
        let all = |of: fn(&Runs) -> Option<f64>| {
            running.iter().map(|(_, runs)| of(runs)).collect::<Option<Vec<f64>>>()
        };
        let cost = all(|runs| runs.cost_usd).map(|amounts| Self {
            name: if is_on_demand(running) { "cost of a run, on demand" } else { "cost of a run" },
            amounts,
            say: text::dollars,
        });
        cost.or_else(|| {
            let amounts = all(|runs| runs.run_seconds)?;
            Some(Self { name: "time of a run", amounts, say: format_duration })
        })
    }
}

/// Returns the throughput of linear scaling from the baseline.
fn linear_throughput(running: &[(&Point, &Runs)], nodes: u64) -> f64 {
    baseline(running).map_or(0.0, |(point, runs)| runs.tokens_per_second * nodes as f64 / point.nodes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(nodes: u64, rate: f64) -> Point {
        let interval = Interval { low: rate / 1.2, high: rate * 1.2 };
        let runs = Runs { tokens_per_second: rate, interval, cost_usd: Some(100.0), ..Runs::default() };
        Point { nodes, gpus: nodes * 8, is_plan: nodes == 2, outcome: Outcome::Runs(Box::new(runs)) }
    }

    #[test]
    fn efficiency_is_against_the_plan_or_the_smallest_that_runs() {
        let (one, four) = (point(1, 1_000.0), point(4, 3_000.0));
        let first = Some((&one, outcome_runs(&one).unwrap()));
        assert!((efficiency(&four, outcome_runs(&four).unwrap(), first).unwrap() - 0.75).abs() < 1e-12);
        let plan = point(2, 2_500.0);
        let running: Vec<(&Point, &Runs)> =
            [&one, &plan, &four].into_iter().map(|point| (point, outcome_runs(point).unwrap())).collect();
        assert_eq!(baseline(&running).unwrap().0.nodes, 2);
        assert_eq!(baseline(&[running[0], running[2]]).unwrap().0.nodes, 1);
        let words = sentence(&running);
        assert!(
            words.starts_with("Training is 1.2 times as fast on 4 nodes as on the plan's 2, 60% of ideal"),
            "{words}"
        );
        let words = sentence(&running[..2]);
        assert!(
            words.starts_with("Training is 0.4 times as fast on 1 node as on the plan's 2, 80% of"),
            "{words}"
        );
    }

    /// A point that may not fit is marked in the picture, the table and the text.
    #[test]
    fn a_point_that_may_not_fit_is_marked() {
        let drawn = |points: &[Point]| {
            let running: Vec<(&Point, &Runs)> =
                points.iter().map(|point| (point, outcome_runs(point).unwrap())).collect();
            draw(points, &running, 880.0)
        };
        let points = vec![point(2, 1_000.0), point(4, 1_900.0)];
        assert!(!drawn(&points).contains("unsure"));
        assert!(!section(&Scaling::Points(points)).caption.contains("may not fit"));
        let mut tight = point(4, 1_900.0);
        if let Outcome::Runs(runs) = &mut tight.outcome {
            (runs.memory_bytes, runs.may_need_bytes) = (38.7 * 1_073_741_824.0, Some(45.2 * 1_073_741_824.0));
        }
        let points = vec![point(2, 1_000.0), tight];
        assert_eq!(drawn(&points).matches("dot unsure").count(), 1);
        let unsure = section(&Scaling::Points(points));
        assert!(unsure.caption.ends_with("Dashed circles may not fit."), "{}", unsure.caption);
        assert!(unsure.text[1].starts_with("On 4 nodes it may not fit"), "{:?}", unsure.text);
        let cells: Vec<&str> = unsure.tables[0].rows[1].iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(cells[3], "38.7, up to 45.2: may not fit");
    }

    #[test]
    fn a_single_point_is_a_sentence() {
        let drawn = section(&Scaling::Points(vec![point(2, 1_000.0)]));
        assert!(drawn.pictures.is_empty());
        assert!(drawn.text[0].contains("only 2 has"), "{:?}", drawn.text);
        let none = section(&Scaling::Unknown("one node".to_owned()));
        assert_eq!(none.text, ["No comparison: one node."]);
    }
}
