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
    /// [`Self::known_usd`] at the low end of estimated prices; the same without any.
    pub low_usd: f64,
    /// [`Self::known_usd`] at the high end of estimated prices; the same without any.
    pub high_usd: f64,
}

impl Cost {
    /// A bill without items.
    pub const ZERO: Self = Self { known_usd: 0.0, is_complete: true, low_usd: 0.0, high_usd: 0.0 };
    /// A bill of items without a price.
    pub const UNKNOWN: Self = Self { is_complete: false, ..Self::ZERO };

    /// Returns the cost of an item; `None` if its price is unknown.
    pub fn of_item(usd: Option<f64>) -> Self {
        usd.map_or(Self::UNKNOWN, |usd| Self {
            known_usd: usd,
            is_complete: true,
            low_usd: usd,
            high_usd: usd,
        })
    }

    /// Returns true if a part of the amount is an estimate.
    pub fn is_estimate(self) -> bool {
        self.low_usd < self.high_usd
    }

    /// Returns the low and the high end of the amount as shares of it: 1 without estimated prices.
    pub fn shares(self) -> (f64, f64) {
        if self.is_estimate() && self.known_usd > 0.0 {
            (self.low_usd / self.known_usd, self.high_usd / self.known_usd)
        } else {
            (1.0, 1.0)
        }
    }

    /// Returns the cost with each amount converted.
    #[must_use]
    pub fn map(self, convert: impl Fn(f64) -> f64) -> Self {
        Self {
            known_usd: convert(self.known_usd),
            low_usd: convert(self.low_usd),
            high_usd: convert(self.high_usd),
            ..self
        }
    }

    /// Returns the whole amount, US dollars; `None` if a part is unknown.
    pub fn exact(self) -> Option<f64> {
        self.is_complete.then_some(self.known_usd)
    }

    /// Returns the amount if it is complete, otherwise its known part; `None` if no part is known.
    pub fn at_least(self) -> Option<f64> {
        (self.is_complete || self.known_usd > 0.0).then_some(self.known_usd)
    }

    /// Returns the words in front of the amount: none if it is complete and no part is an estimate.
    pub fn bound(self) -> &'static str {
        match (self.is_complete, self.is_estimate()) {
            (true, false) => "",
            (true, true) => "an estimated ",
            (false, false) => "at least ",
            (false, true) => "at least an estimated ",
        }
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
            low_usd: self.low_usd + other.low_usd,
            high_usd: self.high_usd + other.high_usd,
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
        self.map(|usd| usd * times)
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

    #[test]
    fn an_estimate_keeps_its_ends_in_a_sum() {
        let estimate = Cost { low_usd: 9.0, high_usd: 14.0, ..Cost::of_item(Some(10.0)) };
        let bill = (estimate + Cost::of_item(Some(10.0))) * 2.0;
        assert_eq!(
            (bill.known_usd, bill.low_usd, bill.high_usd, bill.shares()),
            (40.0, 38.0, 48.0, (0.95, 1.2))
        );
        assert_eq!(
            (bill.bound(), (bill + Cost::UNKNOWN).bound()),
            ("an estimated ", "at least an estimated ")
        );
        assert_eq!((Cost::of_item(Some(2.0)).shares(), Cost::UNKNOWN.shares()), ((1.0, 1.0), (1.0, 1.0)));
    }
}
