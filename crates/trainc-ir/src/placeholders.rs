//! The placeholders that were replaced in the texts of a job.

use std::collections::{BTreeMap, BTreeSet};
use trainc_diag::source::Span;

/// The paths of the plan from which texts of a job got their values, by the place of each text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placeholders(BTreeMap<Span, Used>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Used {
    paths: BTreeSet<String>,
    /// The path, if the text is its value and nothing else.
    whole: Option<String>,
}

impl Placeholders {
    /// Adds a path that the text at a place uses.
    pub fn add(&mut self, text: Span, path: &str) {
        self.0.entry(text).or_default().paths.insert(path.to_owned());
    }

    /// Notes that the text at a place is the value of a path and nothing else.
    pub fn add_whole(&mut self, text: Span, path: &str) {
        self.0.entry(text).or_default().whole = Some(path.to_owned());
    }

    /// Returns whether the text at a place had a placeholder.
    pub fn has(&self, text: Span) -> bool {
        self.0.contains_key(&text)
    }

    /// Returns whether the text at a place uses one of the paths.
    pub fn uses(&self, text: Span, paths: &[&str]) -> bool {
        self.0.get(&text).is_some_and(|used| paths.iter().any(|path| used.paths.contains(*path)))
    }

    /// Returns whether the text at a place is the value of one of the paths.
    pub fn is_value(&self, text: Span, paths: &[&str]) -> bool {
        let whole = self.0.get(&text).and_then(|used| used.whole.as_deref());
        whole.is_some_and(|whole| paths.contains(&whole))
    }
}
