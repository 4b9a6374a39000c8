//! The layouts of a search by time and cost: the Pareto front in full, dominated layouts faint.

use super::axis::{Axis, compact};
use super::format::format_duration;
use super::memory::gib;
use super::page::{Cell, Page, Picture, Section, Table, is_wide, number_column, text_column};
use super::svg::{Anchor, SIZE, SMALL, Svg, width};
use std::collections::BTreeSet;
use trainc_diag::text;

/// The result of a layout search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParetoFront {
    /// The job.
    pub job: String,
    /// The manifest as the user named it.
    pub manifest: String,
    /// The Pareto-optimal layouts among those that fit as surely, the fastest first; numbered from 1.
    pub best: Vec<FrontLayout>,
    /// The layouts that fit and are dominated.
    pub beaten: Vec<PlotPoint>,
    /// The layout of the manifest, if it is dominated.
    pub written: Option<PlotPoint>,
    /// The layouts searched: `of the 525 layouts looked at (nodes 1, 2 and 4)`.
    pub looked_at: String,
    /// Number of layouts that are predicted to fit.
    pub fit: u64,
    /// The number of the layout that `--write` takes by default.
    pub first_choice: usize,
    /// The runners-up, and why each was rejected.
    pub lost: Vec<RunnerUp>,
    /// Whether costs are in US dollars; in node-hours if no price is known.
    pub is_priced: bool,
    /// Whether costs are at on-demand prices because spot prices are not known.
    pub is_on_demand: bool,
}

/// A point of the picture: time and cost of steps and start-up on instances only, so that all layouts are
/// comparable.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlotPoint {
    /// Seconds of the run.
    pub seconds: f64,
    /// US dollars or node-hours.
    pub cost: f64,
}

/// A layout of the Pareto front.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrontLayout {
    /// Its point; `None` if its price is not known while others have one.
    pub spot: Option<PlotPoint>,
    /// Seconds of the run: steps and start-up.
    pub seconds: f64,
    /// Its description, instances first:
    /// `16 × ml.p4d.24xlarge, shard 128, micro-batch 6 × 1 pass, layers recomputed`.
    pub words: String,
    /// Its changes to the manifest, as arguments of `--set`.
    pub sets: Vec<String>,
    /// Seconds of a step.
    pub step_seconds: f64,
    /// Seconds of the whole run, checkpoints and data included.
    pub run_seconds: Option<f64>,
    /// Dollars of the whole run, volumes and file systems included; at on-demand prices where the picture is.
    pub cost_usd: Option<f64>,
    /// Memory of a GPU, bytes.
    pub memory_bytes: Option<f64>,
    /// The upper bound of it, bytes, if that exceeds the GPU's memory: it may not fit.
    pub may_need_bytes: Option<f64>,
}

/// A rejected layout close to the front.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunnerUp {
    /// Its description, as [`FrontLayout::words`].
    pub words: String,
    /// Why it was rejected.
    pub why: String,
}

/// Height of the picture.
const HEIGHT: f64 = 400.0;

/// The distance of a label to its point, to the left and below, and the height of a line of labels.
const LABEL_LEFT: f64 = 7.0;
const BELOW: f64 = 17.0;
const LINE: f64 = 15.0;

/// Returns the page of a search.
pub(super) fn page(front: &ParetoFront) -> Page {
    let best = front.best.len() as u64;
    Page {
        title: format!("{}: layouts", front.job),
        kicker: format!("layouts of a training job · {}", front.manifest),
        heading: front.job.clone(),
        lead: format!(
            "{} fit. {} of time and cost {}; layouts that may not fit are ranked separately.",
            text::count(front.fit, "layout"),
            if best == 1 {
                "This one is the best trade-off".to_owned()
            } else {
                format!("These {best} are the best trade-offs")
            },
            front.looked_at
        ),
        sections: std::iter::once(section(front)).chain(runners_up_section(front)).collect(),
        footer: vec![
            format!(
                "Made by trainc {} with catalogue {}.",
                env!("CARGO_PKG_VERSION"),
                trainc_catalog::VERSION
            ),
            format!(
                "The global batch is unchanged. Layouts of the front pass every check; `trainc \
                    tune --write=N` writes number N into the manifest, `--write` number {}.",
                front.first_choice
            ),
        ],
        ..Page::default()
    }
}

fn cost(front: &ParetoFront, amount: f64) -> String {
    if front.is_priced {
        let on_demand = if front.is_on_demand { " on demand" } else { "" };
        format!("{}{on_demand}", text::dollars(amount))
    } else {
        format!("{} node-hours", compact(amount))
    }
}

fn section(front: &ParetoFront) -> Section {
    let mut section = Section { id: "front", title: "Time against cost", ..Section::default() };
    let Some(fastest) = front.best.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds)) else {
        section.text.push("No layout fits, passes every check and respects the bounds.".to_owned());
        return section;
    };
    let costs = |one: &FrontLayout| match one.spot {
        Some(spot) => format!("costs {}", cost(front, spot.cost)),
        None => "has no known price".to_owned(),
    };
    let price = |one: &&FrontLayout| one.spot.map_or(f64::INFINITY, |spot| spot.cost);
    let cheapest = front.best.iter().min_by(|a, b| price(a).total_cmp(&price(b))).unwrap_or(fastest);
    section.text.push(if front.best.len() == 1 {
        "One layout is both the fastest and the cheapest.".to_owned()
    } else {
        format!(
            "The fastest takes {} and {}; the cheapest takes {} and {}.",
            format_duration(fastest.seconds),
            costs(fastest),
            format_duration(cheapest.seconds),
            costs(cheapest)
        )
    });
    let unpriced: Vec<String> = (1..)
        .zip(&front.best)
        .filter(|(_, one)| one.spot.is_none())
        .map(|(number, _): (u64, _)| number.to_string())
        .collect();
    if !unpriced.is_empty() {
        section.text.push(format!(
            "Not in the picture, because the price is not known: {}.",
            text::list(&unpriced, "and")
        ));
    }
    if front.best.iter().any(|one| one.may_need_bytes.is_some()) {
        section.text.push(format!(
            "Layouts that may not fit leave less free memory than the error of the prediction; \
                `--write` takes number {}.",
            front.first_choice
        ));
    }
    section.pictures.push(Picture::new(|width| draw(front, width)));
    section.caption = String::from(
        "Numbered: the Pareto front, described in the table. Faint: layouts that fit and are \
            dominated in time and cost. The ring is the manifest as written. Points include only steps and \
            start-up on instances; the table has the whole run.",
    );
    let window = Window::new(front);
    if front.beaten.iter().any(|spot| !window.contains(*spot)) {
        section.caption += " Far slower or dearer layouts are not drawn.";
    }
    let rows = (1..)
        .zip(&front.best)
        .map(|(number, one)| {
            let change = if one.sets.is_empty() {
                "as written".to_owned()
            } else {
                format!("`{}`", one.sets.join("` `"))
            };
            vec![
                Cell::part("", "c1", number),
                one.run_seconds.map_or_else(|| "–".into(), |seconds| format_duration(seconds).into()),
                one.cost_usd.map_or_else(|| "not known".into(), |usd| cost(front, usd).into()),
                format!("{} s", text::short_number(one.step_seconds)).into(),
                match (one.memory_bytes, one.may_need_bytes) {
                    (None, _) => "–".into(),
                    (Some(bytes), None) => gib(bytes).into(),
                    (Some(bytes), Some(high)) => {
                        format!("{}, up to {}: may not fit", gib(bytes), gib(high)).into()
                    }
                },
                one.words.as_str().into(),
                change.into(),
            ]
        })
        .collect();
    let head = vec![
        text_column("#"),
        number_column("run"),
        number_column("cost"),
        number_column("step"),
        number_column("memory per GPU"),
        text_column("layout"),
        text_column("changes"),
    ];
    section.tables.push(Table { summary: None, head, rows, has_sum: false, shape: "choices" });
    section
}

/// Returns the section of the runners-up; `None` without any.
fn runners_up_section(front: &ParetoFront) -> Option<Section> {
    if front.lost.is_empty() {
        return None;
    }
    let rows =
        front.lost.iter().map(|one| vec![one.words.as_str().into(), one.why.as_str().into()]).collect();
    let head = vec![text_column("layout"), text_column("why it was rejected")];
    let table = Table { summary: None, head, rows, has_sum: false, shape: "" };
    Some(Section { id: "runners-up", title: "Runners-up", tables: vec![table], ..Section::default() })
}

/// Returns the unit of the time axis, in seconds, and its symbol: that of the fastest layout to choose.
fn unit(front: &ParetoFront) -> (f64, &'static str) {
    match front.best.iter().map(|one| one.seconds).fold(f64::MAX, f64::min) {
        days if days > 3.0 * 86_400.0 => (86_400.0, "d"),
        hours if hours >= 3_600.0 => (3_600.0, "h"),
        _ => (60.0, "min"),
    }
}

/// How much slower or dearer than the front and the manifest a layout may be to be drawn. Beyond, the points
/// to choose from would share a corner.
const MOST_BEYOND: f64 = 8.0;

/// What the picture shows: from the least to the most, with a margin.
struct Window {
    seconds: (f64, f64),
    cost: (f64, f64),
}

impl Window {
    fn new(front: &ParetoFront) -> Self {
        let chosen = || front.best.iter().filter_map(|one| one.spot).chain(front.written);
        let ends = |of: fn(PlotPoint) -> f64| {
            let least = chosen().chain(front.beaten.iter().copied()).map(of).fold(f64::MAX, f64::min);
            let limit = MOST_BEYOND * chosen().map(of).fold(0.0, f64::max);
            let drawn = chosen().chain(front.beaten.iter().copied()).map(of).filter(|n| *n <= limit);
            (least / 1.12, drawn.fold(0.0, f64::max) * 1.12)
        };
        Self { seconds: ends(|spot| spot.seconds), cost: ends(|spot| spot.cost) }
    }

    fn contains(&self, spot: PlotPoint) -> bool {
        spot.seconds <= self.seconds.1 && spot.cost <= self.cost.1
    }
}

fn draw(front: &ParetoFront, wide: f64) -> String {
    let left = if is_wide(wide) { 64.0 } else { 54.0 };
    let (right, top, bottom) = (wide - 16.0, 34.0, HEIGHT - 44.0);
    let window = Window::new(front);
    let (times, costs) = (window.seconds, window.cost);
    let (unit, sign) = unit(front);
    let x = Axis::log(times.0 / unit, times.1 / unit, left, right);
    let y = Axis::log(costs.0, costs.1, bottom, top);
    let mut svg = Svg::new(wide, HEIGHT);
    let words = match (front.is_priced, front.is_on_demand) {
        (true, true) => "US dollars per run at on-demand prices",
        (true, false) => "US dollars per run",
        (false, _) => "node-hours per run",
    };
    svg.text("b", Anchor::Start, 0.0, 13.0, words);
    for mark in y.marks(7) {
        svg.line("grid", (left, y.coordinate(mark)), (right, y.coordinate(mark)));
        let words = if front.is_priced { format!("${}", compact(mark)) } else { compact(mark) };
        svg.text("s m", Anchor::End, left - 7.0, y.coordinate(mark) + 4.0, &words);
    }
    svg.line("rule", (left, bottom), (right, bottom));
    super::stacked_bar::ruler(&mut svg, &x, (right, bottom), if is_wide(wide) { 9 } else { 5 }, |n| {
        format!("{} {sign}", text::short_number(n))
    });
    svg.text("s m", Anchor::End, right, bottom + 34.0, "time of a run");

    // Dominated layouts cluster: one point for each distinguishable position.
    let mut seen = BTreeSet::new();
    for spot in front.beaten.iter().filter(|spot| window.contains(**spot)) {
        let at = (x.coordinate(spot.seconds / unit), y.coordinate(spot.cost));
        #[expect(clippy::cast_possible_truncation, reason = "coordinates of a page")]
        if seen.insert(((at.0 / 2.0).round() as i64, (at.1 / 2.0).round() as i64)) {
            svg.circle("faint", at.0, at.1, 3.0);
        }
    }
    let placed: Vec<(usize, &FrontLayout, (f64, f64))> = (1..)
        .zip(&front.best)
        .filter_map(|(number, one)| {
            one.spot.map(|spot| (number, one, (x.coordinate(spot.seconds / unit), y.coordinate(spot.cost))))
        })
        .collect();
    let mut line: Vec<(f64, f64)> = placed.iter().map(|(.., at)| *at).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    svg.polyline("curve", &line);
    for (number, one, (px, py)) in &placed {
        svg.named_circle("dot", *px, *py, 5.0, &format!("{number}: {}", one.words));
    }
    let written = front.written.map(|spot| (x.coordinate(spot.seconds / unit), y.coordinate(spot.cost)));
    let is_written = |px: f64, py: f64| written.is_some_and(|at| (at.0 - px).abs() + (at.1 - py).abs() < 2.0);
    // Labels are placed below and left of the front, where there are no points.
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    for (number, _, (px, py)) in &placed {
        let long = format!("{number}, as written");
        let fits = px - LABEL_LEFT - width(&long, SIZE) > left;
        let name = if is_written(*px, *py) && fits { long } else { number.to_string() };
        let wide = width(&name, SIZE);
        let (end, mut base) = ((px - LABEL_LEFT).max(left + wide + 2.0), (py + BELOW).min(bottom - 4.0));
        let meets = |base: f64, other: &(f64, f64, f64)| {
            let (from, to, line) = other;
            end > from - 3.0 && end - wide < to + 3.0 && (base - line).abs() < LINE
        };
        while base + LINE < bottom && taken.iter().any(|other| meets(base, other)) {
            base += LINE;
        }
        if base > py + BELOW {
            svg.line("tie", (*px, *py), (end - wide / 2.0, base - LINE + 2.0));
        }
        taken.push((end - wide, end, base));
        svg.text("b", Anchor::End, end, base, &name);
    }
    if let Some((px, py)) = written {
        svg.circle("own ring", px, py, 7.0);
        let half = width("as written", SMALL) / 2.0;
        let named = placed.iter().any(|(.., at)| is_written(at.0, at.1));
        if named && px - LABEL_LEFT - width("1, as written", SIZE) <= left {
            // Without room on the left, the label is placed above and right.
            svg.text("s b", Anchor::Start, px + 9.0, py - 9.0, "as written");
        } else if !named {
            let up = py + 24.0 > bottom - 2.0;
            let at = if up { py - 14.0 } else { py + 24.0 };
            svg.text("s b", Anchor::Middle, px.clamp(left + half, right - half), at, "as written");
        }
    }
    svg.finish("Layouts by time and cost of a run; the table below lists the Pareto front")
}
