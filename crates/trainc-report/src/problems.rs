//! The problems of the manifest in the plan of the terminal: the most severe in short and the number of the
//! others; with [`Depth::Origins`] all of them.

use super::Subject;
use super::human::{Depth, Problems};
use super::terminal_page::{BLUE, RED, TerminalPage, YELLOW};
use trainc_diag::text;
use trainc_diag::{Diagnostic, FoundIn, Severity};
use unicode_width::UnicodeWidthStr as _;

/// The most errors and warnings that the short plan shows; others, and notes, are counted.
const MOST_PROBLEMS: usize = 6;

/// Separators after which a message only gives reasons or consequences.
const POINTS: [&str; 3] = [": ", ", so ", ", which "];

/// Prints the problems, or as many as the depth allows and the number of the others.
pub(super) fn print_problems(page: &mut TerminalPage, subject: &Subject, depth: Depth, problems: Problems) {
    let mut all: Vec<&Diagnostic> = subject.problems.iter().collect();
    if all.is_empty() {
        page.field("problems", "none");
        return;
    }
    all.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
    if problems == Problems::Here && depth == Depth::Screen {
        print_short(page, &all);
        return;
    }
    let place = if problems == Problems::Above { ", above" } else { "" };
    page.field("problems", &format!("{}{place}", counts(&all).unwrap_or_default()));
    if problems == Problems::Above {
        return;
    }
    for problem in &all {
        full_problem(page, problem);
    }
}

/// Returns the number of problems by severity: `1 error, 2 notes`; `None` without problems.
pub(super) fn counts(all: &[&Diagnostic]) -> Option<String> {
    let counts: Vec<String> =
        [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")]
            .into_iter()
            .filter(|(severity, _)| count(all, *severity) > 0)
            .map(|(severity, word)| text::count(count(all, severity), word))
            .collect();
    (!counts.is_empty()).then(|| counts.join(", "))
}

fn count(all: &[&Diagnostic], severity: Severity) -> u64 {
    all.iter().filter(|problem| problem.severity == severity).count() as u64
}

/// Prints allowed errors, errors and warnings, in a line each where they fit, and the number of the other
/// notes.
fn print_short(page: &mut TerminalPage, all: &[&Diagnostic]) {
    let shown = || all.iter().filter(|problem| problem.severity > Severity::Note).take(MOST_PROBLEMS);
    let is_allowed = |problem: &&&Diagnostic| problem.is_allowed();
    for (at, problem) in all.iter().filter(is_allowed).enumerate() {
        let message = one_line(&problem.text());
        let room = page.columns().saturating_sub(problem.code.id.len() + 1);
        page.hanging_item(
            if at == 0 { "allowed" } else { "" },
            problem.code.id,
            BLUE,
            cut_at_separator(&message, room),
        );
    }
    let mut before = None;
    for problem in shown() {
        let label = if before == Some(problem.severity) { "" } else { label(problem.severity, all) };
        before = Some(problem.severity);
        let message = one_line(&problem.text());
        let room = page.columns().saturating_sub(problem.code.id.len() + 1);
        page.hanging_item(label, problem.code.id, style(problem.severity), cut_at_separator(&message, room));
        costs(page, problem);
    }
    let notes = count(all, Severity::Note) - all.iter().filter(is_allowed).count() as u64;
    let graver = all.iter().filter(|problem| problem.severity > Severity::Note).count() - shown().count();
    let more = if graver > 0 { format!("and {graver} more; ") } else { String::new() };
    // `check` does not show problems found in an account.
    let seen = all.iter().filter(|problem| is_of_account(problem)).count();
    let words = match (seen == all.len(), seen == 0) {
        (true, false) => "`-v` shows each with help",
        (false, false) => "`trainc check` shows those of the manifest, `-v` all with help",
        (_, true) => "`trainc check` shows each with its source line and help",
    };
    let (label, number) =
        if notes > 0 { (label(Severity::Note, all), format!("{notes}; ")) } else { ("", String::new()) };
    page.field(label, &format!("{number}{more}{words}"));
}

/// The label over the problems of a severity.
fn label(severity: Severity, all: &[&Diagnostic]) -> &'static str {
    match (severity, count(all, severity)) {
        (Severity::Error, 1) => "error",
        (Severity::Error, _) => "errors",
        (Severity::Warning, 1) => "warning",
        (Severity::Warning, _) => "warnings",
        (Severity::Note, 1) => "note",
        (Severity::Note, _) => "notes",
    }
}

/// Shortens a message at the last separator that fits into `room` columns; returns it whole if none does.
fn cut_at_separator(message: &str, room: usize) -> &str {
    let ends = POINTS.iter().flat_map(|sign| message.match_indices(sign)).map(|(at, _)| at);
    ends.chain([message.len()])
        .filter_map(|end| message.get(..end))
        // Text in backticks is not cut.
        .filter(|part| part.matches('`').count().is_multiple_of(2) && part.width() <= room)
        .max_by_key(|part| part.len())
        .unwrap_or(message)
}

/// Returns whether a problem was found in an account.
fn is_of_account(problem: &Diagnostic) -> bool {
    problem.code.found_in == FoundIn::Account
}

fn style(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => RED,
        Severity::Warning => YELLOW,
        Severity::Note => BLUE,
    }
}

/// Prints the notes of a problem that state a cost.
fn costs(page: &mut TerminalPage, problem: &Diagnostic) {
    for note in problem.notes.iter().filter(|note| note.states_cost()) {
        page.hanging_item("", "  costs:", "", &one_line(note));
    }
}

/// Prints a problem with its cost, notes and help.
fn full_problem(page: &mut TerminalPage, problem: &Diagnostic) {
    let word = format!("{}[{}]", problem.severity.word(), problem.code.id);
    page.hanging_item("", &word, style(problem.severity), &one_line(&problem.text()));
    costs(page, problem);
    for note in problem.notes.iter().filter(|note| is_of_account(problem) && !note.states_cost()) {
        page.hanging_item("", "  note:", "", &one_line(note));
    }
    if let Some(help) = &problem.help {
        page.hanging_item("", "  help:", "", &one_line(help));
    }
}

/// Joins the lines of a text with spaces.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
