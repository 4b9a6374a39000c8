//! Upper bounds of a job's cost, from prices and limits alone.

use super::json::Document;
use super::sections::UNKNOWN;
use std::fmt::Write as _;
use trainc_catalog::instances;
use trainc_diag::text;
use trainc_ir::Plan;
use trainc_ir::hardware::Instance;
use trainc_predict::bills::{max_cost, unpriced_file_systems};

/// Returns the price, the most that the job can cost, and the budget, as text.
pub(super) fn lines(document: &Document, plan: &Plan) -> Vec<String> {
    let mut out = vec![price(document, plan)];
    out.extend(upper_bound(document, plan));
    out.extend(warm_pool(plan));
    out.extend(budget(document, plan));
    out
}

fn price(document: &Document, plan: &Plan) -> String {
    let Some(price) = &document.price else {
        if plan.job.cluster.as_ref().is_some_and(|cluster| !cluster.groups.is_empty()) {
            return group_prices(plan);
        }
        let instance = plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.value());
        return match instance {
            Some(name) if plan.deployable => {
                format!("{UNKNOWN}: not in the catalogue; set it with `--price {name}=USD`")
            }
            _ => UNKNOWN.to_owned(),
        };
    };
    let mut line = format!("{} per instance-hour", text::dollars(price.usd_per_hour));
    if let (Some(hour), Some(mesh)) = (usd_per_hour(plan), &plan.mesh)
        && mesh.nodes > 1
    {
        let _ = write!(line, " × {} = {} per hour", text::group_digits(mesh.nodes), text::dollars(hour));
    }
    format!("{line} ({})", price_origin(price.date.as_deref(), &price.source))
}

/// Describes the source of a price. A date is a day, or a text such as `before 2025-06`.
fn price_origin(date: Option<&str>, source: &str) -> String {
    match date {
        None => format!("from {source}"),
        Some(day) if day.starts_with(|first: char| first.is_ascii_digit()) => format!("price of {day}"),
        Some(words) => format!("price {words}"),
    }
}

/// Returns the prices of instance groups and their sum, or which price is missing.
fn group_prices(plan: &Plan) -> String {
    let missing = plan.unpriced_instance_types();
    let Some(hour) = usd_per_hour(plan) else {
        return match missing.first() {
            Some(name) => {
                format!("{UNKNOWN}: no price of `{name}` in the catalogue; set it with `--price {name}=USD`")
            }
            None => UNKNOWN.to_owned(),
        };
    };
    let groups = plan.job.cluster.iter().flat_map(|cluster| &cluster.groups);
    let priced = || groups.clone().zip(&plan.group_prices);
    let terms: Vec<String> = priced()
        .filter_map(|(group, price)| {
            let nodes = group.nodes.get()?;
            Some(format!("{} × {}", text::group_digits(nodes), text::dollars(price.as_ref()?.usd_per_hour)))
        })
        .collect();
    let mut froms: Vec<String> = priced()
        .filter_map(|(_, price)| price.as_ref())
        .map(|price| price_origin(price.date.as_deref(), &price.source))
        .collect();
    froms.dedup();
    format!("{} = {} per hour ({})", terms.join(" + "), text::dollars(hour), text::list(&froms, "and"))
}

fn upper_bound(document: &Document, plan: &Plan) -> Option<String> {
    let cluster = plan.job.cluster.as_ref()?;
    let (most, run) = (document.run.most_usd?, cluster.max_run_seconds.get()?);
    let mut line = format!("at most {} for {}", text::dollars(most), text::duration(run));
    if plan.created_file_systems().any(|(_, price)| price.is_some()) {
        line.push_str(" incl. file system");
    }
    if cluster.spot.is_some() {
        line.push_str(" (spot costs less)");
    }
    let _ = write!(line, ", plus {}", text::list(&excluded_costs(plan), "and"));
    Some(line)
}

fn warm_pool(plan: &Plan) -> Option<String> {
    let seconds = plan.job.cluster.as_ref()?.warm_pool_seconds.get()?;
    Some(format!(
        "warm pool: up to {} for another {}",
        text::dollars(warm_pool_usd(plan)?),
        text::duration(seconds)
    ))
}

fn budget(document: &Document, plan: &Plan) -> Option<String> {
    let budget = plan.job.budget.as_ref()?;
    let usd = budget.usd.get()?;
    let word = if budget.hard.get() == Some(true) { "hard budget" } else { "budget" };
    let against = match document.run.most_usd {
        Some(most) if most > usd && document.run.cost_usd.is_some_and(|predicted| predicted > usd) => {
            ": exceeded by the predicted cost"
        }
        Some(most) if most > usd => ": can be exceeded within max-run",
        Some(most) if most + warm_pool_usd(plan).unwrap_or(0.0) > usd => {
            ": can be exceeded with the warm pool"
        }
        Some(_) if unpriced_file_systems(plan).is_empty() => ": cannot be exceeded within max-run",
        Some(_) => ": cannot be exceeded by what has a known price",
        None => "",
    };
    Some(format!("{word} {}{against}", text::dollars(usd)))
}

/// Returns the price of all instances, US dollars an hour; `None` without a mesh.
fn usd_per_hour(plan: &Plan) -> Option<f64> {
    plan.mesh.as_ref()?;
    plan.usd_per_hour()
}

/// Returns the cost of a run until max-run stops it, US dollars, of all that has a known price.
pub(super) fn max_run_usd(plan: &Plan) -> Option<f64> {
    plan.mesh.as_ref()?;
    max_cost(plan, max_run_seconds(plan)?).least_usd()
}

/// Returns max-run, seconds.
pub(super) fn max_run_seconds(plan: &Plan) -> Option<f64> {
    Some(plan.job.cluster.as_ref()?.max_run_seconds.get()? as f64)
}

/// Returns the cost of a warm pool that no further job uses, US dollars.
pub(super) fn warm_pool_usd(plan: &Plan) -> Option<f64> {
    let seconds = plan.job.cluster.as_ref()?.warm_pool_seconds.get()?;
    Some(usd_per_hour(plan)? * seconds as f64 / 3_600.0)
}

/// Returns the billed items that the cost excludes, because their price is not known.
pub(super) fn excluded_costs(plan: &Plan) -> Vec<&'static str> {
    let mut out = Vec::new();
    let groups = plan.job.cluster.as_ref().map_or(&[][..], |cluster| &cluster.groups);
    let local = |row: &Instance| row.ebs_volume_ignored;
    let nvme = if groups.is_empty() {
        plan.instance.as_ref().is_some_and(local)
    } else {
        groups.iter().all(|group| {
            group.instance.value().and_then(|name| instances::get(name)).is_some_and(|row| local(&row))
        })
    };
    if plan.deployable && !nvme && plan.volume_price.is_none() {
        out.push("volumes");
    }
    if !unpriced_file_systems(plan).is_empty() {
        out.push("the file system");
    }
    out.push("S3");
    out
}
