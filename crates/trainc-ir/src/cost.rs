//! Amounts of money of which a part may be unknown.

use std::iter::Sum;
use std::ops::{Add, Mul};

/// US dollars of a bill whose items may lack a price: the known items are a lower bound of the bill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// US dollars of the items with a price.
    pub known_usd: f64,
    /// Whether every item has a price.
    pub is_complete: bool,
}

impl Cost {
    /// A bill without items.
    pub const ZERO: Self = Self { known_usd: 0.0, is_complete: true };
    /// A bill of items without a price.
    pub const UNKNOWN: Self = Self { known_usd: 0.0, is_complete: false };

    /// Returns the cost of an item; `None` if its price is unknown.
    pub fn of_item(usd: Option<f64>) -> Self {
        usd.map_or(Self::UNKNOWN, |usd| Self { known_usd: usd, is_complete: true })
    }

    /// Returns the whole amount, US dollars; `None` if a part is unknown.
    pub fn exact(self) -> Option<f64> {
        self.is_complete.then_some(self.known_usd)
    }

    /// Returns the amount if it is complete, otherwise its known part; `None` if no part is known.
    pub fn at_least(self) -> Option<f64> {
        (self.is_complete || self.known_usd > 0.0).then_some(self.known_usd)
    }

    /// Returns the words in front of the amount: none if it is complete.
    pub fn bound(self) -> &'static str {
        if self.is_complete { "" } else { "at least " }
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            known_usd: self.known_usd + other.known_usd,
            is_complete: self.is_complete && other.is_complete,
        }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, Add::add)
    }
}

/// The cost of that many.
impl Mul<f64> for Cost {
    type Output = Self;

    fn mul(self, times: f64) -> Self {
        Self { known_usd: self.known_usd * times, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_items_are_a_lower_bound() {
        let bill: Cost = [Some(24_241.0), None, Some(9.0)].into_iter().map(Cost::of_item).sum();
        assert_eq!((bill.exact(), bill.at_least(), bill.bound()), (None, Some(24_250.0), "at least "));
        let complete = Cost::of_item(Some(2.0)) * 3.0 + Cost::ZERO;
        assert_eq!((complete.exact(), complete.at_least(), complete.bound()), (Some(6.0), Some(6.0), ""));
        assert_eq!(Cost::UNKNOWN.at_least(), None);
    }
}
