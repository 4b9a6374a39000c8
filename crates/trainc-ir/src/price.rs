//! Prices of a job, each with its date.

use crate::cost::Cost;
use crate::date::epoch_days;
use crate::units::GIB;
use schemars::JsonSchema;
use serde::Serialize;

/// The age in days from which a price counts as old.
pub const OLD_DAYS: i64 = 90;

/// Precedes the user's discount in the source of a price.
pub const DISCOUNT: &str = ", less --discount ";

/// The basis of the price of an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PriceBasis {
    /// The user wrote it.
    User,
    /// SageMaker's list price in the job's region.
    List,
    /// No list price is known: an estimate from an EC2 price.
    Estimate(PriceEstimate),
}

/// Present if no SageMaker price is known and `usd_per_hour` is an estimate from the EC2 price, to which
/// region, date and source then refer. It satisfies neither a hard nor an enforced budget.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PriceEstimate {
    /// Low end of the estimate, US dollars per instance and hour, with the user's discount.
    pub low_usd_per_hour: f64,
    /// High end of the estimate, US dollars per instance and hour.
    pub high_usd_per_hour: f64,
    /// On-demand price of the type on EC2, US dollars per instance and hour.
    pub ec2_usd_per_hour: f64,
}

/// Price of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Price {
    /// US dollars per instance and hour.
    pub usd_per_hour: f64,
    /// The same without the user's discount: what spot instances never exceed.
    #[serde(skip)]
    pub list_usd_per_hour: f64,
    /// The region of the catalogue row; null if the user set the price (`--price`).
    pub region: Option<String>,
    /// The date from which it is valid, a day or a text such as `before 2025-06`; null if the user set the
    /// price (`--price`).
    pub date: Option<String>,
    /// Source of the price; `--price` for a price of the user.
    pub source: String,
    /// Whose price it is, or the interval of an estimate. Region, date and source of an estimate are those of
    /// the EC2 price.
    #[serde(rename = "estimate", skip_serializing_if = "PriceBasis::is_price")]
    #[schemars(with = "PriceEstimate")]
    pub basis: PriceBasis,
}

impl PriceBasis {
    fn is_price(&self) -> bool {
        matches!(self, Self::User | Self::List)
    }
}

impl Price {
    /// Returns whether the user set it or a discount on it, so that it applies to spot instances too.
    pub fn is_user_price(&self) -> bool {
        self.basis == PriceBasis::User || self.source.contains(DISCOUNT)
    }

    /// Returns the estimate, if it is one: neither a hard nor an enforced budget can rely on it.
    pub fn estimate(&self) -> Option<&PriceEstimate> {
        match &self.basis {
            PriceBasis::Estimate(estimate) => Some(estimate),
            PriceBasis::User | PriceBasis::List => None,
        }
    }

    /// Returns the cost of an instance for an hour with the user's discount, with the ends of an estimate.
    pub fn per_hour(&self) -> Cost {
        let usd = self.usd_per_hour;
        let (low_usd, high_usd) =
            self.estimate().map_or((usd, usd), |it| (it.low_usd_per_hour, it.high_usd_per_hour));
        Cost { known_usd: usd, is_complete: true, low_usd, high_usd }
    }

    /// Returns the same at the list price, which spot instances never exceed.
    pub fn list_per_hour(&self) -> Cost {
        let (low, high) = self.per_hour().shares();
        let usd = self.list_usd_per_hour;
        Cost { known_usd: usd, is_complete: true, low_usd: usd * low, high_usd: usd * high }
    }

    /// Describes where it comes from, with the age of an old price: `price of 2024-06-11, 898 days old`, or
    /// `estimate, $130.57 to $159.79, from the EC2 price of $113.93 in us-west-2, 2026-07-28`.
    pub fn describe_origin_and_age(&self, today: Option<i64>) -> String {
        let (date, region) = (self.date.as_deref(), self.region.as_deref());
        describe_price(self.estimate(), (region, date, &self.source), today)
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

/// Describes where the price of an instance comes from as [`Price::describe_origin_and_age`]. The row is
/// region, date and source.
pub fn describe_price(
    estimate: Option<&PriceEstimate>,
    (region, date, source): (Option<&str>, Option<&str>, &str),
    today: Option<i64>,
) -> String {
    let Some(estimate) = estimate else { return describe_origin_and_age(date, source, today) };
    let [low, high, ec2] = [estimate.low_usd_per_hour, estimate.high_usd_per_hour, estimate.ec2_usd_per_hour]
        .map(trainc_diag::text::dollars);
    let place: String = region.map(|region| format!(" in {region}")).into_iter().collect();
    let day: String = date.map(|date| format!(", {date}")).into_iter().collect();
    let discount = source.split_once(DISCOUNT);
    let discount: String = discount.map(|(_, share)| format!("{DISCOUNT}{share}")).into_iter().collect();
    format!(
        "estimate, {low} to {high}, from the EC2 price of {ec2}{place}{day}{}{discount}",
        describe_age(date, today)
    )
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
    let mut out: Vec<String> = prices.map(|price| price.describe_origin_and_age(today)).collect();
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

    #[test]
    fn an_estimate_is_called_one_and_widens_the_cost() {
        let estimate =
            PriceEstimate { low_usd_per_hour: 110.0, high_usd_per_hour: 140.0, ec2_usd_per_hour: 100.0 };
        let price = Price {
            usd_per_hour: 115.0,
            list_usd_per_hour: 230.0,
            region: Some("us-west-2".to_owned()),
            date: Some("2026-07-28".to_owned()),
            source: "EC2, less --discount 0.5".to_owned(),
            basis: PriceBasis::Estimate(estimate),
        };
        assert_eq!(
            price.describe_origin_and_age(epoch_days("2026-11-28")),
            "estimate, $110 to $140, from the EC2 price of $100 in us-west-2, 2026-07-28, 123 days old, \
                less --discount 0.5"
        );
        let [hour, list] = [price.per_hour(), price.list_per_hour()];
        assert_eq!((hour.low_usd, hour.known_usd, hour.high_usd), (110.0, 115.0, 140.0));
        assert_eq!((list.low_usd.round(), list.known_usd, list.high_usd.round()), (220.0, 230.0, 280.0));
        let listed = Price { basis: PriceBasis::List, ..price };
        assert!(!listed.per_hour().is_estimate() && listed.is_user_price());
    }
}
