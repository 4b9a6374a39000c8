//! Constants outside the range of their source, and constants that a fit moved to a bound. Ranges, bounds and
//! reasons are in `priors.toml`.

use super::memory_fit;
use super::priors::priors;
use super::run::{Run, Table};
use serde::Serialize;
use std::fmt::{self, Write as _};
use trainc_predict::Constants;

/// A constant outside the range of its source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutOfRange {
    /// Name in the file of constants: `gpu.H100.flash`.
    pub constant: String,
    /// Value.
    pub value: f64,
    /// Lower end of the range.
    pub low: f64,
    /// Upper end of the range.
    pub high: f64,
    /// Source of the range.
    pub source: String,
    /// Reason, if the cause was investigated.
    pub why: Option<String>,
}

/// Returns the constants outside the range of their source, in the order of their names.
pub fn out_of_range(constants: &Constants) -> Vec<OutOfRange> {
    // Access by name requires a mutable reference.
    let mut constants = constants.clone();
    let mut out = Vec::new();
    for (name, prior) in priors() {
        let Some(value) = constants.value_mut(name).map(|value| *value) else { continue };
        let [low, high] = prior.usual.unwrap_or([prior.low, prior.high]);
        // Files have four digits of a constant at its bound.
        if (low * (1.0 - 1e-3)..=high * (1.0 + 1e-3)).contains(&value) {
            continue;
        }
        let value = round_to_four_digits(value);
        let (source, why) = (
            prior.source.clone(),
            prior.outside.as_deref().map(|why| fill_constant_values(why, &mut constants)),
        );
        out.push(OutOfRange { constant: name.clone(), value, low, high, source, why });
    }
    out
}

/// Returns the constants outside the range of their source, except those of GPU types without a run in the
/// table.
pub(super) fn out_of_range_for_table(table: &Table, constants: &Constants) -> Vec<OutOfRange> {
    let has_runs = |one: &OutOfRange| {
        let card = one.constant.strip_prefix("gpu.").and_then(|rest| rest.split_once('.'));
        let on = |card: &str, run: &Run| {
            let kind = run.layout.as_ref().ok().and_then(|layout| layout.hardware.gpu);
            kind.is_some_and(|kind| kind.kind_of_constants().as_str() == card)
        };
        card.is_none_or(|(card, _)| table.runs.iter().any(|run| on(card, run)))
    };
    out_of_range(constants).into_iter().filter(has_runs).collect()
}

/// Rounds to the digits of a file of constants.
fn round_to_four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Replaces the names of constants in braces with their values.
fn fill_constant_values(why: &str, constants: &mut Constants) -> String {
    let mut parts = why.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        let value = constants.value_mut(name).map(|value| round_to_four_digits(*value).to_string());
        out.push_str(&value.unwrap_or_else(|| name.to_owned()));
        out.push_str(rest);
    }
    out
}

/// Formats it as `gpu.H100.flash is 0.2087, outside 0.3 to 0.7: …`.
impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let why = self.why.as_deref().unwrap_or("cause not investigated");
        write!(f, "{} is {}, outside {} to {}: {why}", self.constant, self.value, self.low, self.high)
    }
}

/// A constant that a fit moved to a bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtBound {
    /// Name in the file of constants.
    pub constant: String,
    /// Value.
    pub value: f64,
    /// Lower physical bound.
    pub low: f64,
    /// Upper physical bound.
    pub high: f64,
    /// Source of the bounds.
    pub source: String,
}

/// Returns the constants, fitted from `start`, that are at a physical bound and were not before.
pub fn at_bounds(constants: &Constants, start: &Constants) -> Vec<AtBound> {
    let (mut constants, mut start) = (constants.clone(), start.clone());
    let of_speed =
        priors().iter().map(|(key, prior)| (key.as_str(), prior.low, prior.high, prior.source.as_str()));
    let mut out = Vec::new();
    for (key, low, high, source) in of_speed.chain(memory_fit::bounds()) {
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-3 * b.abs();
        let (Some(value), Some(before)) = (constants.value_mut(key).copied(), start.value_mut(key).copied())
        else {
            continue;
        };
        if (near(value, low) || near(value, high)) && !near(before, value) {
            out.push(AtBound {
                constant: key.to_owned(),
                value: round_to_four_digits(value),
                low,
                high,
                source: source.to_owned(),
            });
        }
    }
    out
}

/// Advice on constants at a bound.
pub const AT_BOUNDS_HELP: &str = "the rest of the difference remains as an error: check that the rows give \
    the whole layout, and that their times are step times alone";

/// Formats it as `gpu.A100.gemm is at the lower bound of 0.6 to 0.9 (…): the runs suggest a smaller value`.
impl fmt::Display for AtBound {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let is_low = (self.value - self.low).abs() < (self.value - self.high).abs();
        let (end, suggested) = if is_low { ("lower", "smaller") } else { ("upper", "larger") };
        write!(
            f,
            "{} is at the {end} bound of {} to {} ({}): the runs suggest a {suggested} value",
            self.constant, self.low, self.high, self.source
        )
    }
}

/// Returns the comment at the end of a file of constants; empty if all are inside their ranges.
pub fn out_of_range_comment(constants: &Constants) -> String {
    let found = out_of_range(constants);
    let mut out = String::new();
    if !found.is_empty() {
        out.push_str(
            "\n# Outside the range of their source (`crates/trainc-calibrate/src/priors.toml`), with \
            the reason:\n",
        );
    }
    for one in found {
        let _ = writeln!(out, "# {one}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_outside_its_range_is_named_with_the_reason() {
        let found = out_of_range(Constants::shipped());
        let names: Vec<&str> = found.iter().map(|one| one.constant.as_str()).collect();
        assert_eq!(names, ["gpu.H100.flash"]);
        assert!(found.iter().all(|one| one.why.is_some()), "{found:?}");
        let mut own = Constants::shipped().clone();
        // The reason has the values of the given constants.
        let why = |found: &[OutOfRange]| found[0].why.clone().unwrap();
        let flash2 = round_to_four_digits(*own.value_mut("gpu.H100.flash2").unwrap());
        assert!(why(&found).contains(&format!("and {flash2} of it is a separate constant")), "{found:?}");
        *own.value_mut("gpu.H100.flash2").unwrap() = 1.5;
        assert!(why(&out_of_range(&own)).contains("and 1.5 of it is a separate constant"));
        *own.value_mut("links.fabric").unwrap() = 0.99;
        let found = out_of_range(&own);
        let fabric = found.iter().find(|one| one.constant == "links.fabric").unwrap();
        assert_eq!((fabric.low, fabric.high, &fabric.why), (0.5, 0.95, &None));
        *own.value_mut("links.fabric").unwrap() = 0.95;
        assert_eq!(out_of_range(&own).len(), 1, "at its bound is within");
    }

    #[test]
    fn a_constant_that_a_fit_moved_to_a_bound_is_named() {
        let shipped = Constants::shipped();
        assert_eq!(at_bounds(shipped, shipped), []);
        let mut own = shipped.clone();
        *own.value_mut("gpu.A100.gemm").unwrap() = 0.6;
        *own.value_mut("memory.slack").unwrap() = 0.25;
        *own.value_mut("links.fabric").unwrap() = 0.7;
        let found = at_bounds(&own, shipped);
        let names: Vec<&str> = found.iter().map(|one| one.constant.as_str()).collect();
        assert_eq!(names, ["gpu.A100.gemm", "memory.slack"]);
        assert!(found[0].to_string().contains("at the lower bound of 0.6 to 0.9 ("), "{}", found[0]);
        assert!(found[1].to_string().contains("upper bound of 0.02 to 0.25 ("), "{}", found[1]);
        assert_eq!(at_bounds(&own, &own), [], "already there before the fit");
    }

    /// Every constant is either fitted within bounds or taken from a source.
    #[test]
    fn every_constant_has_a_source() {
        let fixed = trainc_predict::sensitivity::fixed_constants();
        let of_memory: Vec<&str> = memory_fit::bounds().map(|(key, ..)| key).collect();
        // These are quantiles of the residuals.
        let measured = ["memory.below", "memory.above"];
        for (key, _) in trainc_predict::constants::Name::ALL {
            let is_width = key.starts_with("interval.") && !fixed.contains_key(*key);
            let fitted =
                priors().contains_key(*key) || of_memory.contains(key) || measured.contains(key) || is_width;
            assert!(fitted != fixed.contains_key(*key), "{key}: fitted {fitted}");
        }
        assert!(fixed.keys().all(|key| Constants::shipped().clone().value_mut(key).is_some()), "{fixed:?}");
    }

    /// A table lists the constants of its own cards only.
    #[test]
    fn a_card_without_a_run_is_not_listed() {
        let table = crate::read(include_str!("../data/runs.csv")).unwrap();
        let names = |table: &Table| -> Vec<String> {
            out_of_range_for_table(table, Constants::shipped()).into_iter().map(|one| one.constant).collect()
        };
        assert_eq!(names(&table), ["gpu.H100.flash"]);
        let a100 = Table {
            runs: table.runs.iter().filter(|run| run.id.contains("a10040")).cloned().collect(),
            ..Table::default()
        };
        assert_eq!(names(&a100), [] as [&str; 0]);
        assert_eq!(names(&Table::default()), [] as [&str; 0]);
    }

    #[test]
    fn the_shipped_file_ends_with_the_comment() {
        let shipped = include_str!("../../trainc-predict/src/constants.toml");
        assert!(
            shipped.ends_with(&out_of_range_comment(Constants::shipped())),
            "{}",
            out_of_range_comment(Constants::shipped())
        );
    }
}
