//! Quotas compared with the demand of the job and of running jobs.

use super::facts::{Facts, Limit};
use super::skipped_checks::answer_or_report;
use std::collections::{BTreeMap, BTreeSet};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{Plan, QuotaRoom};

declare_code!(
    T0621,
    "quota-too-small",
    Error,
    "a quota of the account that is too small for the job",
    found_in: Account,
    explains: [Quota]
);

pub(super) static CODES: &[&Code] = &[&T0621];

pub(super) fn judge(plan: &Plan, facts: &Facts, problems: &mut Problems) {
    let cluster = plan.job.cluster.as_ref();
    let span = cluster.map_or(plan.job.span, |cluster| cluster.span);
    let used = answer_or_report(&facts.running, "running jobs", span, problems).cloned().unwrap_or_default();
    let taken_of = |limit: &Limit| if limit.is_shared { used.of(limit) } else { limit.taken };
    let is_short =
        |limit: &&Limit| matches!(&limit.seen, Some(Ok(has)) if limit.wanted + taken_of(limit) > *has);
    let short: BTreeSet<&str> =
        facts.limits.iter().filter(is_short).filter_map(|limit| limit.instance.as_deref()).collect();
    for limit in &facts.limits {
        let Some(has) =
            answer_or_report(&limit.seen, &format!("the quota `{}`", limit.quota.name), limit.span, problems)
        else {
            continue;
        };
        let taken = taken_of(limit);
        if limit.wanted + taken > *has {
            let in_use = match taken {
                0.0 => String::new(),
                // Only the newest running jobs were described.
                _ if limit.is_shared && !used.is_all => {
                    format!(", of which at least {} are in use", amount(taken, &limit.quota.unit))
                }
                _ => format!(", of which {} are in use", amount(taken, &limit.quota.unit)),
            };
            let what = format!("is {}{in_use}, but the job needs", amount(*has, &limit.quota.unit));
            let region = plan.job.region.value().map_or("", String::as_str);
            let one = too_small(limit, region, &what, *has, taken, facts.waits);
            problems.push(match &limit.instance {
                Some(_) if other_type_starts(plan, |kind| !short.contains(kind)) => {
                    one.severity(Severity::Warning).note("SageMaker can use another preferred instance type")
                }
                _ => one,
            });
        }
    }
}

/// Returns whether one of several preferred instance types passes.
pub(super) fn other_type_starts(plan: &Plan, passes: impl Fn(&str) -> bool) -> bool {
    let preferred = plan.fleet.alternatives().filter(|all| !all.further.is_empty());
    preferred.is_some_and(|all| all.iter().any(|one| one.parts.iter().all(|part| passes(&part.instance))))
}

/// Combined demand of the jobs of one command, each of which may fit alone.
#[derive(Clone, Debug, Default)]
pub struct Together(BTreeMap<(String, String), (f64, Vec<String>)>);

fn key(plan: &Plan, limit: &Limit) -> (String, String) {
    (plan.job.region.value().cloned().unwrap_or_default(), limit.quota.code.clone().unwrap_or_default())
}

impl Together {
    /// Returns the demand of the jobs added so far, in the quota's unit.
    pub fn demand_so_far(&self, plan: &Plan, limit: &Limit) -> f64 {
        self.0.get(&key(plan, limit)).map_or(0.0, |(sum, _)| *sum)
    }

    /// Adds a job to the previous ones. Reports a job that does not fit in addition to them, and leaves it
    /// out unless the user waits for capacity. Only for a job that is to be started and fits alone.
    pub fn add(&mut self, plan: &Plan, facts: &Facts, problems: &mut Problems) {
        let region = plan.job.region.value().cloned().unwrap_or_default();
        let shared = || facts.limits.iter().filter(|limit| limit.is_shared);
        let mut fits = true;
        for limit in shared() {
            let Some(Ok(has)) = limit.seen else { continue };
            let Some((before, jobs)) = self.0.get(&key(plan, limit)) else { continue };
            let used = facts.used_instances(limit);
            if limit.wanted + used <= has && limit.wanted + used + before > has {
                let what = format!(
                    "is {}, but in addition to {} for {} the job needs",
                    amount(has, &limit.quota.unit),
                    amount(*before, &limit.quota.unit),
                    text::backtick_list(jobs, "and"),
                );
                problems.push(too_small(limit, &region, &what, has, used + before, facts.waits));
                fits = facts.waits;
            }
        }
        for limit in shared().filter(|_| fits) {
            let (sum, jobs) = self.0.entry(key(plan, limit)).or_default();
            *sum += limit.wanted;
            jobs.extend(plan.job.name.value().cloned());
        }
    }
}

/// Returns the quotas of a job to be started that running jobs share, as far as their values are known.
/// `together` has the demand of the earlier jobs of the command. A simulated account starts every job; its
/// quotas are those that its file sets, otherwise the defaults of a new account, which may refuse the job
/// there.
pub fn quota_room(plan: &Plan, facts: &Facts, together: &Together, is_simulated: bool) -> Vec<QuotaRoom> {
    let running = facts.running.as_ref().and_then(|seen| seen.as_ref().ok());
    let shared = facts.limits.iter().filter(|limit| limit.is_shared);
    shared
        .filter_map(|limit| {
            let default = limit.quota.default.filter(|_| is_simulated && !limit.is_own);
            let value = match default {
                Some(default) => default as f64,
                None => limit.seen.as_ref()?.as_ref().ok().copied()?,
            };
            let before = together.demand_so_far(plan, limit);
            Some(QuotaRoom {
                name: limit.quota.name.clone(),
                code: limit.quota.code.clone(),
                value,
                needed: limit.wanted,
                in_use: running.map(|running| running.of(limit) + before),
                in_use_is_lower_bound: running.is_some_and(|running| !running.is_all),
                is_default: limit.is_default || default.is_some(),
            })
        })
        .collect()
}

/// Returns the problem for a quota that is too small; not an error if it is only used by running jobs and the
/// user waits.
fn too_small(limit: &Limit, region: &str, what: &str, has: f64, taken: f64, waits: bool) -> Diagnostic {
    let code = limit.quota.code.clone().unwrap_or_default();
    let service = &limit.quota.service;
    let needed = amount(limit.wanted, &limit.quota.unit);
    let one = Diagnostic::new(
        &T0621,
        limit.span,
        format!("the quota `{}` {what} {needed}", limit.quota.name),
    )
    .note("AWS responds within hours to days, and an approved increase takes up to 30 minutes to take effect")
    .fact("quota", code.as_str())
    .fact("value", has)
    .fact("needed", limit.wanted)
    .fact("in_use", taken);
    let raise = format!(
        "aws service-quotas request-service-quota-increase --service-code {service} --quota-code \
            {code} --desired-value {} --region {region}",
        text::short_number(limit.wanted + taken)
    );
    if limit.wanted > has {
        return one.help(raise);
    }
    if waits && limit.is_shared {
        return one.severity(Severity::Warning).note("`--wait-for-capacity` waits until the quota has room");
    }
    let one = one.help(raise);
    if limit.is_shared {
        return one.note("`apply --wait-for-capacity 2h` waits until other jobs have ended");
    }
    one.note("or delete a file system that is no longer needed: `aws fsx describe-file-systems` lists them")
}

fn amount(value: f64, unit: &str) -> String {
    let whole = std::time::Duration::try_from_secs_f64(value.max(0.0)).unwrap_or_default().as_secs();
    match unit {
        "seconds" => text::duration(whole),
        "instances" => text::count(whole, "instance"),
        other => format!("{} {other}", text::group_digits(whole)),
    }
}
