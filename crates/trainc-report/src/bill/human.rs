//! The bill for a terminal.

use super::total::Total;
use super::{Bill, Job, JobSide, State, format};
use crate::terminal_page::{Options, TerminalPage};
use trainc_diag::text;
use trainc_ir::price::describe_origins;
use trainc_tune::compare::Figure;

/// Width of the labels of figures, columns.
const LABEL: usize = 11;

/// Renders the bill of a change.
pub fn human(bill: &Bill, options: Options) -> String {
    let mut page = TerminalPage::new(options);
    page.title("cost of the change", &format!(" since {}", format::base(&bill.base)));
    for job in bill.jobs.iter().filter(|job| job.state() != State::Unchanged) {
        page.blank();
        job_section(&mut page, bill, job);
    }
    page.blank();
    page.field("total", &total(bill, options.today));
    page.finish()
}

/// Describes the sum over all jobs, with the dates of the prices. Today is in days since 1970; without it old
/// prices have no age.
pub(super) fn total(bill: &Bill, today: Option<i64>) -> String {
    let Total { cost, on_demand, unknown } = bill.total();
    let counts: Vec<String> = [State::Changed, State::New, State::Removed, State::Unchanged]
        .into_iter()
        .filter(|state| bill.count(*state) > 0)
        .map(|state| format!("{} {}", text::group_digits(bill.count(state)), state.word()))
        .collect();
    let mut out = format!("{}: {}", text::count(bill.jobs.len() as u64, "job"), counts.join(", "));
    if let Some(usd) = cost.usd {
        let moved = describe_sum_change(usd);
        if !moved.is_empty() {
            out.push_str(&format!("; {moved}"));
        }
        out.push_str(&cost.shared.describe());
    } else if on_demand.usd.is_none() {
        let whose = if unknown == 1 { "its cost is not known" } else { "no cost is known" };
        return format!("{out}; {whose}");
    }
    if let Some(usd) = on_demand.usd {
        let jobs = text::count(on_demand.jobs, "job");
        let (before, after) = usd;
        let half = bill.jobs.iter().any(super::Job::is_half_spot);
        let moved = if half {
            format!("{} → {}", text::dollars(before), text::dollars(after))
        } else {
            describe_sum_change(usd)
        };
        out.push_str(&format!("; {jobs} on spot at on-demand prices: {moved}"));
        out.push_str(&on_demand.shared.describe());
    }
    if unknown > 0 {
        out.push_str(&format!("; excluding {} whose cost is not known", text::count(unknown, "job")));
    }
    let changed = bill.jobs.iter().filter(|job| job.state() != State::Unchanged);
    let sides = changed.flat_map(|job| job.before.iter().chain(&job.after));
    let prices = sides.flat_map(|side| side.prices.iter().copied());
    out.extend(describe_origins(prices, today).map(|origins| format!(" ({origins})")));
    out
}

/// Describes the change of a sum; empty if it is zero on both sides.
fn describe_sum_change((before, after): (f64, f64)) -> String {
    if before == after {
        return if before > 0.0 { format!("{} unchanged", text::dollars(before)) } else { String::new() };
    }
    let difference = format::difference(Figure::Cost, before, after);
    format!("{} → {}, {difference}", text::dollars(before), text::dollars(after))
}

fn job_section(page: &mut TerminalPage, bill: &Bill, job: &Job) {
    let path = job.shown().map_or("", |seen| seen.path);
    let state = match job.state() {
        State::New => ", new",
        State::Removed => ", removed",
        State::Changed | State::Unchanged => "",
    };
    page.title(job.name(), &format!(" ({path}){state}"));
    for (at, (figure, line)) in figures(job).into_iter().enumerate() {
        let before = if at == 0 { "bill" } else { "" };
        page.item(before, &format!("{:<LABEL$}", format::label(figure)), "", &line);
    }
    let lines = format::edit_effects(bill.sources, job);
    for (at, line) in lines.iter().enumerate() {
        for (row, (place, edit)) in line.edits.iter().enumerate() {
            let label = if at == 0 && row == 0 { "edits" } else { "" };
            page.field(label, &format!("{place}  {edit}"));
        }
        page.field("", &format!("    {}", line.does));
    }
    if let Some(rest) = format::interaction(job) {
        page.field("", &format!("together  {rest}"));
    }
    if let Some(inert) = format::edits_without_effect(job) {
        page.field(if lines.is_empty() { "edits" } else { "" }, &inert);
    }
    for note in format::notes(bill.sources, job) {
        page.field("note", &note);
    }
}

/// Appended to the cost of spot instances without a known price: their hours, lost work included, at
/// on-demand prices.
const AT_ON_DEMAND: &str = " at on-demand prices";

fn price_basis(figure: Figure) -> &'static str {
    if figure == Figure::OnDemand { AT_ON_DEMAND } else { "" }
}

/// Returns the figures to show, each with both sides and the difference.
pub(super) fn figures(job: &Job) -> Vec<(Figure, String)> {
    let mut out = Vec::new();
    for figure in Figure::ALL.into_iter().filter(|figure| job.shows(*figure)) {
        let (before, after) = job.figure(figure);
        let line = match (&job.before, &job.after) {
            (Some(old), Some(new)) => {
                let moved = old.figures.is_changed(&new.figures, figure);
                if !moved && (!format::ALWAYS.contains(&figure) || after.is_none()) {
                    continue;
                }
                if figure == Figure::OnDemand && job.is_half_spot() {
                    let side = |seen: &JobSide| {
                        let known = [Figure::Cost, Figure::Least, Figure::OnDemand];
                        let known = known.into_iter().find(|one| seen.figures.get(*one).is_some());
                        known.map_or_else(String::new, |one| format::value(one, seen.figures.get(one)))
                    };
                    format!("{} → {}{AT_ON_DEMAND}", side(old), side(new))
                } else if !moved {
                    format!("{}{}, unchanged", format::value(figure, after), price_basis(figure))
                } else if let (Some(before), Some(after)) = (before, after) {
                    format!(
                        "{} → {}, {}{}",
                        format::value(figure, Some(before)),
                        format::value(figure, Some(after)),
                        format::difference(figure, before, after),
                        price_basis(figure)
                    )
                } else {
                    format!("{} → {}", format::value(figure, before), format::value(figure, after))
                }
            }
            (one, other) => {
                let Some(seen) = one.as_ref().or(other.as_ref()) else { continue };
                if seen.figures.get(figure).is_none() {
                    continue;
                }
                format::value(figure, seen.figures.get(figure)) + price_basis(figure)
            }
        };
        let between = job.after.as_ref().and_then(|seen| format::format_interval(figure, seen));
        let has_interval = matches!(figure, Figure::Cost | Figure::Least | Figure::OnDemand | Figure::Time);
        out.push((
            figure,
            match between.filter(|_| has_interval) {
                Some(between) => format!("{line}; likely {between}"),
                None => line,
            },
        ));
    }
    out
}
