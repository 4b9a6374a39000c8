//! The timeline of an optimizer step in two lanes: the work of the GPU, and the concurrent work of its links.
//!
//! The cost model predicts the total time of each kind of work in a step, not how its pieces alternate, so
//! each kind is drawn as one part, in the order in which the last pieces end.

use super::axis::Axis;
use super::page::{Cell, Picture, Section, Table, is_wide, number_column, text_column};
use super::stacked_bar::{ABOVE, Frame, Part, bar, ruler};
use super::svg::{Anchor, Svg};
use crate::json::Document;
use trainc_diag::text;
use trainc_ir::mfu::format_mfu;
use trainc_predict::{Communication, Interval, Speed, SpeedParts};

/// Height of a lane.
const LANE: f64 = 44.0;

/// Returns the GPU's parts of a step, in the order of the lane.
fn gpu_parts(parts: &SpeedParts) -> Vec<(Part, &'static str)> {
    let all = [
        ("input", parts.input.unwrap_or(0.0), "c7", "waiting for data"),
        ("compute", parts.compute, "c1", "forward and backward passes"),
        (
            "exposed communication",
            parts.exposed_communication,
            "hatch",
            "communication that is not hidden behind computation",
        ),
        ("bubble", parts.bubble, "dots", "the pipeline fills and drains"),
        ("offload", parts.offload, "c5", "waiting for host memory"),
        ("optimizer", parts.optimizer, "c3", "the optimizer step"),
    ];
    numbered(all.into_iter(), 1)
}

/// Returns the communication over links, in the order of the lane: first what overlaps with the passes.
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
        ("context", links.context, "c7", "keys and values sent around a context ring, during attention"),
        ("tensor", links.tensor, "c4", "all-reduces of a layer's tensor group, exposed"),
        ("stages", links.pipeline, "c5", "activations sent to the next stage and back, exposed"),
        ("experts", links.experts, "c7", "tokens sent to their experts and back, exposed"),
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

/// Returns the start of the lane of the links, seconds into the step: overlapped communication ends as long
/// after the passes as the GPU waits for it.
fn link_lane_start(parts: &SpeedParts, links: &Communication) -> f64 {
    let passes_end = parts.input.unwrap_or(0.0) + parts.compute;
    let waited_overlap = (parts.exposed_communication - links.exposed_seconds()).max(0.0);
    (passes_end + waited_overlap - links.overlapped_seconds()).max(0.0)
}

/// Formats seconds: `18 s`, `430 ms`.
pub(super) fn seconds(seconds: f64) -> String {
    if seconds <= 0.0 {
        return "0".to_owned();
    }
    if seconds >= 1.0 {
        format!("{} s", text::short_number(seconds))
    } else {
        format!("{} ms", text::short_number(seconds * 1e3))
    }
}

/// Formats an interval: `17 s to 21 s`.
fn range(ends: Interval) -> String {
    format!("{} to {}", seconds(ends.low), seconds(ends.high))
}

/// Returns the interval of each part and collective, by its name in the tables.
fn part_intervals(speed: &Speed) -> Vec<(&'static str, Interval)> {
    let (parts, links) = (speed.part_intervals(), speed.communication_intervals());
    vec![
        ("input", parts.input.unwrap_or_default()),
        ("compute", parts.compute),
        ("exposed communication", parts.exposed_communication),
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

/// Returns the section; `why` explains an unknown figure.
pub(super) fn section(document: &Document, speed: Option<&Speed>, why: impl FnOnce() -> String) -> Section {
    let mut section = Section { id: "step", title: "A step", ..Section::default() };
    let Some(speed) = speed else {
        section.text.push(why());
        return section;
    };
    let work = gpu_parts(&speed.parts);
    let links = links(&speed.communication, work.len() + 1);
    section.text.push(sentence(document, speed));
    section.pictures.push(Picture::new(|width| draw(speed, &work, &links, width)));
    section.caption = String::from("To scale.");
    if !links.is_empty() && speed.parts.exposed_communication > 0.0 {
        section.caption += " Left of the dotted line, communication is hidden behind the passes; right of \
            it, the GPU waits.";
    }
    section.caption += " The phases alternate during a step; the chart groups them by kind.";
    section.caption += match speed.parts.input {
        None => " Data loading is not modelled; it is assumed to keep up.",
        Some(_) => {
            " Data is loaded ahead: the GPU waits only if reading takes longer than the rest of the step."
        }
    };
    let share = |amount: f64| format!("{:.1}%", 100.0 * amount / speed.step_seconds);
    let ends = part_intervals(speed);
    let row = |(part, what): &(Part, &'static str)| {
        let name = Cell::part(part.name, part.class, part.number.unwrap_or(0));
        let between = ends.iter().find(|(name, _)| *name == part.name);
        let between = between.map_or_else(String::new, |(_, ends)| range(*ends));
        vec![name, seconds(part.amount).into(), share(part.amount).into(), between.into(), (*what).into()]
    };
    let mut rows: Vec<Vec<Cell>> = work.iter().map(row).collect();
    let whole = range(speed.interval);
    rows.push(vec![
        "step".into(),
        seconds(speed.step_seconds).into(),
        "100%".into(),
        whole.into(),
        "".into(),
    ]);
    let head = |what| {
        vec![
            text_column(what),
            number_column("time"),
            number_column("of the step"),
            text_column("90% interval"),
            text_column("description"),
        ]
    };
    section.tables.push(Table { summary: None, head: head("the GPU"), rows, has_sum: true, shape: "parts" });
    if !links.is_empty() {
        let mut rows: Vec<Vec<Cell>> = links.iter().map(row).collect();
        let total = speed.communication.total();
        let hidden = (total - speed.parts.exposed_communication).max(0.0);
        let words = if hidden < 1e-3 * total {
            "all of it exposed".to_owned()
        } else {
            format!(
                "{} hidden behind the GPU's work, {} exposed",
                seconds(hidden),
                seconds(speed.parts.exposed_communication)
            )
        };
        rows.push(vec![
            "communication".into(),
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
        "A step takes {} (90% interval {} to {})",
        seconds(speed.step_seconds),
        seconds(interval.low),
        seconds(interval.high)
    );
    if let Some(batch) = &document.batch {
        out += &format!(", for {}", text::count(batch.global_sequences, "sequence"));
        if let Some(tokens) = batch.global_tokens {
            out += &format!(" with {} tokens in total", text::group_digits(tokens));
        }
    }
    out + &format!(
        ". Each GPU achieves {} TFLOPS ({} without recomputation), a model FLOPS utilization of \
            {} of its 16-bit peak.",
        text::short_number(speed.tflops.hardware),
        text::short_number(speed.tflops.model),
        format_mfu(speed.mfu)
    )
}

fn draw(speed: &Speed, work: &[(Part, &'static str)], links: &[(Part, &'static str)], wide: f64) -> String {
    let (left, length) = (1.0, wide - 2.0);
    let begin = link_lane_start(&speed.parts, &speed.communication);
    let whole = speed.step_seconds.max(begin + speed.communication.total());
    let axis = Axis::linear(0.0, whole, left, left + length);
    let lanes = [("the GPU", work, 0.0), ("its links", links, begin)];
    let lanes: Vec<_> = lanes.into_iter().filter(|(_, parts, _)| !parts.is_empty()).collect();
    let each = 16.0 + ABOVE + LANE + 8.0;
    let height = lanes.len() as f64 * each + 26.0;
    let mut svg = Svg::new(wide, height);
    for (at, (name, parts, from)) in lanes.iter().enumerate() {
        let top = at as f64 * each;
        svg.text("b", Anchor::Start, 0.0, top + 13.0, name);
        let y = top + 16.0 + ABOVE;
        svg.rect("idle", left, y, length, LANE);
        let x = axis.coordinate(*from);
        let room = left + length - x;
        let parts: Vec<Part> = parts.iter().map(|(part, _)| part.clone()).collect();
        bar(&mut svg, &parts, whole - from, Frame { x, y, width: room, height: LANE }, seconds);
    }
    // Left of this line communication is hidden behind the passes, right of it the GPU waits. It leaves
    // labels uncovered.
    let passes_end = axis.coordinate(speed.parts.input.unwrap_or(0.0) + speed.parts.compute);
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
        "A step of {}: the work of a GPU and of its links; the tables below list every part",
        seconds(speed.step_seconds)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exposed_communication_follows_the_passes() {
        let parts = SpeedParts { compute: 10.0, exposed_communication: 3.0, ..SpeedParts::default() };
        let links = Communication { gather: 8.0, tensor: 1.0, ..Communication::default() };
        // Of the eight seconds two are waited for: six lie under the passes, which end after ten.
        assert!((link_lane_start(&parts, &links) - 4.0).abs() < 1e-12);
        let end = link_lane_start(&parts, &links) + links.total();
        assert!((end - parts.total()).abs() < 1e-12);
    }

    #[test]
    fn short_times_are_milliseconds() {
        assert_eq!([19.3, 0.0421].map(seconds), ["19.3 s", "42.1 ms"]);
    }
}
