//! The bill as a comment for a pull request: a table of all jobs, then the edits of each.

use super::{Bill, Job, State, format, human};
use trainc_diag::markdown::{COMMENT_LIMIT, LimitedText, escape_cell};
use trainc_diag::text;
use trainc_tune::compare::Figure;

/// The hidden first line by which a bot finds its comment.
pub const MARKER: &str = "<!-- trainc:bill -->";

/// Characters reserved for the lines on what was left out.
const RESERVE: usize = 160;

/// Returns the figures of the table's columns. Where no run is predicted, the cost is that until `max-run`.
fn columns(job: &Job) -> [Figure; 3] {
    let cost = match job.figure(job.cost()) {
        (None, None) => Figure::Most,
        _ => job.cost(),
    };
    [cost, Figure::Time, Figure::Headroom]
}

/// Renders the bill of a change in at most [`COMMENT_LIMIT`] characters (UTF-16 code units, the strictest
/// count).
///
/// Jobs that do not fit are left out whole and counted.
pub fn markdown(bill: &Bill) -> String {
    let mut out = LimitedText::new(COMMENT_LIMIT.saturating_sub(RESERVE));
    out.push(&format!(
        "{MARKER}\n### Bill of the change since {}\n\n",
        escape_cell(&format::base(&bill.base))
    ));
    out.push(&format!("{}\n\n", escape_cell(&human::total(bill, None))));
    let jobs: Vec<&Job> = bill.jobs.iter().filter(|job| job.state() != State::Unchanged).collect();
    if jobs.is_empty() {
        return out.finish();
    }
    out.push("| job | | cost | time | free memory per GPU |\n| --- | --- | --- | --- | --- |\n");
    let rows = out.push_fitting(jobs.iter().map(|job| row(job)));
    if rows < jobs.len() {
        out.push_reserved(&format!("\n… and {}\n", text::count((jobs.len() - rows) as u64, "more job")));
        return out.finish();
    }
    out.push("\n");
    let detailed = out.push_fitting(jobs.iter().map(|job| detail(bill, job)));
    if detailed < jobs.len() {
        out.push_reserved(&format!(
            "\n… and {} without their edits\n",
            text::count((jobs.len() - detailed) as u64, "more job")
        ));
    }
    out.finish()
}

fn row(job: &Job) -> String {
    let mut out = format!("| {} | {} |", escape_cell(job.name()), job.state().word());
    for figure in columns(job) {
        let text = match (job.figure(figure), &job.before, &job.after) {
            ((Some(before), Some(after)), ..)
                if format::signed(figure, after - before) == format::signed(figure, 0.0) =>
            {
                format::value(figure, Some(after))
            }
            ((Some(before), Some(after)), ..) => format!(
                "{} → {}<br>**{}**",
                format::value(figure, Some(before)),
                format::value(figure, Some(after)),
                format::difference(figure, before, after)
            ),
            ((None, None), ..) => "–".to_owned(),
            ((None, after), None, _) => format::value(figure, after),
            ((before, None), _, None) => format!("was {}", format::value(figure, before)),
            ((before, after), ..) => {
                format!("{} → {}", format::value(figure, before), format::value(figure, after))
            }
        };
        let text = if figure == Figure::Most { format!("{}: {text}", format::label(figure)) } else { text };
        // GitHub renders text between two dollar signs as a formula.
        out.push_str(&format!(" {} |", text.replace('$', "\\$")));
    }
    out + "\n"
}

fn detail(bill: &Bill, job: &Job) -> String {
    let mut out = format!("<details><summary>{}</summary>\n\n", escape_cell(job.name()));
    let lines = format::edit_effects(bill.sources, job);
    if !lines.is_empty() {
        out.push_str("| where | edit | effect |\n| --- | --- | --- |\n");
        for line in &lines {
            let (places, edits): (Vec<String>, Vec<String>) =
                line.edits.iter().map(|(place, edit)| (escape_cell(place), escape_cell(edit))).unzip();
            out.push_str(&format!(
                "| {} | {} | {} |\n",
                places.join("<br>"),
                edits.join("<br>"),
                escape_cell(&line.does)
            ));
        }
        out.push('\n');
    }
    let mut items: Vec<String> = Vec::new();
    items.extend(format::interaction(job).map(|rest| format!("together: {rest}")));
    items.extend(format::edits_without_effect(job));
    for (figure, line) in human::figures(job) {
        if !columns(job).contains(&figure) {
            items.push(format!("{}: {line}", format::label(figure)));
        }
    }
    for figure in [job.cost(), Figure::Time] {
        if let Some(between) = job.after.as_ref().and_then(|seen| format::format_interval(figure, seen)) {
            items.push(format!("{} is likely {between}", format::label(figure)));
        }
    }
    items.extend(format::notes(bill.sources, job));
    for item in items {
        out.push_str(&format!("- {}\n", escape_cell(&item)));
    }
    out + "\n</details>\n\n"
}
