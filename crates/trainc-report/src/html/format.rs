//! Figures as text.

use trainc_diag::text;
use trainc_predict::Interval;

/// Formats a predicted duration, without insignificant digits.
pub(super) fn format_duration(seconds: f64) -> String {
    text::rounded_duration(seconds)
}

/// Formats the interval of a cost, which is proportional to the run time.
pub(super) fn dollars_range(usd: f64, seconds: f64, interval: Interval) -> String {
    if seconds <= 0.0 {
        return String::new();
    }
    let at = |end: f64| text::dollars(usd * end / seconds);
    format!("{} to {}", at(interval.low), at(interval.high))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_follow_the_time() {
        let interval = Interval { low: 1_800.0, high: 7_200.0 };
        assert_eq!(dollars_range(500.0, 3_600.0, interval), "$250 to $1,000");
    }
}
