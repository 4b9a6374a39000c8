//! The highest possible cost compared with the budget: the price of instances, volumes and file systems ×
//! `max-run`.

use crate::Context;
use crate::queries::prediction::predicted_run;
use super::limits::is_overridden;
use crate::queries::prices::describe_price_sources;
use crate::queries::{file_system, run_limits};
use trainc_catalog::instances;
use trainc_catalog::prices::{self, HOURS_PER_MONTH};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Note, Prices, Problems, Severity};
use trainc_ir::price::{OLD_DAYS, describe_origin_and_age};
use trainc_ir::{Alternative, Alternatives, Part, Plan};
use trainc_predict::bills::{dearest, max_cost, on_demand_cost_of, unpriced_file_systems};
use trainc_tune::space::is_searchable;

declare_code!(
    T0447,
    "over-budget",
    Warning,
    "the longest run may cost more than the budget",
    tags: [TimeOrCost]
);
declare_code!(
    T0257,
    "budget-without-price",
    Note,
    "a budget that cannot be checked because a price is unknown",
    tags: [TimeOrCost]
);

declare_code!(
    T0258,
    "budget-by-old-price",
    Warning,
    "a hard budget that is compared with an old price",
    tags: [Dated]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0447, &T0257, &T0258];

/// Seconds per hour.
const HOUR: f64 = 3_600.0;

/// The share of the highest cost from which the price of a file system matters to a budget.
const MATERIAL_SHARE: f64 = 0.1;

/// Reports a cost above the budget; it is an error if the budget is hard.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(budget) = &plan.job.budget else { return };
    let Some(usd) = budget.usd.val() else { return };
    let hard = budget.hard.get() == Some(true);
    if let Some(member) = plan.job.serverless_member() {
        problems.push(
            Diagnostic::new(
                &T0257,
                usd.span_or(budget.span),
                "the budget cannot be checked: a serverless job has no instances with a price",
            )
            .severity(unchecked_severity(plan, hard))
            .label(member.span, "serverless")
            .note("the service bills it separately; `request { StoppingCondition { MaxRuntimeInSeconds \
                3600 } }` limits its time"),
        );
        return;
    }
    // A custom or local cluster costs nothing here, and an invalid type is reported already.
    let (Some(cluster), Some(alternatives)) = (&plan.job.cluster, plan.fleet.alternatives()) else { return };
    let span = usd.span_or(budget.span);
    if let Some(path) = BILLED_MEMBERS.iter().find(|path| is_overridden(plan, path)) {
        let message = format!("the budget cannot be checked: `request` overrides `{path}`");
        let severity = if hard { Severity::Error } else { Severity::Note };
        problems.push(
            Diagnostic::new(&T0257, span, message)
                .severity(severity)
                .help("write the node that sets this member, in place of the one in `request`")
                .note("trainc sends members of `request` as written, and does not know what the job \
                    would cost with them"),
        );
        return;
    }
    problems.extend_with(unpriced_costs(context, span, hard));
    problems.extend_with(missing_instance_price(plan, alternatives, span, hard));
    // The known part of the cost decides if it exceeds the budget alone.
    let known = dearest(plan, HOUR).filter(|(_, cost)| cost.known_usd() > 0.0);
    let Some((dearest, cost)) = known else { return };
    let (instances, per_hour) = (dearest.cost_per_hour().known_usd, cost.known_usd());
    if hard {
        problems.extend_with(old_price(context, alternatives, span));
    }
    let Some(run) = run_limits::max_run(cluster) else { return };
    let today = context.today_in_days();
    // A warm pool is billed like the run until another job takes it.
    let taken = |seconds: u64| seconds > 0 && run_limits::is_accepted(run_limits::WARM_POOL, seconds);
    let pool = cluster.warm_pool_seconds.val().filter(|pool| taken(pool.value));
    let pool_hours = pool.map_or(0.0, |pool| pool.value as f64 / 3600.0);
    let run_hours = run.value as f64 / 3600.0;
    let alone = per_hour * run_hours;
    let most = alone + instances * pool_hours;
    if most <= usd.value {
        return;
    }
    // Where the price is an estimate, only its low end is sure to be exceeded.
    let (low, _) = cost.total().shares();
    let severity = if hard && most * low > usd.value { Severity::Error } else { Severity::Warning };
    let affordable = (usd.value - instances * pool_hours) / per_hour;
    let least = cost.total().bound();
    let on = match (alternatives.further.as_slice(), dearest.parts.as_slice()) {
        ([_, ..], [part, ..]) => format!(" on `{}`", part.instance),
        _ => String::new(),
    };
    let diagnostic = Diagnostic::new(
        &T0447,
        span,
        format!(
            "a run of {}{}{on} may cost {least}{}; the budget is {}",
            text::duration(run.value),
            pool.map_or_else(String::new, |pool| format!(
                " and a warm pool for {} more",
                text::duration(pool.value)
            )),
            text::dollars(most),
            text::dollars(usd.value)
        ),
    )
    .severity(severity)
    .prices(Prices::Named)
    .label(run.span_or(cluster.span), format!("`max-run`, {}", trainc_plan::plan::describe_origin(&run.origin)))
    .fact("most_usd", most)
    .fact("budget_usd", usd.value);
    let hours = text::short_number(run_hours + pool_hours);
    let diagnostic = match describe_hourly_cost(dearest) {
        Some(hourly) => diagnostic.note(Note::cost(format!("{hourly} × {hours} h"))),
        None => diagnostic,
    };
    let diagnostic = match pool {
        Some(pool) => diagnostic.label(pool.span_or(cluster.span), "billed until another job takes it"),
        None => diagnostic,
    };
    let storage = describe_storage_cost(plan, dearest, run_hours, today);
    let prices = dearest.parts.iter().filter_map(|part| part.price.as_ref());
    let sources = describe_price_sources(prices, today);
    let diagnostic = storage.into_iter().chain(sources).fold(diagnostic, Diagnostic::note);
    // A limit below the time that the run needs would stop it before its end.
    let needed = predicted_run(context).map(|(_, run)| {
        let high = run.expected_interval().map_or(f64::INFINITY, |interval| interval.high);
        (run.expected_seconds(), high)
    });
    let tune = is_searchable(plan).then(|| format!("`trainc tune --max-usd {}`", text::short_number(usd.value)));
    let also = tune.as_ref().map_or_else(String::new, |tune| format!("; {tune} finds cheaper machines"));
    let with_tune = |diagnostic: Diagnostic| match &tune {
        Some(tune) => diagnostic.help(format!("find cheaper machines and layouts with {tune}")),
        None => diagnostic,
    };
    problems.push(match needed {
        _ if pool.is_some() && (alone <= usd.value || affordable < 1.0) => diagnostic
            .remove("warm-pool").or_else("shorten it")
            .and_text(&also)
            .note(Note::cost(format!("without it the run may cost {}", text::dollars(alone)))),
        Some((seconds, _)) if seconds > affordable.floor() * 3600.0 => with_tune(diagnostic).note(format!(
            "the run is predicted to take {}: a `max-run` within the budget would stop it before its end",
            text::rounded_duration(seconds)
        )),
        Some((seconds, most)) if most > affordable.floor() * 3600.0 => with_tune(diagnostic).note(format!(
            "the run is predicted to take {}{}: a `max-run` within the budget may stop it before its end",
            text::rounded_duration(seconds),
            if most.is_finite() { format!(", at most {}", text::rounded_duration(most)) } else { String::new() }
        )),
        // Without some prices a shorter `max-run` may still cost more than the budget.
        _ if affordable >= 1.0 && cost.instances.is_complete && !cost.instances.is_estimate() => diagnostic
            .write(format!("max-run \"{}h\"", affordable.floor())).and_text(&format!(": SageMaker then stops the \
                job after {}h{also}", affordable.floor())),
        _ => with_tune(diagnostic),
    });
}

/// Reports prices older than [`OLD_DAYS`], by which a hard budget cannot hold. That of a file system only
/// counts if it is a material part of the cost.
fn old_price(context: &Context, alternatives: &Alternatives, span: Span) -> Option<Diagnostic> {
    let plan = context.plan;
    let region = plan.job.region.value()?;
    let today = context.today_in_days()?;
    let all = max_cost(plan, HOUR).known_usd();
    let mut old: Vec<(String, Option<&str>, i64)> = Vec::new();
    for part in alternatives.iter().flat_map(|one| &one.parts) {
        // An estimate is reported as a price that is not known.
        let Some(price) = part.price.as_ref().filter(|price| price.estimate().is_none()) else { continue };
        if let Some(age) = price.age_days(today) {
            old.push((format!("--price {}=USD_PER_HOUR", part.instance), price.date.as_deref(), age));
        }
    }
    for (storage, price) in plan.created_file_systems() {
        let Some((bytes, price)) = storage.capacity_bytes.get().zip(price) else { continue };
        let share = price.usd_per_month(bytes) / HOURS_PER_MONTH / all;
        if let Some((flag, age)) = file_system::price_flag(region, storage).zip(price.age_days(today))
            && share >= MATERIAL_SHARE
        {
            old.push((flag, price.date.as_deref(), age));
        }
    }
    old.retain(|(.., age)| *age > OLD_DAYS);
    old.dedup();
    let (_, date, age) = old.iter().max_by_key(|(.., age)| *age)?;
    let flags: Vec<String> = old.iter().map(|(flag, ..)| flag.clone()).collect();
    Some(
        Diagnostic::new(
            &T0258,
            span,
            format!(
                "the hard budget is compared with a {}",
                describe_origin_and_age(*date, "", Some(today))
            ),
        )
        .help(format!("pass the current price: `{}`", flags.join(" ")))
        .note("the catalogue has no later price for this region")
        .fact("age_days", *age),
    )
}

/// Returns the severity of a budget that cannot be checked: a warning if it is hard, an error if it is also
/// enforced, since nothing would ever stop the job for its cost.
fn unchecked_severity(plan: &Plan, hard: bool) -> Severity {
    match (hard, plan.enforced_budget()) {
        (true, Some(_)) => Severity::Error,
        (true, None) => Severity::Warning,
        (false, _) => Severity::Note,
    }
}

/// The members of CreateTrainingJob that decide what a job costs at most: its machines and its time.
const BILLED_MEMBERS: [&str; 5] = [
    "ResourceConfig.InstanceType",
    "ResourceConfig.InstanceCount",
    "ResourceConfig.InstanceGroups",
    "ResourceConfig.VolumeSizeInGB",
    "StoppingCondition.MaxRuntimeInSeconds",
];

/// Reports costs that the budget does not include because their price is unknown. A file system may cost as
/// much as the instances; volumes only matter to a hard budget.
fn unpriced_costs(context: &Context, span: Span, hard: bool) -> Option<Diagnostic> {
    let plan = context.plan;
    plan.region.as_ref()?;
    let region = plan.job.region.value()?;
    // A kind that the service lacks has no price either, and is reported already.
    let refused = |name: &str| {
        let mut storages = plan.job.storage.iter();
        let storage = storages.find(|storage| storage.name.value().is_some_and(|own| own == name));
        storage.is_some_and(|storage| file_system::price_flag(region, storage).is_none())
    };
    let mut systems = unpriced_file_systems(plan);
    systems.retain(|name| !refused(name));
    let volumes = hard
        && predicted_run(context)
            .map(|(_, run)| run.cost_parts)
            .is_some_and(|parts| parts.instances.is_complete && !parts.volumes.is_complete);
    let mut parts: Vec<String> = systems.iter().map(|name| format!("the file system `{name}`")).collect();
    parts.extend(volumes.then(|| "the storage volumes".to_owned()));
    if parts.is_empty() {
        return None;
    }
    let severity = unchecked_severity(plan, hard && !systems.is_empty());
    let unpriced = plan.created_file_systems().filter(|(_, price)| price.is_none());
    let mut flags: Vec<String> =
        unpriced.filter_map(|(storage, _)| file_system::price_flag(region, storage)).collect();
    flags.dedup();
    flags.extend(volumes.then(|| format!("--price {}=USD_PER_GB_MONTH", prices::volume_key(region))));
    let diagnostic = Diagnostic::new(
        &T0257,
        span,
        format!(
            "the budget does not include {}: no price in `{region}` is known",
            text::list(&parts, "and")
        ),
    )
    .severity(severity)
    .note("it is added to every cost shown here, billed by the second")
    .fact("file_systems", systems);
    Some(if flags.is_empty() {
        diagnostic
    } else {
        diagnostic.help(format!("pass `{}`", flags.join(" ")))
    })
}

/// Describes the cost of file systems and volumes in a run of `hours`, if their price is known.
fn describe_storage_cost(
    plan: &Plan,
    instances: &Alternative,
    hours: f64,
    today: Option<i64>,
) -> Vec<Note> {
    let systems = plan.created_file_systems().filter_map(|(storage, price)| {
        let (bytes, price) = (storage.capacity_bytes.get()?, price?);
        let note = Note::dated(today, |today| {
            format!(
                "{} × ${} a GiB-month × {} h = {} for the file system `{}` ({})",
                file_system::gib(bytes),
                price.usd_per_gb_month,
                text::short_number(hours),
                text::dollars(price.usd_per_month(bytes) * hours / HOURS_PER_MONTH),
                file_system::name(storage),
                price.describe_origin_and_age(today)
            )
        });
        Some(note.with_cost())
    });
    let volumes = on_demand_cost_of(plan, instances, hours * HOUR).volumes.exact();
    let volumes = volumes.filter(|usd| *usd > 0.0);
    systems.chain(volumes.map(|usd| Note::cost(format!("{} for the storage volumes", text::dollars(usd))))).collect()
}

/// Reports missing prices of instance types. An estimate does not satisfy a budget.
fn missing_instance_price(
    plan: &Plan,
    alternatives: &Alternatives,
    span: Span,
    hard: bool,
) -> Option<Diagnostic> {
    let region = plan.job.region.value().map_or("this region", String::as_str);
    // An instance type or a region that does not exist is reported already.
    plan.region.as_ref()?;
    let mut types: Vec<(&str, bool)> =
        alternatives.iter().flat_map(Alternative::types_without_list_price).collect();
    types.sort_unstable();
    types.dedup();
    types.retain(|(name, _)| instances::instance_exists(name));
    if types.is_empty() {
        return None;
    }
    let names: Vec<&str> = types.iter().map(|(name, _)| *name).collect();
    let (price, verb) = if names.len() == 1 { ("price", "is") } else { ("prices", "are") };
    let flags: Vec<String> = names.iter().map(|name| format!("--price {name}=USD_PER_HOUR")).collect();
    let estimated = if types.iter().all(|(_, is_estimated)| *is_estimated) {
        ", only an estimate from the price of EC2"
    } else {
        ""
    };
    let diagnostic = Diagnostic::new(
        &T0257,
        span,
        format!(
            "the {price} of {} in `{region}` {verb} not known{estimated}",
            text::backtick_list(&names, "and")
        ),
    )
    .severity(unchecked_severity(plan, hard))
    .help(format!("pass `{}`", flags.join(" ")));
    let is_enforced = hard && plan.enforced_budget().is_some();
    Some(if is_enforced {
        diagnostic.note("without a price, `enforce` does not stop the job for its cost")
    } else {
        diagnostic
    })
}

/// Describes the known cost of an hour as a sum over instance types; `None` without a price.
fn describe_hourly_cost(instances: &Alternative) -> Option<String> {
    let term = |part: &Part| {
        let (price, nodes) = part.price.as_ref().zip(part.nodes)?;
        Some(format!("{} × {}", text::dollars(price.usd_per_hour), text::count(nodes, "instance")))
    };
    let terms: Vec<String> = instances.parts.iter().filter_map(term).collect();
    match terms.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        all => Some(format!("({})", all.join(" + "))),
    }
}
