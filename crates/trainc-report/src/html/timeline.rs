//! One optimizer step as two lanes to one scale: what the GPU does, and what its links do meanwhile.
//!
//! The cost model knows how long each kind of work takes in a step, not when its pieces alternate, so that kinds stand
//! together: a picture of shares, in the order in which the last of each kind ends.

use super::axis::Axis;
use super::page::{Cell, Picture, Section, Table, figures, is_wide, words};
use super::stack::{ABOVE, Frame, Part, bar, ruler};
use super::svg::{Anchor, Svg};
use crate::json::Document;
use trainc_diag::text;
use trainc_predict::{Communication, Interval, Speed, SpeedParts};

/// Height of a lane.
const LANE: f64 = 44.0;

/// The GPU's parts of a step, in the order of the lane.
fn work(parts: &SpeedParts) -> Vec<(Part, &'static str)> {
    let all = [
        ("input", parts.input.unwrap_or(0.0), "c7", "waits for data"),
        ("compute", parts.compute, "c1", "forward and backward passes"),
        (
            "waits for links",
            parts.exposed_communication,
            "hatch",
            "communication that the work does not hide",
        ),
        ("bubble", parts.bubble, "dots", "the pipeline fills and drains"),
        ("offload", parts.offload, "c5", "waits for host memory"),
        ("optimizer", parts.optimizer, "c3", "the optimizer's step"),
    ];
    numbered(all.into_iter(), 1)
}

/// What goes over links, in the order of the lane: what runs beside the passes first.
fn links(links: &Communication, first: usize) -> Vec<(Part, &'static str)> {
    let all = [
        (
            "gather and scatter",
            links.gather,
            "c2",
            "parameters gathered, gradients scattered inside a shard group",
        ),
        ("replicas", links.replicas, "c6", "each shard's gradients summed over the replicas"),
        ("gradients", links.gradients, "c6", "gradients summed over all data ranks"),
        ("context", links.context, "c7", "keys and values sent around a context ring, beside the attention"),
        ("tensor", links.tensor, "c4", "all-reduces of a layer's tensor group, waited for"),
        ("stages", links.pipeline, "c5", "activations sent to the next stage and back, waited for"),
        ("experts", links.experts, "c7", "tokens sent to their experts and back, waited for"),
    ];
    numbered(all.into_iter(), first)
}

fn numbered(
    all: impl Iterator<Item = (&'static str, f64, &'static str, &'static str)>,
    first: usize,
) -> Vec<(Part, &'static str)> {
    all.filter(|(_, seconds, _, _)| *seconds > 0.0)
        .zip(first..)
        .map(|((name, amount, class, what), number)| {
            (Part { name, amount, class, number: Some(number) }, what)
        })
        .collect()
}

/// Where the lane of the links begins, seconds into the step: what is beside the passes ends as far behind their end as
/// the GPU waits for it.
fn links_begin(parts: &SpeedParts, links: &Communication) -> f64 {
    let passes_end = parts.input.unwrap_or(0.0) + parts.compute;
    let waited_beside = (parts.exposed_communication - links.waited()).max(0.0);
    (passes_end + waited_beside - links.beside()).max(0.0)
}

/// `18 s`, `430 ms`.
pub(super) fn seconds(seconds: f64) -> String {
    if seconds <= 0.0 {
        return "0".to_owned();
    }
    if seconds >= 1.0 {
        format!("{} s", text::short(seconds))
    } else {
        format!("{} ms", text::short(seconds * 1e3))
    }
}

/// `17 s to 21 s`.
fn range(ends: Interval) -> String {
    format!("{} to {}", seconds(ends.low), seconds(ends.high))
}

/// Where each part and each collective is expected, by the names of the tables.
fn ends(speed: &Speed) -> Vec<(&'static str, Interval)> {
    let (parts, links) = (speed.parts_between(), speed.communication_between());
    vec![
        ("input", parts.input.unwrap_or_default()),
        ("compute", parts.compute),
        ("waits for links", parts.exposed_communication),
        ("bubble", parts.bubble),
        ("offload", parts.offload),
        ("optimizer", parts.optimizer),
        ("gather and scatter", links.gather),
        ("replicas", links.replicas),
        ("gradients", links.gradients),
        ("context", links.context),
        ("tensor", links.tensor),
        ("stages", links.pipeline),
        ("experts", links.experts),
    ]
}

/// The section; `why` where nothing is known.
pub(super) fn section(document: &Document, speed: Option<&Speed>, why: impl FnOnce() -> String) -> Section {
    let mut section = Section { id: "step", title: "A step", ..Section::default() };
    let Some(speed) = speed else {
        section.text.push(why());
        return section;
    };
    let work = work(&speed.parts);
    let links = links(&speed.communication, work.len() + 1);
    section.text.push(sentence(document, speed));
    section.pictures.push(Picture::of(|width| draw(speed, &work, &links, width)));
    section.caption = String::from("To scale.");
    if !links.is_empty() && speed.parts.exposed_communication > 0.0 {
        section.caption +=
            " Up to the dotted line links are hidden behind the passes, past it the GPU waits.";
    }
    section.caption += " Pieces of one kind alternate in the run and stand together here.";
    section.caption += match speed.parts.input {
        None => " How the program loads its data is not known and taken to keep up.",
        Some(_) => {
            " Data are loaded ahead: what waits for them is what reading takes longer than the rest of the step."
        }
    };
    let share = |amount: f64| format!("{:.1}%", 100.0 * amount / speed.step_seconds);
    let ends = ends(speed);
    let row = |(part, what): &(Part, &'static str)| {
        let name = Cell::part(part.name, part.class, part.number.unwrap_or(0));
        let between = ends.iter().find(|(name, _)| *name == part.name);
        let between = between.map_or_else(String::new, |(_, ends)| range(*ends));
        vec![name, seconds(part.amount).into(), share(part.amount).into(), between.into(), (*what).into()]
    };
    let mut rows: Vec<Vec<Cell>> = work.iter().map(row).collect();
    let whole = range(speed.interval);
    rows.push(vec![
        "a step".into(),
        seconds(speed.step_seconds).into(),
        "100%".into(),
        whole.into(),
        "".into(),
    ]);
    let head = |what| {
        vec![words(what), figures("time"), figures("of the step"), words("expected"), words("what it is")]
    };
    section.tables.push(Table { summary: None, head: head("the GPU"), rows, has_sum: true, shape: "parts" });
    if !links.is_empty() {
        let mut rows: Vec<Vec<Cell>> = links.iter().map(row).collect();
        let total = speed.communication.total();
        let hidden = (total - speed.parts.exposed_communication).max(0.0);
        let words = if hidden < 1e-3 * total {
            "all of it waited for".to_owned()
        } else {
            format!(
                "{} hidden behind the GPU's work, {} waited for",
                seconds(hidden),
                seconds(speed.parts.exposed_communication)
            )
        };
        rows.push(vec![
            "over links".into(),
            seconds(total).into(),
            share(total).into(),
            "".into(),
            words.into(),
        ]);
        section.tables.push(Table {
            summary: None,
            head: head("the links"),
            rows,
            has_sum: true,
            shape: "parts",
        });
    }
    section
}

fn sentence(document: &Document, speed: &Speed) -> String {
    let interval = &speed.interval;
    let mut out = format!(
        "A step takes {}, nine times in ten between {} and {}",
        seconds(speed.step_seconds),
        seconds(interval.low),
        seconds(interval.high)
    );
    if let Some(batch) = &document.batch {
        out += &format!(", for {}", text::count(batch.global_sequences, "sequence"));
        if let Some(tokens) = batch.global_tokens {
            out += &format!(" of together {} tokens", text::group(tokens));
        }
    }
    out + &format!(
        ". Each GPU does {} TFLOPS ({} without what is computed twice), {}% of its 16-bit peak by the model's operations.",
        text::short(speed.tflops.hardware),
        text::short(speed.tflops.model),
        text::short(100.0 * speed.mfu)
    )
}

fn draw(speed: &Speed, work: &[(Part, &'static str)], links: &[(Part, &'static str)], wide: f64) -> String {
    let (left, length) = (1.0, wide - 2.0);
    let begin = links_begin(&speed.parts, &speed.communication);
    let whole = speed.step_seconds.max(begin + speed.communication.total());
    let axis = Axis::linear(0.0, whole, left, left + length);
    let lanes = [("the GPU", work, 0.0), ("its links, meanwhile", links, begin)];
    let lanes: Vec<_> = lanes.into_iter().filter(|(_, parts, _)| !parts.is_empty()).collect();
    let each = 16.0 + ABOVE + LANE + 8.0;
    let height = lanes.len() as f64 * each + 26.0;
    let mut svg = Svg::new(wide, height);
    for (at, (name, parts, from)) in lanes.iter().enumerate() {
        let top = at as f64 * each;
        svg.text("b", Anchor::Start, 0.0, top + 13.0, name);
        let y = top + 16.0 + ABOVE;
        svg.rect("idle", left, y, length, LANE);
        let x = axis.at(*from);
        let room = left + length - x;
        let parts: Vec<Part> = parts.iter().map(|(part, _)| part.clone()).collect();
        bar(&mut svg, &parts, whole - from, Frame { x, y, width: room, height: LANE }, seconds);
    }
    // Left of this line links are hidden behind the passes, right of it the GPU waits for them. It leaves names free.
    let passes_end = axis.at(speed.parts.input.unwrap_or(0.0) + speed.parts.compute);
    if lanes.len() > 1 && speed.parts.exposed_communication > 0.0 {
        let top = each + 16.0 + ABOVE;
        for (from, to) in [(top - ABOVE - 24.0, top + 7.0), (top + LANE - 7.0, top + LANE + 8.0)] {
            svg.line("guide", (passes_end, from), (passes_end, to));
        }
    }
    let y = lanes.len() as f64 * each;
    svg.line("rule", (left, y), (left + length, y));
    ruler(&mut svg, &axis, (wide, y), if is_wide(wide) { 10 } else { 5 }, seconds);
    svg.finish(&format!(
        "A step of {}: the work of a GPU and of its links; the tables below have every part",
        seconds(speed.step_seconds)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_lies_past_the_passes() {
        let parts = SpeedParts { compute: 10.0, exposed_communication: 3.0, ..SpeedParts::default() };
        let links = Communication { gather: 8.0, tensor: 1.0, ..Communication::default() };
        // Of the eight seconds two are waited for: six lie under the passes, which end after ten.
        assert!((links_begin(&parts, &links) - 4.0).abs() < 1e-12);
        let end = links_begin(&parts, &links) + links.total();
        assert!((end - parts.total()).abs() < 1e-12);
    }

    #[test]
    fn short_times_are_milliseconds() {
        assert_eq!([19.3, 0.0421].map(seconds), ["19.3 s", "42.1 ms"]);
    }
}
