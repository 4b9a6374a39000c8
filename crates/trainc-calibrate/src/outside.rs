//! Constants that lie outside of what is physical, each with the reason: one table, `priors.toml`, has both.

use super::fit::priors;
use super::runs::{Run, Table};
use serde::Serialize;
use std::fmt::Write as _;
use trainc_predict::Constants;

/// A constant beyond what its source says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outside {
    /// Its name in the file of constants: `gpu.H100.flash`.
    pub constant: String,
    /// Its value.
    pub value: f64,
    /// The least that its source has.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// Where they come from.
    pub source: String,
    /// Why it lies beyond; none where nobody looked.
    pub why: Option<String>,
}

/// What of these constants lies beyond its prior, in the order of the names.
pub fn outside(constants: &Constants) -> Vec<Outside> {
    // A constant is found by its name only to be changed.
    let mut constants = constants.clone();
    let mut out = Vec::new();
    for (name, prior) in priors() {
        let Some(value) = constants.slot(name).map(|value| *value) else { continue };
        let [low, high] = prior.usual.unwrap_or([prior.low, prior.high]);
        // Files hold four digits of a constant that was held at its bound.
        if (low * (1.0 - 1e-3)..=high * (1.0 + 1e-3)).contains(&value) {
            continue;
        }
        let value = digits(value);
        let (source, why) =
            (prior.source.clone(), prior.outside.as_deref().map(|why| filled(why, &mut constants)));
        out.push(Outside { constant: name.clone(), value, low, high, source, why });
    }
    out
}

/// Constants outside of what is physical that the table has to do with: of a card that none of its rows ran on, it says
/// nothing.
pub(super) fn outside_of(table: &Table, constants: &Constants) -> Vec<Outside> {
    let ran = |one: &Outside| {
        let card = one.constant.strip_prefix("gpu.").and_then(|rest| rest.split_once('.'));
        let on = |card: &str, run: &Run| {
            let kind = run.layout.as_ref().ok().and_then(|layout| layout.hardware.gpu);
            kind.is_some_and(|kind| kind.chip().word() == card)
        };
        card.is_none_or(|(card, _)| table.runs.iter().any(|run| on(card, run)))
    };
    outside(constants).into_iter().filter(ran).collect()
}

/// The digits that a file has.
fn digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// A reason with the values of the constants that it names in braces.
fn filled(why: &str, constants: &mut Constants) -> String {
    let mut parts = why.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        let value = constants.slot(name).map(|value| digits(*value).to_string());
        out.push_str(&value.unwrap_or_else(|| name.to_owned()));
        out.push_str(rest);
    }
    out
}

impl Outside {
    /// `gpu.H100.flash is 0.2087, not 0.3 to 0.7: …`.
    pub fn words(&self) -> String {
        let why = self.why.as_deref().unwrap_or("not known: nobody looked");
        format!("{} is {}, not {} to {}: {why}", self.constant, self.value, self.low, self.high)
    }
}

/// A constant that a fit moved as far as it may be moved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtBound {
    /// Its name in the file of constants.
    pub constant: String,
    /// Its value.
    pub value: f64,
    /// The least that is physical.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// Where these come from.
    pub source: String,
}

/// Of constants that were fitted from `start`, those that now lie at an end of what is physical and did not before.
pub fn at_bounds(constants: &Constants, start: &Constants) -> Vec<AtBound> {
    let (mut constants, mut start) = (constants.clone(), start.clone());
    let of_speed =
        priors().iter().map(|(key, prior)| (key.as_str(), prior.low, prior.high, prior.source.as_str()));
    let mut out = Vec::new();
    for (key, low, high, source) in of_speed.chain(super::memory::bounds()) {
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-3 * b.abs();
        let (Some(value), Some(before)) = (constants.slot(key).copied(), start.slot(key).copied()) else {
            continue;
        };
        if (near(value, low) || near(value, high)) && !near(before, value) {
            out.push(AtBound {
                constant: key.to_owned(),
                value: digits(value),
                low,
                high,
                source: source.to_owned(),
            });
        }
    }
    out
}

/// What follows from such constants.
pub const AT_BOUNDS: &str = "what the runs ask for beyond it is in no constant and stays as an error: look whether the rows say all of the layout that was run, and whether something beside the step is in their times";

impl AtBound {
    /// `gpu.A100.gemm is held at 0.6, the least of 0.6 to 0.9 (…): the runs ask for less`.
    pub fn words(&self) -> String {
        let is_least = (self.value - self.low).abs() < (self.value - self.high).abs();
        let (end, asks) = if is_least { ("least", "less") } else { ("most", "more") };
        format!(
            "{} is held at {}, the {end} of {} to {} ({}): the runs ask for {asks}",
            self.constant, self.value, self.low, self.high, self.source
        )
    }
}

/// The lines that a file of constants ends with: nothing where all lie within.
pub fn comment(constants: &Constants) -> String {
    let found = outside(constants);
    let mut out = String::new();
    if !found.is_empty() {
        out.push_str("\n# Outside of what is physical by `src/calibrate/priors.toml`, and why:\n");
    }
    for one in found {
        let _ = writeln!(out, "# {}", one.words());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_past_what_its_source_says_is_named_with_the_reason() {
        let found = outside(Constants::shipped());
        let names: Vec<&str> = found.iter().map(|one| one.constant.as_str()).collect();
        assert_eq!(names, ["gpu.B200.flash", "gpu.H100.flash"]);
        assert!(found.iter().all(|one| one.why.is_some()), "{found:?}");
        let mut own = Constants::shipped().clone();
        // The reason has the value of the constants that are judged.
        let why = |found: &[Outside]| found[1].why.clone().unwrap();
        let flash2 = digits(*own.slot("kernels.flash2").unwrap());
        assert!(why(&found).contains(&format!("and {flash2} of it stands apart")), "{found:?}");
        *own.slot("kernels.flash2").unwrap() = 1.5;
        assert!(why(&outside(&own)).contains("and 1.5 of it stands apart"));
        *own.slot("links.fabric").unwrap() = 0.99;
        let found = outside(&own);
        let fabric = found.iter().find(|one| one.constant == "links.fabric").unwrap();
        assert_eq!((fabric.low, fabric.high, &fabric.why), (0.5, 0.95, &None));
        *own.slot("links.fabric").unwrap() = 0.95;
        assert_eq!(outside(&own).len(), 2, "at its bound is within");
    }

    #[test]
    fn a_constant_that_a_fit_pushed_to_an_end_is_named() {
        let shipped = Constants::shipped();
        assert_eq!(at_bounds(shipped, shipped), []);
        let mut own = shipped.clone();
        *own.slot("gpu.A100.gemm").unwrap() = 0.6;
        *own.slot("memory.slack").unwrap() = 0.25;
        *own.slot("links.fabric").unwrap() = 0.7;
        let found = at_bounds(&own, shipped);
        let names: Vec<&str> = found.iter().map(|one| one.constant.as_str()).collect();
        assert_eq!(names, ["gpu.A100.gemm", "memory.slack"]);
        assert!(found[0].words().contains("held at 0.6, the least of 0.6 to 0.9 ("), "{}", found[0].words());
        assert!(found[1].words().contains("the most of 0.02 to 0.25 ("), "{}", found[1].words());
        assert_eq!(at_bounds(&own, &own), [], "where it was before is no news");
    }

    /// Where a constant comes from is told one way or the other: bounds and a fit, or the source that it was taken from.
    #[test]
    fn every_constant_has_a_source() {
        let judged = trainc_predict::rests::judged();
        let of_memory: Vec<&str> = crate::memory::bounds().map(|(key, ..)| key).collect();
        // The ends of these intervals are the residuals' own.
        let measured = ["interval.unseen", "memory.below", "memory.above"];
        for (key, _) in trainc_predict::constants::Name::ALL {
            let fitted = priors().contains_key(*key) || of_memory.contains(key) || measured.contains(key);
            assert!(fitted != judged.contains_key(*key), "{key}: fitted {fitted}");
        }
        assert!(judged.keys().all(|key| Constants::shipped().clone().slot(key).is_some()), "{judged:?}");
    }

    /// A table is told of its own cards alone.
    #[test]
    fn a_card_that_no_row_ran_on_is_not_told() {
        let table = crate::read(include_str!("../data/runs.csv")).unwrap();
        let names = |table: &Table| -> Vec<String> {
            outside_of(table, Constants::shipped()).into_iter().map(|one| one.constant).collect()
        };
        assert_eq!(names(&table), ["gpu.H100.flash"], "the shipped constants say more, of a B200");
        assert!(outside(Constants::shipped()).len() > 1);
        assert_eq!(names(&Table::default()), [] as [&str; 0]);
    }

    #[test]
    fn the_shipped_file_says_so_itself() {
        let shipped = include_str!("../../trainc-predict/src/constants.toml");
        assert!(shipped.ends_with(&comment(Constants::shipped())), "{}", comment(Constants::shipped()));
    }
}
