//! Notes of a problem.

use super::Prices;
use std::fmt;
use std::ops::Deref;

/// A note of a problem: a reason, a cost, or the source of a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    text: String,
    /// The text without what depends on today's date, as artefacts have it; `None` if nothing does.
    undated: Option<String>,
    states_cost: bool,
}

impl Note {
    /// Makes a note that states a cost.
    pub fn cost(text: impl Into<String>) -> Self {
        Self { states_cost: true, ..Self::from(text.into()) }
    }

    /// Makes a note that states the age of a price, given today in days since 1970. `write` is also called
    /// without a day, for artefacts, which must not change from day to day.
    pub fn dated(today: Option<i64>, write: impl Fn(Option<i64>) -> String) -> Self {
        Self { undated: Some(write(None)), ..Self::from(write(today)) }
    }

    /// Marks a note that states a cost.
    #[must_use]
    pub fn with_cost(self) -> Self {
        self.with_cost_if(true)
    }

    /// Marks a note that may state a cost.
    #[must_use]
    pub fn with_cost_if(self, states_cost: bool) -> Self {
        Self { states_cost, ..self }
    }

    /// Returns the prices behind its dollars, unless the problem names others.
    pub fn prices(&self) -> Prices {
        if self.states_cost { Prices::OfInstances } else { Prices::None }
    }

    /// Returns whether it states a cost.
    pub fn states_cost(&self) -> bool {
        self.states_cost
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Removes what depends on today's date.
    pub(crate) fn remove_age(&mut self) {
        if let Some(undated) = self.undated.take() {
            self.text = undated;
        }
    }

    /// Changes both forms of the text.
    #[must_use]
    pub fn map_text(self, change: impl Fn(String) -> String) -> Self {
        Self { text: change(self.text), undated: self.undated.map(change), states_cost: self.states_cost }
    }
}

impl From<String> for Note {
    fn from(text: String) -> Self {
        Self { text, undated: None, states_cost: false }
    }
}

impl From<&str> for Note {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&String> for Note {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

impl PartialEq<str> for Note {
    fn eq(&self, text: &str) -> bool {
        self.text == text
    }
}

impl Deref for Note {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}
