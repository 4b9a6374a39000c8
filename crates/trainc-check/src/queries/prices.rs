//! Prices of instance types.

use crate::Context;
use trainc_catalog::prices;
use trainc_diag::text;
use trainc_ir::{Plan, Price};
use trainc_plan::plan::hourly_price;

/// Returns the price of an instance type in the job's region.
pub(crate) fn instance_price(context: &Context, name: &str) -> Option<Price> {
    hourly_price(name, context.plan.job.region.value()?, context.prices, context.discount)
}

/// Describes a later price of the job's type that the catalogue has for another region only. Prices change in all regions at
/// about the same time, so the one in use may be out of date.
pub(crate) fn describe_later_price(plan: &Plan) -> Option<String> {
    let used = plan.price.as_ref()?;
    let region = used.region.as_deref()?;
    let instance = plan.job.cluster.as_ref()?.instance.value()?;
    let since = prices::newest(instance, region)?.provenance.date;
    let newest = prices::newest_anywhere(instance).filter(|price| price.provenance.date > since)?;
    Some(format!(
        "a later price is known for {} only: {} since {}; `--price {instance}={}` uses it",
        newest.region.as_deref()?,
        text::dollars(newest.usd_per_hour),
        newest.date_words.as_deref().unwrap_or(&newest.provenance.date),
        newest.usd_per_hour
    ))
}
