//! The budget against what the job may cost at most: price × instances × `max-run`.

use crate::catalog::prices;
use crate::check::Context;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems, Severity};
use crate::ir::Plan;
use crate::text;

declare_code!(T0447, "over-budget", Warning, "the longest run may cost more than the budget");
declare_code!(T0257, "budget-without-price", Note, "a budget that cannot be held against a price");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0447, &T0257];

/// `hard=#true` makes an error of it.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(budget), Some(cluster)) = (&plan.job.budget, &plan.job.cluster) else { return };
    let Some(usd) = budget.usd.val() else { return };
    if !plan.deployable {
        return;
    }
    let span = usd.span_or(budget.span);
    let Some(price) = plan.price.as_ref().filter(|_| cluster.groups.is_empty()) else {
        if !cluster.groups.is_empty() {
            problems.push(
                Diagnostic::new(
                    &T0257,
                    span,
                    "the cluster has several instance groups, and no price of one kind",
                )
                .note(
                    "trainc holds no budget against a heterogeneous cluster: `max-run` bounds what it costs",
                ),
            );
            return;
        }
        // An instance type or a region that does not exist has been refused already.
        if let Some(instance) =
            cluster.instance.val().filter(|_| plan.instance.is_some() && plan.region.is_some())
        {
            let region = plan.job.region.value().map_or("this region", String::as_str);
            problems.push(
                Diagnostic::new(
                    &T0257,
                    span,
                    format!("the price of `{}` in `{region}` is not known", instance.value),
                )
                .help(format!("give it with `--price {}=USD_PER_HOUR`", instance.value)),
            );
        }
        return;
    };
    let (Some(nodes), Some(run)) = (cluster.nodes.get(), cluster.max_run_seconds.val()) else { return };
    let hours = run.value as f64 / 3600.0;
    let most = price.usd_per_hour * nodes as f64 * hours;
    if most <= usd.value {
        return;
    }
    let severity = if budget.hard.get() == Some(true) { Severity::Error } else { Severity::Warning };
    let affordable = usd.value / (price.usd_per_hour * nodes as f64);
    let diagnostic = Diagnostic::new(
        &T0447,
        span,
        format!(
            "a run of {} may cost {}; the budget is {}",
            text::duration(run.value),
            text::dollars(most),
            text::dollars(usd.value)
        ),
    )
    .severity(severity)
    .label(run.span_or(cluster.span), format!("`max-run`, {}", crate::plan::origin_words(&run.origin)))
    .note(format!(
        "{} × {} × {} h",
        text::dollars(price.usd_per_hour),
        text::count(nodes, "instance"),
        text::short(hours)
    ))
    .note(match price.region.as_ref().zip(price.date.as_ref()) {
        Some((region, date)) => format!("the price of {region} as of {date}; `--price` gives another"),
        None => format!("the price is from {}", price.source),
    })
    .fact("most_usd", most)
    .fact("budget_usd", usd.value);
    let diagnostic = match newer_elsewhere(plan) {
        Some(words) => diagnostic.note(words),
        None => diagnostic,
    };
    // A limit below what the run needs would only stop it before its end.
    let needed = super::predicted_cost::predicted(context)
        .map(|(_, run)| (run.seconds / 3600.0, run.interval.high / 3600.0));
    problems.push(match needed {
        Some((hours, _)) if hours > affordable.floor() => diagnostic.note(format!(
            "the run is predicted to take {} h: a `max-run` that the budget pays for would stop it before its end",
            text::short(hours)
        )),
        Some((hours, most)) if most > affordable.floor() => diagnostic.note(format!(
            "the run is predicted to take {} h, {} h at most: a `max-run` that the budget pays for may stop it before its end",
            text::short(hours),
            text::short(most)
        )),
        _ if affordable >= 1.0 => diagnostic
            .help(format!("write `max-run \"{}h\"`: the service stops the job then", affordable.floor())),
        _ => diagnostic,
    });
}

/// A later price of the type that the catalogue has for another region only: prices fall everywhere at about the same
/// time, so the one that was used may be out of date.
pub(super) fn newer_elsewhere(plan: &Plan) -> Option<String> {
    let used = plan.price.as_ref()?;
    let region = used.region.as_deref()?;
    let instance = plan.job.cluster.as_ref()?.instance.value()?;
    let since = prices::newest(instance, region)?.provenance.date;
    let newest = prices::newest_anywhere(instance).filter(|price| price.provenance.date > since)?;
    Some(format!(
        "a later price is known of {} alone: {} since {}; `--price {instance}={}` takes it",
        newest.region.as_deref()?,
        text::dollars(newest.usd_per_hour),
        newest.date_words.as_deref().unwrap_or(&newest.provenance.date),
        newest.usd_per_hour
    ))
}
