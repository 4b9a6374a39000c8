//! What a job costs, as text: expected, at most, and after its end.

use super::after_end;
use super::json::{Choice, Document};
use super::sections::{Section, UNKNOWN, unknown_with_reason};
use std::fmt::Write as _;
use trainc_catalog::instances;
use trainc_catalog::quotas::{self, Usage};
use trainc_diag::text;
use trainc_ir::hardware::Instance;
use trainc_ir::price::describe_origins;
use trainc_ir::{Plan, QuotaRoom};
use trainc_predict::Interval;
use trainc_predict::bills::{dearest, max_cost, on_demand_cost, unpriced_file_systems};
use trainc_predict::prediction::CostParts;
use trainc_predict::round_to_u64;

/// Returns what the job costs: expected, at most, on a better machine, after its end, and the room in the
/// quotas. Every output shows these sections. Today is in days since 1970; without it old prices have no
/// age.
pub(super) fn sections(document: &Document, plan: &Plan, today: Option<i64>) -> Vec<Section> {
    let mut out = vec![("cost", lines(document, plan, today))];
    out.push(("elsewhere", elsewhere(document).into_iter().collect()));
    out.extend([("after", after_end::describe(&document.after_end, today)), ("quota", quotas(document))]);
    out.retain(|(_, lines)| !lines.is_empty());
    out
}

/// Returns the expected cost, the most that the job can cost until its end, the price and the budget, as
/// text.
pub(super) fn lines(document: &Document, plan: &Plan, today: Option<i64>) -> Vec<String> {
    let price = price(document, plan, today);
    let mut out = Vec::new();
    // A missing price is reported once, with the option that sets it.
    let may_be_predicted = plan.names_model() || document.run.seconds.is_some();
    if may_be_predicted && !price.starts_with(UNKNOWN) {
        out.push(expected(document, plan));
    }
    out.extend(upper_bound(plan));
    out.push(price);
    out.extend(budget(document, plan));
    out
}

/// Returns the costs of the plan of a run; of a run of another version of the manifest, which has no plan,
/// the price.
pub fn lines_of_run(plan: &Plan, planned: Option<&Document>, today: Option<i64>) -> Vec<String> {
    match planned {
        Some(document) => lines(document, plan, today),
        None => describe_origins(plan.instance_prices(), today)
            .map(|origins| format!("instances only, by the {origins}"))
            .into_iter()
            .collect(),
    }
}

/// Formats the interval of a cost: a run is stopped at max-run, where it costs `most`.
pub(super) fn between(ends: &Interval, most: Option<f64>) -> String {
    let most = most.unwrap_or(f64::INFINITY);
    let stopped = if ends.high > most { ", where max-run stops it" } else { "" };
    format!("{} to {}{stopped}", text::dollars(ends.low.min(most)), text::dollars(ends.high.min(most)))
}

/// Returns the expected cost with its interval; for spot instances without a known price its on-demand upper
/// bound.
fn expected(document: &Document, plan: &Plan) -> String {
    let run = &document.run;
    let with_interval = |usd: f64, interval: Option<&Interval>| {
        let between = interval.map(|ends| format!(" ({})", between(ends, run.most_usd)));
        text::dollars(usd) + &between.unwrap_or_default()
    };
    let is_cut = run.seconds.zip(max_run_seconds(plan)).is_some_and(|(run, most)| run > most);
    let cut = if is_cut { ", of which max-run allows only a part" } else { "" };
    if let [_, _, ..] = document.choices.as_slice() {
        return expected_by_type(&document.choices);
    }
    if let Some(usd) = run.cost_usd {
        let estimated = if plan.has_estimated_price() { "an estimated " } else { "" };
        return format!("expected {estimated}{}{cut}", with_interval(usd, run.cost_usd_interval.as_ref()));
    }
    if let Some(usd) = run.on_demand_usd {
        let usd = with_interval(usd, run.on_demand_usd_interval.as_ref()) + cut;
        return format!("expected {usd} at the on-demand price: the spot price is not known");
    }
    let reason = match run.seconds {
        Some(_) => unknown_with_reason(document, "run.cost_usd"),
        None => format!("{UNKNOWN}: the run time is not predicted"),
    };
    let least = reason.strip_prefix(UNKNOWN).and_then(|rest| rest.strip_prefix(": at least "));
    match least {
        Some(least) => format!("expected at least {least}"),
        None => format!("expected cost {reason}"),
    }
}

/// Returns the machine on which the job would cost or take much less, if one was found: `1 × ml.p4d.24xlarge:
/// 16m 20s, $6.87 (−45 %), needs quota L-1234ABCD`.
fn elsewhere(document: &Document) -> Option<String> {
    let found = document.elsewhere.as_ref()?.as_ref()?;
    let usage = if document.cluster.spot { Usage::Spot } else { Usage::OnDemand };
    let quota = quotas::instance(&found.instance, usage).and_then(|quota| quota.code);
    let quota = quota.map_or_else(String::new, |code| format!(", needs quota {code}"));
    let (time, usd) = (text::rounded_duration(found.seconds), text::dollars(found.cost_usd));
    let saved = format!(" (−{:.0} %)", 100.0 * found.saves);
    let is_of_cost = |now: f64| (1.0 - found.cost_usd / now - found.saves).abs() < 1e-3;
    let saves_cost = document.run.cost_usd.is_some_and(is_of_cost);
    let figures = if saves_cost { format!("{time}, {usd}{saved}") } else { format!("{time}{saved}, {usd}") };
    Some(format!("{} × {}: {figures}{quota}", found.nodes, found.instance))
}

/// Returns the expected cost on each preferred instance type.
fn expected_by_type(choices: &[Choice]) -> String {
    let each: Vec<String> = choices
        .iter()
        .map(|one| {
            let usd = match (one.run.cost_usd, &one.run.cost_usd_interval) {
                (Some(usd), ends) => {
                    let between = ends.as_ref().map(|ends| format!(" ({})", between(ends, one.run.most_usd)));
                    let estimate = one.price.as_ref().filter(|price| price.estimate().is_some());
                    let estimated = if estimate.is_some() { "an estimated " } else { "" };
                    format!("{estimated}{}{}", text::dollars(usd), between.unwrap_or_default())
                }
                (None, _) => UNKNOWN.to_owned(),
            };
            format!("{usd} on {}", one.instance.as_deref().unwrap_or(UNKNOWN))
        })
        .collect();
    format!("expected {}", each.join(", "))
}

/// Returns the price of the instances; of several preferred types that of each.
fn price(document: &Document, plan: &Plan, today: Option<i64>) -> String {
    let own = own_price(document, plan, today);
    let further = plan.fleet.alternatives().into_iter().flat_map(|all| &all.further);
    let further = further.flat_map(|one| &one.parts).map(|part| match &part.price {
        Some(price) => format!(
            "{} on {} ({})",
            text::dollars(price.usd_per_hour),
            part.instance,
            price.describe_origin_and_age(today)
        ),
        None => {
            format!("{UNKNOWN} on {name}; set it with `--price {name}=USD`", name = part.instance)
        }
    });
    std::iter::once(own).chain(further).collect::<Vec<_>>().join("; ")
}

fn own_price(document: &Document, plan: &Plan, today: Option<i64>) -> String {
    let Some(price) = &document.price else {
        if plan.job.cluster.as_ref().is_some_and(|cluster| !cluster.groups.is_empty()) {
            return group_prices(plan, today);
        }
        return match plan.unpriced_instance_types().first() {
            Some(name) => {
                let region = plan.job.region.value().map_or("its region", String::as_str);
                format!(
                    "{UNKNOWN}: the catalogue has no price of {name} in {region}; set it with \
                        `--price {name}=USD`"
                )
            }
            None => UNKNOWN.to_owned(),
        };
    };
    let mut line = format!("{} per instance-hour", text::dollars(price.usd_per_hour));
    if let (Some(hour), Some(mesh)) = (usd_per_hour(plan), &plan.mesh)
        && mesh.nodes > 1
    {
        let _ = write!(line, " × {} = {} per hour", text::group_digits(mesh.nodes), text::dollars(hour));
    }
    format!("{line} ({})", price.describe_origin_and_age(today))
}

/// Returns the prices of instance groups and their sum, or which price is missing.
fn group_prices(plan: &Plan, today: Option<i64>) -> String {
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
    let priced = || groups.clone().zip(plan.group_prices());
    let terms: Vec<String> = priced()
        .filter_map(|(group, price)| {
            let nodes = group.nodes.get()?;
            Some(format!("{} × {}", text::group_digits(nodes), text::dollars(price?.usd_per_hour)))
        })
        .collect();
    let mut froms: Vec<String> =
        priced().filter_map(|(_, price)| price).map(|price| price.describe_origin_and_age(today)).collect();
    froms.dedup();
    format!("{} = {} per hour ({})", terms.join(" + "), text::dollars(hour), text::list(&froms, "and"))
}

/// Returns the most that the job can cost: without some prices, the least that `max-run` costs.
fn upper_bound(plan: &Plan) -> Option<String> {
    let seconds = plan.job.cluster.as_ref()?.max_run_seconds.get()?;
    let cost = max_run_cost(plan)?;
    let (bound, usd) = match cost.most_usd() {
        Some(usd) if cost.total().is_estimate() => ("at most an estimated", usd),
        Some(usd) => ("at most", usd),
        None => ("at least", Some(cost.known_usd()).filter(|usd| *usd > 0.0)?),
    };
    let mut line = format!("{bound} {} for {}", text::dollars(usd), text::duration(seconds));
    if let Some(instance) = dearest_choice(plan) {
        let _ = write!(line, " on {instance}");
    }
    if plan.created_file_systems().any(|(_, price)| price.is_some()) {
        line.push_str(" incl. file system");
    }
    if plan.is_spot() {
        line.push_str(" (spot costs less)");
    }
    let _ = write!(line, ", plus {}", text::list(&excluded_costs(plan), "and"));
    Some(line)
}

/// Returns the dearest of several preferred instance types.
fn dearest_choice(plan: &Plan) -> Option<&str> {
    plan.fleet.alternatives().filter(|all| !all.further.is_empty())?;
    let (instances, _) = dearest(plan, 3_600.0)?;
    instances.parts.first().map(|part| part.instance.as_str())
}

/// Returns the room in the quota of the account that running jobs use up first.
fn quotas(document: &Document) -> Vec<String> {
    let number = |value: f64| text::group_digits(round_to_u64(value));
    let one = |quota: &QuotaRoom| {
        let left = quota.value - quota.needed - quota.in_use.unwrap_or(0.0);
        // Negative if apply waits for other jobs to end.
        let left =
            if left < 0.0 { format!("{} short", number(-left)) } else { format!("{} left", number(left)) };
        let left = if quota.in_use_is_lower_bound { format!("at most {left}") } else { left };
        let used = match quota.in_use {
            Some(used) if quota.in_use_is_lower_bound => format!(" - at least {} in use", number(used)),
            Some(used) => format!(" - {} in use", number(used)),
            None => String::new(),
        };
        let default = if quota.is_default { ", the default of a new account" } else { "" };
        format!(
            "{left}: {}{used} - {} for this job ({}{default})",
            number(quota.value),
            number(quota.needed),
            quota.name
        )
    };
    // The one that is used up first.
    let left = |quota: &&QuotaRoom| quota.value - quota.needed - quota.in_use.unwrap_or(0.0);
    document.quotas.iter().min_by(|a, b| left(a).total_cmp(&left(b))).map(one).into_iter().collect()
}

/// Returns the budget against the cost, as text.
pub(super) fn budget(document: &Document, plan: &Plan) -> Option<String> {
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
        Some(_) if max_run_cost(plan).is_some_and(|cost| cost.instances.is_estimate()) => {
            ": cannot be checked, the price is an estimate"
        }
        Some(_) if unpriced_file_systems(plan).is_empty() => ": cannot be exceeded within max-run",
        Some(_) => ": cannot be exceeded by what has a known price",
        None if max_run_cost(plan).is_some_and(|cost| cost.known_usd() > usd) => {
            ": can be exceeded within max-run"
        }
        None => "",
    };
    Some(format!("{word} {}{against}", text::dollars(usd)))
}

/// Returns the price of all instances, US dollars an hour; `None` without a mesh.
fn usd_per_hour(plan: &Plan) -> Option<f64> {
    plan.mesh.as_ref()?;
    plan.cost_per_hour().exact()
}

/// Returns the cost of a run until max-run stops it, on the dearest instances that it may run on.
pub(super) fn max_run_cost(plan: &Plan) -> Option<CostParts> {
    plan.mesh.as_ref()?;
    Some(max_cost(plan, max_run_seconds(plan)?))
}

/// Returns the same in US dollars; `None` without the price of all instances.
pub(super) fn max_run_usd(plan: &Plan) -> Option<f64> {
    max_run_cost(plan)?.most_usd()
}

/// Returns the same on the instances that the plan is for, US dollars.
pub(super) fn own_max_run_usd(plan: &Plan) -> Option<f64> {
    plan.mesh.as_ref()?;
    on_demand_cost(plan, max_run_seconds(plan)?).most_usd()
}

/// Returns max-run, seconds.
pub(super) fn max_run_seconds(plan: &Plan) -> Option<f64> {
    Some(plan.job.cluster.as_ref()?.max_run_seconds.get()? as f64)
}

/// Returns the cost of a warm pool that no further job uses, US dollars.
pub(super) fn warm_pool_usd(plan: &Plan) -> Option<f64> {
    let seconds = plan.job.cluster.as_ref()?.warm_pool_seconds.get()?;
    let hour =
        plan.mesh.as_ref().and_then(|_| plan.cost_per_hour().exact().map(|_| plan.cost_per_hour().high_usd));
    Some(hour? * seconds as f64 / 3_600.0)
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
    if !nvme && plan.volume_price().is_none() {
        out.push("volumes");
    }
    if !unpriced_file_systems(plan).is_empty() {
        out.push("the file system");
    }
    out.push("S3");
    out
}
