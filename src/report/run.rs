//! What a run takes, in lines of words: its time, its dollars, and what interruptions and checkpoints do to them.

use super::json::Document;
use super::sections::about;
use crate::text;
use std::fmt::Write as _;

/// Time and dollars of the run, each with its interval; what interruptions and checkpoints do to it.
pub(super) fn lines(document: &Document) -> Vec<String> {
    let run = &document.run;
    let mut out = Vec::new();
    if let Some(seconds) = run.seconds {
        let mut line = about(seconds);
        if let Some(interval) = &run.interval {
            let _ = write!(line, " ({} to {})", about(interval.low), about(interval.high));
        }
        if run.spot.is_some() {
            // The dollars are of the longer time, on the line below.
            line.push_str(" without interruptions");
        } else if let Some(usd) = run.cost_usd {
            let _ = write!(line, ", {}", text::dollars(usd));
            // What is paid is paid by the second.
            if let Some(interval) = run.interval.as_ref().filter(|_| seconds > 0.0) {
                let [low, high] = [interval.low, interval.high].map(|end| text::dollars(usd * end / seconds));
                let _ = write!(line, " ({low} to {high})");
            }
        }
        out.push(line);
        let unpriced = document.price.is_some() && run.cost_usd.is_none();
        let why = document.notes.iter().find_map(|note| note.strip_prefix("run.cost_usd: "));
        out.extend(why.filter(|_| unpriced).map(|why| format!("dollars are not known: {why}")));
    }
    if let Some(spot) = &run.spot {
        let usd =
            |usd: Option<f64>| usd.map_or_else(String::new, |usd| format!(" and {}", text::dollars(usd)));
        out.push(format!(
            "with interruptions as given: {}{}, nine in ten within {}{}",
            about(spot.expected_seconds),
            usd(spot.expected_usd),
            about(spot.p90_seconds),
            usd(spot.p90_usd)
        ));
    }
    if let Some(checkpoint) = &run.checkpoint {
        let best = checkpoint
            .best_interval_seconds
            .map_or_else(String::new, |best| format!("; the least loss with one every {}", about(best)));
        out.push(format!(
            "a checkpoint: {} in {}{best}",
            text::bytes(checkpoint.bytes),
            about(checkpoint.seconds.max(1.0))
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::json::Spot;
    use super::super::samples::{GPT2, sample};
    use super::*;

    /// The hours and the dollars of a line belong together, and a price that is missing is asked for.
    #[test]
    fn each_line_has_the_dollars_of_its_own_hours() {
        let mut document = sample(GPT2, &[]).document();
        document.run.seconds = Some(3_600.0);
        document.run.cost_usd = Some(50.0);
        let first = |document: &Document| lines(document).remove(0);
        assert!(first(&document).contains('$'), "{}", first(&document));
        let spot =
            Spot { expected_seconds: 7_200.0, p90_seconds: 9_000.0, interruptions: 2.0, ..Spot::default() };
        document.run.spot = Some(Spot { expected_usd: Some(99.0), ..spot });
        let found = lines(&document);
        assert!(!found[0].contains('$') && found[0].ends_with("without interruptions"), "{found:?}");
        assert!(found[1].contains("2h and $99"), "{found:?}");
        document.run.cost_usd = None;
        document.notes = vec!["run.cost_usd: `--discount` gives one".to_owned()];
        assert_eq!(lines(&document)[1], "dollars are not known: `--discount` gives one");
        // Where the instance has no price at all, the line of costs says so.
        document.price = None;
        assert!(!lines(&document).iter().any(|line| line.starts_with("dollars")));
    }
}
