//! The bill for people at a terminal.

use super::total::Total;
use super::{Bill, Job, Seen, State, words};
use crate::page::{Options, Page};
use trainc_diag::text;
use trainc_tune::compare::Figure;

/// Columns of the figures' labels.
const LABEL: usize = 11;

/// The bill of a change.
pub fn human(bill: &Bill, options: Options) -> String {
    let mut page = Page::new(options);
    page.title("the bill of the change", &format!(" since {}", words::base(&bill.base)));
    for job in bill.jobs.iter().filter(|job| job.state() != State::Unchanged) {
        page.blank();
        one(&mut page, bill, job);
    }
    page.blank();
    page.field("total", &total(bill));
    page.finish()
}

/// The sum of all jobs.
pub(super) fn total(bill: &Bill) -> String {
    let Total { cost, on_demand, unknown } = bill.total();
    let counts: Vec<String> = [State::Changed, State::New, State::Removed, State::Unchanged]
        .into_iter()
        .filter(|state| bill.count(*state) > 0)
        .map(|state| format!("{} {}", text::group(bill.count(state)), state.word()))
        .collect();
    let mut out = format!("{}: {}", text::count(bill.jobs.len() as u64, "job"), counts.join(", "));
    if let Some(usd) = cost.usd {
        let moved = moved(usd);
        if !moved.is_empty() {
            out.push_str(&format!("; {moved}"));
        }
        out.push_str(&cost.shared.describe());
    } else if on_demand.usd.is_none() {
        let whose = if unknown == 1 { "its cost is not known" } else { "none of their costs is known" };
        return format!("{out}; {whose}, so the sum is not");
    }
    if let Some(usd) = on_demand.usd {
        let jobs = text::count(on_demand.jobs, "job");
        let (before, after) = usd;
        let half = bill.jobs.iter().any(super::Job::is_half_spot);
        let moved =
            if half { format!("{} → {}", text::dollars(before), text::dollars(after)) } else { moved(usd) };
        out.push_str(&format!("; {jobs} on spot, if the hours cost what they do on demand: {moved}"));
        out.push_str(&on_demand.shared.describe());
    }
    if unknown > 0 {
        out.push_str(&format!("; without {} whose cost is not known", text::count(unknown, "job")));
    }
    out
}

/// What became of a sum; nothing of one that is zero on both sides.
fn moved((before, after): (f64, f64)) -> String {
    if before == after {
        return if before > 0.0 { format!("{} as before", text::dollars(before)) } else { String::new() };
    }
    let difference = words::difference(Figure::Cost, before, after);
    format!("{} → {}, {difference}", text::dollars(before), text::dollars(after))
}

fn one(page: &mut Page, bill: &Bill, job: &Job) {
    let path = job.shown().map_or("", |seen| seen.path);
    let state = match job.state() {
        State::New => ", new",
        State::Removed => ", removed",
        State::Changed | State::Unchanged => "",
    };
    page.title(job.name(), &format!(" ({path}){state}"));
    for (at, (figure, line)) in figures(job).into_iter().enumerate() {
        let before = if at == 0 { "bill" } else { "" };
        page.item(before, &format!("{:<LABEL$}", words::label(figure)), "", &line);
    }
    let lines = words::lines(bill.sources, job);
    for (at, line) in lines.iter().enumerate() {
        for (row, (place, edit)) in line.edits.iter().enumerate() {
            let label = if at == 0 && row == 0 { "edits" } else { "" };
            page.field(label, &format!("{place}  {edit}"));
        }
        page.field("", &format!("    {}", line.does));
    }
    if let Some(rest) = words::together(job) {
        page.field("", &format!("together  {rest}"));
    }
    if let Some(inert) = words::inert(job) {
        page.field(if lines.is_empty() { "edits" } else { "" }, &inert);
    }
    for note in words::notes(bill.sources, job) {
        page.field("note", &note);
    }
}

/// What dollars of spot instances are of, whose price is not known: the hours that they run, lost work included.
const BY_THE_HOUR: &str = ", if its hours on spot cost what they do on demand";

fn by_the_hour(figure: Figure) -> &'static str {
    if figure == Figure::OnDemand { BY_THE_HOUR } else { "" }
}

/// Each figure that is shown, both sides and the difference.
pub(super) fn figures(job: &Job) -> Vec<(Figure, String)> {
    let mut out = Vec::new();
    for figure in Figure::ALL.into_iter().filter(|figure| job.shows(*figure)) {
        let (before, after) = job.figure(figure);
        let line = match (&job.before, &job.after) {
            (Some(old), Some(new)) => {
                let moved = old.figures.moved(&new.figures, figure);
                if !moved && (!words::ALWAYS.contains(&figure) || after.is_none()) {
                    continue;
                }
                if figure == Figure::OnDemand && job.is_half_spot() {
                    let side = |seen: &Seen| {
                        let known = [Figure::Cost, Figure::Least, Figure::OnDemand];
                        let known = known.into_iter().find(|one| seen.figures.get(*one).is_some());
                        known.map_or_else(String::new, |one| words::value(one, seen.figures.get(one)))
                    };
                    format!("{} → {}{BY_THE_HOUR}", side(old), side(new))
                } else if !moved {
                    format!("{}{}, as before", words::value(figure, after), by_the_hour(figure))
                } else if let (Some(before), Some(after)) = (before, after) {
                    format!(
                        "{} → {}, {}{}",
                        words::value(figure, Some(before)),
                        words::value(figure, Some(after)),
                        words::difference(figure, before, after),
                        by_the_hour(figure)
                    )
                } else {
                    format!("{} → {}", words::value(figure, before), words::value(figure, after))
                }
            }
            (one, other) => {
                let Some(seen) = one.as_ref().or(other.as_ref()) else { continue };
                if seen.figures.get(figure).is_none() {
                    continue;
                }
                words::value(figure, seen.figures.get(figure)) + by_the_hour(figure)
            }
        };
        let between = job.after.as_ref().and_then(|seen| words::between(figure, seen));
        let sure = matches!(figure, Figure::Cost | Figure::Least | Figure::OnDemand | Figure::Time);
        out.push((
            figure,
            match between.filter(|_| sure) {
                Some(between) => format!("{line}; likely {between}"),
                None => line,
            },
        ));
    }
    out
}
