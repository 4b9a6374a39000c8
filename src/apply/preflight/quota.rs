//! Room: quotas against what the job needs and what runs now.

use super::facts::{Facts, Limit};
use super::seen;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::ir::Plan;
use crate::text;

declare_code!(T0621, "quota-too-small", Error, "a quota of the account that the job does not fit into");

pub(super) static CODES: &[&Code] = &[&T0621];

pub(super) fn judge(plan: &Plan, facts: &Facts, problems: &mut Problems) {
    let cluster = plan.job.cluster.as_ref();
    let span = cluster.map_or(plan.job.span, |cluster| cluster.span);
    let used = seen(&facts.running, "what runs now", span, problems).copied().unwrap_or(0);
    for limit in &facts.limits {
        let Some(has) = seen(&limit.seen, &format!("the quota `{}`", limit.quota.name), limit.span, problems)
        else {
            continue;
        };
        let taken = if limit.is_shared { used as f64 } else { 0.0 };
        if limit.wanted + taken > *has {
            problems.push(too_small(limit, *has, taken));
        }
    }
}

fn too_small(limit: &Limit, has: f64, taken: f64) -> Diagnostic {
    let code = limit.quota.code.clone().unwrap_or_default();
    let service = &limit.quota.service;
    let in_use = if taken > 0.0 {
        format!(", {} of them in use now", amount(taken, &limit.quota.unit))
    } else {
        String::new()
    };
    Diagnostic::new(
        &T0621,
        limit.span,
        format!(
            "the quota `{}` is {}{in_use}, and the job needs {}",
            limit.quota.name,
            amount(has, &limit.quota.unit),
            amount(limit.wanted, &limit.quota.unit)
        ),
    )
    .help(format!(
        "aws service-quotas request-service-quota-increase --service-code {service} --quota-code {code} --desired-value {}",
        text::short(limit.wanted + taken)
    ))
    .note("AWS answers in hours to days, and an approved raise takes up to 30 minutes to hold")
    .fact("quota", code)
    .fact("value", has)
    .fact("needed", limit.wanted)
    .fact("in_use", taken)
}

fn amount(value: f64, unit: &str) -> String {
    let whole = std::time::Duration::try_from_secs_f64(value.max(0.0)).unwrap_or_default().as_secs();
    match unit {
        "seconds" => text::duration(whole),
        "instances" => text::count(whole, "instance"),
        other => format!("{} {other}", text::group(whole)),
    }
}
