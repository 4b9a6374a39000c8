//! What is printed of the comparison of a manifest with an account.

use crate::args::Global;
use crate::terminal::io::Io;
use crate::terminal::progress::difference;
use trainc_apply::diff::{Action, Change, Obstacle};
use trainc_apply::prospect::Prospect;
use trainc_diag::{self as diag, Diagnostic, Problems, Severity, escape_line, text};
use trainc_emit::{ResourceKind, Verb};
use trainc_ops::comparison::Comparison;
use trainc_project::manifests::{Manifest, Set};
use trainc_report::human::verb_style;
use trainc_report::json::{Document, Resource};

/// Adds the state of each resource in the account to the plan's document.
pub(crate) fn add_to_document(comparison: &Comparison, document: &mut Document) {
    document.blocked = comparison.refusal();
    let Some(prospect) = &comparison.prospect else { return };
    document.compared_with = Some(prospect.desired.account.clone());
    document.account = Some(prospect.desired.account.clone());
    document.changes = Some(!prospect.is_empty());
    document.quotas.clone_from(&comparison.quotas);
    for resource in &mut document.resources {
        resource.name = trainc_ir::address::substitute_account(&resource.name, &prospect.desired.account);
        let change = prospect.changes.iter().find(|change| {
            change.kind == resource.kind
                && (change.name == resource.name || change.kind == ResourceKind::TrainingJob)
        });
        if let Some(change) = change {
            *resource = Resource {
                kind: resource.kind,
                name: change.name.clone(),
                action: change.action.verb(),
                because: describe_change(change),
                shared_with: change.shared_with.clone(),
            };
        }
    }
}

/// Describes a change on one line, with the first differences; all of them are listed for an adopted
/// resource.
fn describe_change(change: &Change) -> String {
    let adopts = change.action == Action::Adopt;
    let details: Vec<String> = change
        .differences
        .iter()
        .filter(|_| adopts || matches!(change.action, Action::Update | Action::Stop(Obstacle::Replace)))
        .take(if adopts { change.differences.len() } else { 4 })
        .map(difference)
        .filter(|text| adopts || text.len() < 80)
        .collect();
    if details.is_empty() {
        change.because.clone()
    } else if let more @ 1.. = change.differences.len().saturating_sub(details.len()) {
        format!("{}; {}, and {more} more", change.because, details.join(", "))
    } else {
        format!("{}; {}", change.because, details.join(", "))
    }
}

/// Formats the changes, one line per resource; for an adopted resource also one line per difference.
pub(crate) fn format_changes(prospect: &Prospect, color: bool) -> String {
    let width = prospect.changes.iter().map(|change| change.action.verb().word().len()).max().unwrap_or(0);
    let mut out = String::new();
    for change in &prospect.changes {
        let adopts = change.action == Action::Adopt;
        let because = if adopts { change.because.clone() } else { describe_change(change) };
        let what = format!("{} {}: {because}", change.kind, text::shorten_name(&change.name));
        out.push_str(&format_action(change.action.verb(), width, &what, color));
        for one in change.differences.iter().filter(|_| adopts) {
            out.push_str(&format!("  {:width$}    {}\n", "", escape_line(&difference(one))));
        }
    }
    out
}

/// Formats a line with what happens to a resource: the action in its colour, then the text.
pub(crate) fn format_action(verb: Verb, width: usize, what: &str, color: bool) -> String {
    let options = diag::human::Options { color, ..diag::human::Options::default() };
    let action = options.paint(verb_style(verb), &format!("{verb:width$}"));
    format!("  {action}  {}\n", escape_line(what))
}

/// Prints problems to standard error.
pub(crate) fn show(io: &mut Io, set: &Set, manifest: &Manifest, problems: &Problems, global: &Global) {
    let mut shown = problems.clone();
    if global.quiet {
        shown.retain(|one| one.severity == Severity::Error);
    }
    let text = render(io, set, manifest, &shown);
    io.note_colored(&text);
}

/// Formats the problems of one manifest for the terminal.
pub(crate) fn render(io: &Io, set: &Set, manifest: &Manifest, problems: &Problems) -> String {
    if problems.is_empty() {
        return String::new();
    }
    let options = diag::human::Options { color: io.color, unicode: io.unicode, width: io.width, notes: true };
    let _ = manifest;
    let mut out = String::new();
    for one in problems.iter() {
        out.push_str(&diag::human::problem(&set.sources, one, None, options));
        out.push('\n');
    }
    out
}

/// Returns one diagnostic as a list of problems.
pub(crate) fn single_problem(verdict: Diagnostic) -> Problems {
    let mut problems = Problems::default();
    problems.push(verdict);
    problems
}
