//! Prices of instance types.

use crate::Context;
use trainc_diag::{Note, text};
use trainc_ir::Price;
use trainc_ir::price::describe_age;
use trainc_plan::plan::hourly_price;
use trainc_predict::Run;

/// Returns the price of an instance type in the job's region.
pub(crate) fn instance_price(context: &Context, name: &str) -> Option<Price> {
    hourly_price(name, context.plan.job.region.value()?, context.prices, context.discount)
}

/// Formats an amount of a run's cost, which is called an estimate if a price is one: `an estimated $495`.
pub(crate) fn describe_cost(run: &Run, usd: f64) -> String {
    let estimated = if run.cost_parts.total().is_estimate() { "an estimated " } else { "" };
    format!("{estimated}{}", text::dollars(usd))
}

/// Describes the sources of the prices, each once, with the age of old ones.
pub(crate) fn describe_price_sources<'a>(
    prices: impl Iterator<Item = &'a Price>,
    today: Option<i64>,
) -> Vec<Note> {
    let mut out: Vec<Note> = prices
        .map(|price| match (price.region.as_ref().zip(price.date.as_ref()), price.estimate()) {
            (Some((region, date)), None) => Note::dated(today, |today| {
                let age = describe_age(Some(date), today);
                format!("price in {region} as of {date}{age}; override it with `--price`")
            }),
            (Some(_), Some(_)) => Note::dated(today, |today| {
                let origin = price.describe_origin_and_age(today);
                format!("the price is an {origin}; override it with `--price`")
            }),
            (None, _) => format!("the price is from {}", price.source).into(),
        })
        .collect();
    out.dedup();
    out
}
