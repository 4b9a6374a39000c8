//! Constants that lie outside of what is physical, each with the reason: one table, `priors.toml`, has both.

use super::fit::priors;
use crate::predict::Constants;
use serde::Serialize;
use std::fmt::Write as _;

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
        // The digits that a file has.
        let value = format!("{value:.3e}").parse().unwrap_or(value);
        let (source, why) = (prior.source.clone(), prior.outside.clone());
        out.push(Outside { constant: name.clone(), value, low, high, source, why });
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
        *own.slot("links.fabric").unwrap() = 0.99;
        let found = outside(&own);
        let fabric = found.iter().find(|one| one.constant == "links.fabric").unwrap();
        assert_eq!((fabric.low, fabric.high, &fabric.why), (0.5, 0.95, &None));
        *own.slot("links.fabric").unwrap() = 0.95;
        assert_eq!(outside(&own).len(), 2, "at its bound is within");
    }

    #[test]
    fn the_shipped_file_says_so_itself() {
        let shipped = include_str!("../predict/constants.toml");
        assert!(shipped.ends_with(&comment(Constants::shipped())), "{}", comment(Constants::shipped()));
    }
}
