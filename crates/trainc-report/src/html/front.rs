//! The layouts of a search: time of a run against its cost, the front in full, what it beats faint behind it.

use super::axis::{Axis, compact};
use super::memory::gib;
use super::page::{Cell, Page, Picture, Section, Table, figures, is_wide, words};
use super::svg::{Anchor, SIZE, SMALL, Svg, width};
use super::words::about;
use std::collections::BTreeSet;
use trainc_diag::text;

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Front {
    /// The job.
    pub job: String,
    /// The manifest as it was named.
    pub manifest: String,
    /// The layouts that none beats which fits as surely, the fastest first; the place of each, from 1, is its number everywhere.
    pub best: Vec<Choice>,
    /// Those that fit and are beaten.
    pub beaten: Vec<Spot>,
    /// Whether the manifest itself is one of those beaten: where it stands.
    pub written: Option<Spot>,
    /// Of what the front is the best: `of the 525 layouts looked at (nodes 1, 2 and 4)`.
    pub looked_at: String,
    /// Layouts of the space that are predicted to fit.
    pub fit: u64,
    /// The number of the one that `--write` takes where none is named.
    pub first_choice: usize,
    /// What comes next, and why each lost.
    pub lost: Vec<Lost>,
    /// Whether cost is in US dollars; in node-hours where no price is known.
    pub is_priced: bool,
    /// Whether those dollars are the price on demand while the job pays another that is not known (spot).
    pub is_on_demand: bool,
}

/// A place on the picture: steps and start-up on instances alone, so that all layouts are measured by one measure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spot {
    /// Seconds of the run.
    pub seconds: f64,
    /// US dollars or node-hours.
    pub cost: f64,
}

/// A layout of the front.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// Its place; none where its price is not known beside others whose price is.
    pub spot: Option<Spot>,
    /// Seconds of the run: steps and start-up.
    pub seconds: f64,
    /// In words, the instances first: `16 × ml.p4d.24xlarge, shard 128, micro-batch 6 × 1 pass, layers recomputed`.
    pub words: String,
    /// What it changes, as `--set` takes it; empty for the manifest as it is.
    pub sets: Vec<String>,
    /// Seconds of a step.
    pub step_seconds: f64,
    /// Seconds of the whole run, checkpoints and data among them.
    pub run_seconds: Option<f64>,
    /// Dollars of the whole run, volumes and file systems among them.
    pub cost_usd: Option<f64>,
    /// Memory of a GPU, bytes.
    pub memory_bytes: Option<f64>,
    /// The high end of it, bytes, where that is more than the GPU has: it may not fit.
    pub may_need_bytes: Option<f64>,
}

/// A layout that comes next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lost {
    /// In words, as [`Choice::words`].
    pub words: String,
    /// What beat or refused it.
    pub why: String,
}

/// Height of the picture.
const HEIGHT: f64 = 400.0;

/// How far a name ends left of its point and stands below it, and the height of a line of names.
const BESIDE: f64 = 7.0;
const BELOW: f64 = 17.0;
const LINE: f64 = 15.0;

/// The page of a search.
pub(super) fn page(front: &Front) -> Page {
    let best = front.best.len() as u64;
    Page {
        title: format!("{}: layouts", front.job),
        kicker: format!("layouts of a training job · {}", front.manifest),
        heading: front.job.clone(),
        lead: format!(
            "{} fit. Of those that pass every check none that fits as surely beats {} in both time and cost, {}.",
            text::count(front.fit, "layout"),
            if best == 1 { "this one".to_owned() } else { format!("these {best}") },
            front.looked_at
        ),
        sections: std::iter::once(section(front)).chain(lost(front)).collect(),
        footer: vec![
            format!(
                "Made by trainc {} with catalogue {}.",
                env!("CARGO_PKG_VERSION"),
                trainc_catalog::VERSION
            ),
            format!(
                "The global batch stays. Layouts of the front pass every check; `trainc tune --write=N` puts number N into the manifest, `--write` number {}.",
                front.first_choice
            ),
        ],
        ..Page::default()
    }
}

fn cost(front: &Front, amount: f64) -> String {
    if front.is_priced {
        let on_demand = if front.is_on_demand { " on demand" } else { "" };
        format!("{}{on_demand}", text::dollars(amount))
    } else {
        format!("{} node-hours", compact(amount))
    }
}

fn section(front: &Front) -> Section {
    let mut section = Section { id: "front", title: "Time against cost", ..Section::default() };
    let Some(fastest) = front.best.first() else {
        section.text.push("No layout of the space fits, passes every check and keeps the bounds.".to_owned());
        return section;
    };
    let costs = |one: &Choice| match one.spot {
        Some(spot) => format!("costs {}", cost(front, spot.cost)),
        None => "has no known price".to_owned(),
    };
    let price = |one: &&Choice| one.spot.map_or(f64::INFINITY, |spot| spot.cost);
    let cheapest = front.best.iter().min_by(|a, b| price(a).total_cmp(&price(b))).unwrap_or(fastest);
    section.text.push(if front.best.len() == 1 {
        "One layout is both the fastest and the cheapest.".to_owned()
    } else {
        format!(
            "The fastest takes {} and {}; the cheapest takes {} and {}.",
            about(fastest.seconds),
            costs(fastest),
            about(cheapest.seconds),
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
            "Not on the picture, because the price is not known: {}.",
            text::list(&unpriced, "and")
        ));
    }
    if front.best.iter().any(|one| one.may_need_bytes.is_some()) {
        section.text.push(format!(
            "What may not fit leaves less room than the error of a predicted memory; `--write` takes number {}.",
            front.first_choice
        ));
    }
    section.pictures.push(Picture::of(|width| draw(front, width)));
    section.caption = String::from(
        "Numbered: the front, in words in the table. Faint: layouts that fit and are beaten in both. The ring is the manifest as it is. Points hold steps and start-up on instances alone; the table has the whole run.",
    );
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
                one.run_seconds.map_or_else(|| "–".into(), |seconds| about(seconds).into()),
                one.cost_usd.map_or_else(|| "not known".into(), |usd| text::dollars(usd).into()),
                format!("{} s", text::short(one.step_seconds)).into(),
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
        words(""),
        figures("run"),
        figures("cost"),
        figures("step"),
        figures("a GPU"),
        words("layout"),
        words("changes"),
    ];
    section.tables.push(Table { summary: None, head, rows, has_sum: false, shape: "choices" });
    section
}

/// What is not on the front, where there is something to say of it.
fn lost(front: &Front) -> Option<Section> {
    if front.lost.is_empty() {
        return None;
    }
    let rows =
        front.lost.iter().map(|one| vec![one.words.as_str().into(), one.why.as_str().into()]).collect();
    let head = vec![words("layout"), words("why")];
    let table = Table { summary: None, head, rows, has_sum: false, shape: "" };
    Some(Section {
        id: "lost",
        title: "What comes next, and why it lost",
        tables: vec![table],
        ..Section::default()
    })
}

/// In what a time axis counts whose longest time is so many seconds, and its sign.
fn unit(longest: f64) -> (f64, &'static str) {
    match longest {
        days if days > 3.0 * 86_400.0 => (86_400.0, "d"),
        hours if hours > 2.0 * 3_600.0 => (3_600.0, "h"),
        _ => (60.0, "min"),
    }
}

fn draw(front: &Front, wide: f64) -> String {
    let left = if is_wide(wide) { 64.0 } else { 54.0 };
    let (right, top, bottom) = (wide - 16.0, 34.0, HEIGHT - 44.0);
    let spots = || {
        front.best.iter().filter_map(|one| one.spot).chain(front.beaten.iter().copied()).chain(front.written)
    };
    let ends = |of: fn(Spot) -> f64| {
        let (low, high) =
            spots().map(of).fold((f64::MAX, 0.0_f64), |(low, high), n| (low.min(n), high.max(n)));
        (low / 1.12, high * 1.12)
    };
    let (times, costs) = (ends(|spot| spot.seconds), ends(|spot| spot.cost));
    let (unit, sign) = unit(times.1);
    let x = Axis::log(times.0 / unit, times.1 / unit, left, right);
    let y = Axis::log(costs.0, costs.1, bottom, top);
    let mut svg = Svg::new(wide, HEIGHT);
    let words = match (front.is_priced, front.is_on_demand) {
        (true, true) => "US dollars of a run at the price on demand",
        (true, false) => "US dollars of a run",
        (false, _) => "node-hours of a run",
    };
    svg.text("b", Anchor::Start, 0.0, 13.0, words);
    for mark in y.marks(7) {
        svg.line("grid", (left, y.at(mark)), (right, y.at(mark)));
        let words = if front.is_priced { format!("${}", compact(mark)) } else { compact(mark) };
        svg.text("s m", Anchor::End, left - 7.0, y.at(mark) + 4.0, &words);
    }
    svg.line("rule", (left, bottom), (right, bottom));
    super::stack::ruler(&mut svg, &x, (right, bottom), if is_wide(wide) { 9 } else { 5 }, |n| {
        format!("{} {sign}", text::short(n))
    });
    svg.text("s m", Anchor::End, right, bottom + 34.0, "time of a run");

    // Beaten ones lie in heaps: one point for each place that can be told apart.
    let mut seen = BTreeSet::new();
    for spot in &front.beaten {
        let at = (x.at(spot.seconds / unit), y.at(spot.cost));
        #[expect(clippy::cast_possible_truncation, reason = "coordinates of a page")]
        if seen.insert(((at.0 / 2.0).round() as i64, (at.1 / 2.0).round() as i64)) {
            svg.circle("faint", at.0, at.1, 3.0);
        }
    }
    let placed: Vec<(usize, &Choice, (f64, f64))> = (1..)
        .zip(&front.best)
        .filter_map(|(number, one)| {
            one.spot.map(|spot| (number, one, (x.at(spot.seconds / unit), y.at(spot.cost))))
        })
        .collect();
    let line: Vec<(f64, f64)> = placed.iter().map(|(.., at)| *at).collect();
    svg.polyline("curve", &line);
    for (number, one, (px, py)) in &placed {
        svg.named_circle("dot", *px, *py, 5.0, &format!("{number}: {}", one.words));
    }
    let written = front.written.map(|spot| (x.at(spot.seconds / unit), y.at(spot.cost)));
    let is_written = |px: f64, py: f64| written.is_some_and(|at| (at.0 - px).abs() + (at.1 - py).abs() < 2.0);
    // Below and left of the front nothing lies, whether it is steep or flat: there stand the names.
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    for (number, _, (px, py)) in &placed {
        let long = format!("{number}, as written");
        let fits = px - BESIDE - width(&long, SIZE) > left;
        let name = if is_written(*px, *py) && fits { long } else { number.to_string() };
        let wide = width(&name, SIZE);
        let (end, mut base) = ((px - BESIDE).max(left + wide + 2.0), (py + BELOW).min(bottom - 4.0));
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
        if named && px - BESIDE - width("1, as written", SIZE) <= left {
            // No room on the left: above and right, where what is beaten lies apart from it.
            svg.text("s b", Anchor::Start, px + 9.0, py - 9.0, "as written");
        } else if !named {
            let up = py + 24.0 > bottom - 2.0;
            let at = if up { py - 14.0 } else { py + 24.0 };
            svg.text("s b", Anchor::Middle, px.clamp(left + half, right - half), at, "as written");
        }
    }
    svg.finish("Layouts by the time and the cost of a run; the table below has every one of the front")
}
