//! The problems of the manifest in the terminal's plan: counted, and the gravest in short.

use super::Subject;
use super::human::{Depth, Problems};
use super::page::{BLUE, Page, RED, YELLOW};
use crate::diag::{Diagnostic, Severity};
use crate::text;

/// Errors and warnings that the short plan shows; the rest, and notes, are counted.
const MOST_PROBLEMS: usize = 6;

/// How many there are, and those that are worth a line.
pub(super) fn warnings(page: &mut Page, subject: &Subject, depth: Depth, problems: Problems) {
    let mut all: Vec<&Diagnostic> = subject.problems.iter().collect();
    page.blank();
    if all.is_empty() {
        page.field("problems", "none");
        return;
    }
    let count = |severity| all.iter().filter(|problem| problem.severity == severity).count() as u64;
    let counts: Vec<String> =
        [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")]
            .into_iter()
            .filter(|(severity, _)| count(*severity) > 0)
            .map(|(severity, word)| text::count(count(severity), word))
            .collect();
    let place = if problems == Problems::Above { ", above" } else { "" };
    page.field("problems", &format!("{}{place}", counts.join(", ")));
    if problems == Problems::Above {
        return;
    }
    all.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
    let shown: Vec<&Diagnostic> = match depth {
        Depth::Screen => all
            .iter()
            .copied()
            .filter(|problem| problem.severity > Severity::Note)
            .take(MOST_PROBLEMS)
            .collect(),
        Depth::Origins => all.clone(),
    };
    for problem in &shown {
        one(page, problem, depth);
    }
    if depth == Depth::Screen {
        let hidden = all.len() - shown.len();
        let more =
            if hidden > 0 && !shown.is_empty() { format!(", and {hidden} more") } else { String::new() };
        // What the account says `check` knows nothing of.
        let seen = all.iter().filter(|problem| is_of_account(problem)).count();
        let words = match (seen == all.len(), seen == 0) {
            (true, false) => "`-v` shows each with its help",
            (false, false) => "`trainc check` shows the manifest's at their place, `-v` here all with help",
            (_, true) => "`trainc check` shows each at its place, with help",
        };
        page.field("", &format!("{words}{more}"));
    }
}

/// Whether a problem was found in an account: its code is one of apply's.
fn is_of_account(problem: &Diagnostic) -> bool {
    problem.code.id.starts_with("T06")
}

/// A problem in short: what, what it costs, and in the long plan what to do.
fn one(page: &mut Page, problem: &Diagnostic, depth: Depth) {
    let style = match problem.severity {
        Severity::Error => RED,
        Severity::Warning => YELLOW,
        Severity::Note => BLUE,
    };
    let word = format!("{}[{}]", problem.severity.word(), problem.code.id);
    page.hanging(&word, style, &one_line(&problem.message));
    for note in problem.notes.iter().filter(|note| note.contains('$')) {
        page.hanging("  costs:", "", &one_line(note));
    }
    let whole = depth == Depth::Origins && is_of_account(problem);
    for note in problem.notes.iter().filter(|note| whole && !note.contains('$')) {
        page.hanging("  note:", "", &one_line(note));
    }
    if let Some(help) = problem.help.as_ref().filter(|_| depth == Depth::Origins) {
        page.hanging("  help:", "", &one_line(help));
    }
}

/// Line ends become spaces.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
