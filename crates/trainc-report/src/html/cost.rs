//! The cost of a run, by item and by phase of the billed time.

use super::format::{format_duration, unknown_sentence};
use super::page::{Cell, Picture, Section, Table, number_column, text_column};
use super::stacked_bar::{ABOVE, Frame, Part, bar};
use super::svg::{Anchor, Svg};
use crate::after_end;
use crate::cost;
use crate::json::Document;
use crate::sections::UNKNOWN;
use trainc_diag::text;
use trainc_ir::Plan;

/// Height of a bar.
const BAR: f64 = 40.0;

/// The note if the download time is not known.
const WITHOUT_DOWNLOAD: &str = "Time and cost are lower bounds: they exclude the download before the start, \
    since the size of `dataset` is not set.";

/// A bar: its name, its parts, and the format of amounts.
struct Stack {
    name: &'static str,
    parts: Vec<Part>,
    say: fn(f64) -> String,
}

fn parts<const N: usize>(all: [(&'static str, Option<f64>, &'static str); N], first: usize) -> Vec<Part> {
    all.into_iter()
        .filter_map(|(name, amount, class)| Some((name, amount.filter(|amount| *amount > 0.0)?, class)))
        .zip(first..)
        .map(|((name, amount, class), number)| Part { name, amount, class, number: Some(number) })
        .collect()
}

fn stacks(document: &Document) -> Vec<Stack> {
    let (usd, hours) = (&document.run.cost_parts, &document.run.parts);
    let money = [
        ("instances", usd.instances, "c1"),
        ("volumes", usd.volumes, "c5"),
        ("file systems", usd.file_systems, "c3"),
    ];
    let hours = [
        ("start-up", hours.startup, "c8"),
        ("download", hours.download.flatten(), "c2"),
        ("training", hours.training, "c4"),
        ("checkpoints", hours.checkpoints, "c7"),
        ("evaluation", hours.evaluation.flatten(), "c1"),
        ("interruptions", hours.interruptions.flatten(), "c6"),
    ];
    let money = if document.run.cost_usd.is_some() { parts(money, 1) } else { Vec::new() };
    let money = if money.len() > 1 { money } else { Vec::new() };
    let hours = parts(hours, money.len() + 1);
    let stacks = [
        Stack { name: "dollars by item", parts: money, say: text::dollars },
        Stack { name: "billed time by phase", parts: hours, say: time },
    ];
    stacks.into_iter().filter(|stack| !stack.parts.is_empty()).collect()
}

/// Returns the text for a cost of a single item, which needs no bar.
fn single_item(document: &Document) -> &'static str {
    let parts = &document.run.cost_parts;
    let is_paid = |usd: Option<f64>| usd.is_some_and(|usd| usd > 0.0);
    match (is_paid(parts.instances), is_paid(parts.volumes), is_paid(parts.file_systems)) {
        (true, false, false) => ", all of it for instances",
        _ => "",
    }
}

/// Returns the section.
pub(super) fn section(document: &Document, plan: &Plan) -> Section {
    let mut section = Section { id: "cost", title: "Cost", ..Section::default() };
    if plan.names_model() && document.run.cost_usd.is_none() && document.run.on_demand_usd.is_none() {
        section.text.push(unknown_sentence("The cost of a run is", document, "run.cost_usd"));
    }
    section.text.extend(
        cost::lines(document, plan, None)
            .into_iter()
            .filter(|line| !line.starts_with(UNKNOWN) && !line.starts_with("expected cost "))
            .map(|line| {
                let item = if line.starts_with("expected $") { single_item(document) } else { "" };
                to_sentence(&(line + item))
            }),
    );
    let after = after_end::describe(&document.after_end, None);
    if !after.is_empty() {
        section.text.push(format!("After the end of the job, these are still billed: {}.", after.join("; ")));
    }
    if lacks_download(document) {
        section.text.push(WITHOUT_DOWNLOAD.to_owned());
    }
    let stacks = stacks(document);
    if stacks.is_empty() {
        return section;
    }
    section.pictures.push(Picture::new(|width| draw(&stacks, width)));
    for stack in &stacks {
        let sum: f64 = stack.parts.iter().map(|part| part.amount).sum();
        let row = |part: &Part| {
            let name = Cell::part(part.name, part.class, part.number.unwrap_or(0));
            vec![name, (stack.say)(part.amount).into(), format!("{:.1}%", 100.0 * part.amount / sum).into()]
        };
        let mut rows: Vec<Vec<Cell>> = stack.parts.iter().map(row).collect();
        let total = if lacks_download(document) { "total, excluding the download" } else { "total" };
        rows.push(vec![total.into(), (stack.say)(sum).into(), "100%".into()]);
        let head = vec![text_column(stack.name), number_column("amount"), number_column("share")];
        section.tables.push(Table { summary: None, head, rows, has_sum: true, shape: "" });
    }
    section
}

/// Returns whether the sums exclude a download whose time is not known.
fn lacks_download(document: &Document) -> bool {
    let parts = &document.run.parts;
    parts.training.is_some() && parts.download.is_none()
}

/// Formats a part of the billed time; parts below a second are not rounded to zero.
fn time(seconds: f64) -> String {
    if seconds < 1.0 { super::timeline::seconds(seconds) } else { format_duration(seconds) }
}

/// Turns a line of the terminal plan into a sentence.
fn to_sentence(line: &str) -> String {
    let mut out: String = line.chars().take(1).flat_map(char::to_uppercase).collect();
    out.extend(line.chars().skip(1));
    out.push('.');
    out
}

fn draw(stacks: &[Stack], wide: f64) -> String {
    let each = 18.0 + ABOVE + BAR + 8.0;
    let mut svg = Svg::new(wide, stacks.len() as f64 * each);
    for (at, stack) in stacks.iter().enumerate() {
        let top = at as f64 * each;
        svg.text("b", Anchor::Start, 0.0, top + 13.0, stack.name);
        let sum: f64 = stack.parts.iter().map(|part| part.amount).sum();
        let frame = Frame { x: 1.0, y: top + 18.0 + ABOVE, width: wide - 2.0, height: BAR };
        bar(&mut svg, &stack.parts, sum, frame, stack.say);
    }
    svg.finish("The cost of a run by item and its billed time by phase; the tables below list every part")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_cost_nothing_are_left_out() {
        let money =
            [("a", Some(2.0), "c1"), ("b", Some(0.0), "c2"), ("c", None, "c3"), ("d", Some(1.0), "c4")];
        let found: Vec<_> = parts(money, 1).iter().map(|part| (part.name, part.number)).collect();
        assert_eq!(found, [("a", Some(1)), ("d", Some(2))]);
        assert_eq!([0.25, 300.0].map(time), ["250 ms", "5m"]);
    }

    #[test]
    fn a_line_becomes_a_sentence() {
        assert_eq!(to_sentence("at most $5 for 1d"), "At most $5 for 1d.");
    }
}
