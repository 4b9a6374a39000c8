//! Memory of the fullest GPU compared with its capacity: parts of the peak in a step, the interval, and the
//! peak while saving.

use super::axis::Axis;
use super::page::{Cell, Picture, Section, Table, is_wide, number_column, text_column};
use super::stacked_bar::{ABOVE, Frame, Part, bar, ruler};
use super::svg::{Anchor, SMALL, Svg, width};
use crate::json::{Document, Memory};
use trainc_diag::text;
use trainc_ir::units::GIB;
use trainc_predict::{Basis, Interval, PartInterval};

/// Height of the bar of the step.
const BAR: f64 = 48.0;
/// Height of the bar of a checkpoint.
const THIN: f64 = 20.0;

/// Formats bytes in GiB: `20.1 GiB`.
pub(super) fn gib(bytes: f64) -> String {
    format!("{} GiB", text::short_number(bytes / GIB as f64))
}

/// Returns the parts in the order of plan.json, each with a description.
fn parts(memory: &Memory) -> Vec<(Part, &'static str)> {
    let p = &memory.parts;
    [
        ("parameters", p.parameters, "c1", "weights stored on this GPU"),
        ("gradients", p.gradients, "c2", "gradients stored until the optimizer step"),
        ("optimizer", p.optimizer, "c3", "moments and 32-bit copies"),
        ("activations", p.activations, "c4", "saved for the backward pass"),
        ("gathered", p.gathered, "c5", "units gathered from other ranks temporarily"),
        ("logits", p.logits, "c6", "logits and loss"),
        ("buffers", p.buffers, "c7", "buffers of collectives and the optimizer"),
        ("reserve", p.reserve, "hatch", "CUDA context, allocator slack, driver"),
    ]
    .into_iter()
    .filter_map(|(name, amount, class, what)| {
        Some((name, amount.filter(|bytes| *bytes > 0)? as f64, class, what))
    })
    .enumerate()
    .map(|(at, (name, amount, class, what))| (Part { name, amount, class, number: Some(at + 1) }, what))
    .collect()
}

/// Returns the section; `why` explains an unknown figure.
pub(super) fn section(document: &Document, why: impl FnOnce() -> String) -> Section {
    let memory = &document.memory;
    let mut section = Section { id: "memory", title: "Memory per GPU", ..Section::default() };
    let Some(bytes) = memory.per_gpu_bytes else {
        section.text.push(why());
        return section;
    };
    let parts = parts(memory);
    let ends = part_intervals(memory);
    section.text.push(sentence(memory, bytes as f64));
    section.pictures.push(Picture::new(|width| draw(memory, bytes as f64, &parts, width)));
    let share =
        |amount: f64| format!("{:.1}%", 100.0 * amount / memory.capacity_bytes.unwrap_or(bytes) as f64);
    let of = if memory.capacity_bytes.is_some() { "of capacity" } else { "share" };
    let mut rows: Vec<Vec<Cell>> = parts
        .iter()
        .map(|(part, what)| {
            let number = part.number.unwrap_or(0);
            let name = Cell::part(part.name, part.class, number);
            let between = ends.iter().find(|(name, _)| *name == part.name).map(|(_, ends)| ends.as_str());
            let between = between.unwrap_or_default();
            vec![name, gib(part.amount).into(), share(part.amount).into(), between.into(), (*what).into()]
        })
        .collect();
    let whole = memory.interval.as_ref().map_or_else(String::new, |ends| range(ends.low, ends.high));
    rows.push(vec![
        "peak of a step".into(),
        gib(bytes as f64).into(),
        share(bytes as f64).into(),
        whole.into(),
        "".into(),
    ]);
    section.tables.push(Table {
        summary: None,
        head: vec![
            text_column("part"),
            number_column("memory"),
            number_column(of),
            text_column("90% interval"),
            text_column("description"),
        ],
        rows,
        has_sum: true,
        shape: "parts",
    });
    section
}

/// Formats a range: `18.4 to 24.0 GiB`.
fn range(low: f64, high: f64) -> String {
    format!("{} to {}", text::short_number(low / GIB as f64), gib(high))
}

/// Returns the interval of each part as text.
fn part_intervals(memory: &Memory) -> Vec<(&'static str, String)> {
    let p = &memory.parts_interval;
    [
        ("parameters", &p.parameters),
        ("gradients", &p.gradients),
        ("optimizer", &p.optimizer),
        ("activations", &p.activations),
        ("gathered", &p.gathered),
        ("logits", &p.logits),
        ("buffers", &p.buffers),
        ("reserve", &p.reserve),
    ]
    .into_iter()
    .filter_map(|(name, ends)| {
        let PartInterval { interval, basis } = ends.as_ref()?;
        let is_exact = *basis == Basis::Counted;
        Some((name, if is_exact { "counted".to_owned() } else { range(interval.low, interval.high) }))
    })
    .collect()
}

/// Describes the expected memory with its interval, the peak while saving, and the host memory.
fn sentence(memory: &Memory, bytes: f64) -> String {
    let mut out = format!("The fullest GPU is expected to need {}", gib(bytes));
    if let Some(interval) = &memory.interval {
        out += &format!(" (90% interval {} to {})", gib(interval.low), gib(interval.high));
    }
    out += match memory.capacity_bytes {
        Some(_) => ".",
        None => ". Its capacity is not known.",
    };
    if let Some(peak) = memory.peak_checkpoint_bytes {
        let ends = format_interval(memory.peak_checkpoint_bytes_interval.as_ref());
        out += &format!(" While saving a checkpoint it needs {}{ends}.", gib(peak as f64));
    }
    if let Some(host) = memory.host_bytes {
        let ends = format_interval(memory.host_bytes_interval.as_ref());
        out += &format!(" Each host needs about {}{ends} of its own memory.", gib(host as f64));
    }
    out
}

/// Formats an interval: ` (4 to 8 GiB)`; empty if unknown.
fn format_interval(interval: Option<&Interval>) -> String {
    interval.map_or_else(String::new, |ends| format!(" ({} to {})", gib(ends.low), gib(ends.high)))
}

fn draw(memory: &Memory, bytes: f64, parts: &[(Part, &'static str)], wide: f64) -> String {
    let capacity = memory.capacity_bytes.map(|capacity| capacity as f64);
    let high = memory.interval.as_ref().map_or(bytes, |interval| interval.high);
    let checkpoint = memory.peak_checkpoint_bytes.map(|peak| peak as f64);
    let whole =
        [Some(bytes), Some(high), capacity, checkpoint].into_iter().flatten().fold(0.0, f64::max) * 1.01;
    let (left, length) = (1.0, wide - 2.0);
    let axis = Axis::linear(0.0, whole, left, left + length);
    // The ruler counts in GiB, so that its marks are round.
    let ruled = Axis::linear(0.0, whole / GIB as f64, left, left + length);
    let top = 20.0 + ABOVE;
    let below = top + BAR;
    let height = below + 30.0 + checkpoint.map_or(0.0, |_| THIN + 20.0) + 22.0;
    let mut svg = Svg::new(wide, height);

    // Free memory up to the capacity.
    if let Some(capacity) = capacity.filter(|capacity| *capacity > bytes) {
        let (from, to) = (axis.coordinate(bytes), axis.coordinate(capacity));
        svg.rect("free", from, top, to - from, BAR);
        let words =
            if is_wide(wide) { format!("free {}", gib(capacity - bytes)) } else { gib(capacity - bytes) };
        if width(&words, SMALL) + 10.0 <= to - from {
            svg.text("s m", Anchor::Middle, f64::midpoint(from, to), top + BAR / 2.0 + 4.0, &words);
        }
    }
    let drawn: Vec<Part> = parts.iter().map(|(part, _)| part.clone()).collect();
    bar(&mut svg, &drawn, whole, Frame { x: left, y: top, width: length, height: BAR }, gib);

    // The interval: a bracket below the bar.
    if let Some(interval) = &memory.interval {
        let (from, to, y) = (axis.coordinate(interval.low), axis.coordinate(interval.high), below + 9.0);
        svg.line("range", (from, y), (to, y));
        for x in [from, to] {
            svg.line("range", (x, y - 4.0), (x, y + 4.0));
        }
        let words = "90% interval";
        if from - 7.0 >= width(words, SMALL) {
            svg.text("s m", Anchor::End, from - 7.0, y + 4.0, words);
        } else {
            svg.text("s m", Anchor::Start, to + 7.0, y + 4.0, words);
        }
    }
    let mut y = below + 24.0;
    if let Some(checkpoint) = checkpoint {
        let end = axis.coordinate(checkpoint);
        svg.rect("c8", left, y, end - left, THIN);
        let words = format!("saving a checkpoint {}", gib(checkpoint));
        if width(&words, SMALL) + 12.0 <= end - left {
            svg.text("on s", Anchor::Start, left + 6.0, y + 14.0, &words);
        } else if end + 8.0 + width(&words, SMALL) <= wide {
            svg.text("s", Anchor::Start, end + 8.0, y + 14.0, &words);
        }
        y += THIN + 12.0;
    }
    if let Some(capacity) = capacity {
        let x = axis.coordinate(capacity);
        let class = if bytes > capacity { "over" } else { "limit" };
        svg.line(class, (x, top - 14.0), (x, y));
        let words = format!("capacity {}", gib(capacity));
        svg.text("b", Anchor::End, x.max(width(&words, 14.0)), top - 20.0, &words);
    }
    svg.line("rule", (left, y), (left + length, y));
    ruler(&mut svg, &ruled, (wide, y), if is_wide(wide) { 10 } else { 5 }, |gib| {
        format!("{} GiB", text::short_number(gib))
    });
    svg.finish(&format!("Memory per GPU by part: {} in total; the table below lists every part", gib(bytes)))
}
