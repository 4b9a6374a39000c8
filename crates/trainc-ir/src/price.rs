//! Prices of a job, each with its date.

use crate::date::epoch_days;
use crate::units::GIB;

/// The age in days from which a price counts as old.
pub const OLD_DAYS: i64 = 90;

/// Precedes the user's discount in the source of a price.
pub const DISCOUNT: &str = ", less --discount ";

/// Price of one instance for an hour.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// US dollars per hour.
    pub usd_per_hour: f64,
    /// The same without the user's discount: what spot instances never exceed.
    pub list_usd_per_hour: f64,
    /// The region of the catalogue row; `None` for a price of the user.
    pub region: Option<String>,
    /// The date from which it is valid, such as a day or `before 2025-06`; `None` for a price of the user.
    pub date: Option<String>,
    /// The source; `--price` for a price of the user.
    pub source: String,
}

impl Price {
    /// Returns whether the user set it or a discount on it, so that it applies to spot instances too.
    pub fn is_user_price(&self) -> bool {
        self.source.starts_with("--price") || self.source.contains(DISCOUNT)
    }

    /// Returns its age in days; `None` for a price of the user. Today is in days since 1970.
    pub fn age_days(&self, today: i64) -> Option<i64> {
        age_days(self.date.as_deref()?, today)
    }
}

/// Price of storage for a month of 730 hours.
#[derive(Clone, Debug, PartialEq)]
pub struct StoragePrice {
    /// US dollars per GB and month; of FSx per GiB of capacity.
    pub usd_per_gb_month: f64,
    /// The region of the catalogue row; `None` for a price of the user.
    pub region: Option<String>,
    /// The date of the row; `None` for a price of the user.
    pub date: Option<String>,
    /// The source; `--price` for a price of the user.
    pub source: String,
}

impl StoragePrice {
    /// Returns region and date of the catalogue row, `us-west-2, 2026-06-01`; `None` for a price of the user.
    pub fn catalogue_row(&self) -> Option<String> {
        Some(format!("{}, {}", self.region.as_ref()?, self.date.as_ref()?))
    }

    /// Describes where it comes from, with the age of an old price: `price of 2026-06-01, 178 days old`.
    pub fn describe_origin_and_age(&self, today: Option<i64>) -> String {
        describe_origin_and_age(self.date.as_deref(), &self.source, today)
    }

    /// Returns its age in days; `None` for a price of the user. Today is in days since 1970.
    pub fn age_days(&self, today: i64) -> Option<i64> {
        age_days(self.date.as_deref()?, today)
    }

    /// Returns the price of this many bytes for a month, US dollars.
    pub fn usd_per_month(&self, bytes: u64) -> f64 {
        bytes as f64 / GIB as f64 * self.usd_per_gb_month
    }
}

/// Describes the origin of a price. A date is a day, or a text such as `before 2025-06`.
pub fn describe_origin(date: Option<&str>, source: &str) -> String {
    if let Some((price, discount)) = source.split_once(DISCOUNT) {
        return format!("{}{DISCOUNT}{discount}", describe_origin(date, price));
    }
    match date {
        None => format!("from {source}"),
        Some(day) if day.starts_with(|first: char| first.is_ascii_digit()) => format!("price of {day}"),
        Some(words) => format!("price {words}"),
    }
}

/// Returns the age of a price in days. A month counts from its first day: `2026-07`, `before 2025-06`.
fn age_days(date: &str, today: i64) -> Option<i64> {
    let day = date.rsplit(' ').next()?;
    let day = if day.matches('-').count() == 1 { format!("{day}-01") } else { day.to_owned() };
    Some(today - epoch_days(&day)?)
}

/// Describes the origin of a price as [`describe_origin`], with the age of an old one:
/// `price of 2024-06-11, 898 days old`.
pub fn describe_origin_and_age(date: Option<&str>, source: &str, today: Option<i64>) -> String {
    describe_origin(date, source) + &describe_age(date, today)
}

/// Describes the age of an old price after its date: `, 898 days old`; empty for a newer one, and for one of
/// the user. Without today's date there is no age: emitted files do not change with the day.
pub fn describe_age(date: Option<&str>, today: Option<i64>) -> String {
    match date.zip(today).and_then(|(date, today)| age_days(date, today)) {
        Some(age) if age > OLD_DAYS => {
            format!(", {} old", trainc_diag::text::count(age.unsigned_abs(), "day"))
        }
        _ => String::new(),
    }
}

/// Describes the origins of several prices, each once:
/// `price of 2024-06-11, 898 days old, and price of 2026-09-01`. `None` without prices.
pub fn describe_origins<'a>(prices: impl Iterator<Item = &'a Price>, today: Option<i64>) -> Option<String> {
    let mut out: Vec<String> =
        prices.map(|price| describe_origin_and_age(price.date.as_deref(), &price.source, today)).collect();
    out.sort();
    out.dedup();
    (!out.is_empty()).then(|| trainc_diag::text::list(&out, "and"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_price_states_its_age() {
        let on = |date: &str, today: &str| describe_origin_and_age(Some(date), "x", epoch_days(today));
        assert_eq!(on("2024-06-11", "2026-11-26"), "price of 2024-06-11, 898 days old");
        assert_eq!(on("2026-09-01", "2026-11-30"), "price of 2026-09-01");
        assert_eq!(on("2026-09-01", "2026-12-01"), "price of 2026-09-01, 91 days old");
        assert_eq!(on("before 2025-06", "2025-12-01"), "price before 2025-06, 183 days old");
        assert_eq!(on("2026-07", "2026-09-29"), "price of 2026-07");
        assert_eq!(on("2024-06-11", "unknown"), "price of 2024-06-11");
        assert_eq!(
            describe_origin(Some("2026-09-01"), "x, less --discount 0.6"),
            "price of 2026-09-01, less --discount 0.6"
        );
        assert_eq!(describe_origin_and_age(None, "--price", epoch_days("2026-11-26")), "from --price");
    }
}
