//! Figures as text.

use trainc_diag::text;

/// Formats a predicted duration, without insignificant digits.
pub(super) fn format_duration(seconds: f64) -> String {
    text::rounded_duration(seconds)
}

/// Returns the reason for an unknown figure, as a sentence.
pub(super) fn unknown_sentence(what: &str, document: &crate::json::Document, member: &str) -> String {
    let note = document.notes.iter().find_map(|note| note.strip_prefix(member)?.strip_prefix(": "));
    match note {
        // References to members of plan.json are left out.
        Some(why) => format!("{what} not known: {}.", why.split("; `run.").next().unwrap_or(why)),
        None => format!("{what} not known."),
    }
}
