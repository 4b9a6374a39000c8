//! No room for a job: a quota that is used up, and a wait for room that was in vain.

use super::Verdict;
use crate::apply::calls::Call;
use crate::apply::fault::{Class, Fault};
use crate::apply::ledger::Item;
use crate::catalog::quotas::{self, Quota};
use crate::diag::Diagnostic;
use crate::emit::iam::INLINE_POLICY_LIMIT;
use crate::ir::Plan;
use crate::text;

/// What to do after a wait for room of so many seconds (`--wait-for-capacity`): the same again, not a wait.
pub(super) fn waited(fault: &Fault, seconds: u64, verdict: Verdict) -> Verdict {
    let note = format!("waited {} for room (`--wait-for-capacity`)", text::duration(seconds));
    let diagnostic = verdict.diagnostic.note(note);
    // Where the job alone needs more than the quota, no time helps.
    let diagnostic = if fault.class == Class::Quota && never_fits(fault) {
        diagnostic
    } else {
        diagnostic.help("run the same command again, wait longer, or choose another zone or instance type")
    };
    Verdict { diagnostic, ..verdict }
}

/// A figure of the service's sentence, right behind some words: "The account-level service limit 'ml.p4d.24xlarge for
/// training job usage' is 0 Instances, with current utilization of 0 Instances and a request delta of 8 Instances".
fn figure(fault: &Fault, after: &str) -> Option<f64> {
    let rest = fault.message.split_once(after)?.1.trim_start();
    rest.split(|c: char| !(c.is_ascii_digit() || c == '.')).next()?.parse().ok()
}

/// Whether the job alone needs more than the quota, where the service says both.
fn never_fits(fault: &Fault) -> bool {
    figure(fault, "' is ").zip(figure(fault, "request delta of ")).is_some_and(|(has, needs)| needs > has)
}

/// The quota that a refusal names, as the catalogue knows it.
fn named(plan: &Plan, fault: &Fault, item: &Item) -> Option<Quota> {
    match fault.call {
        Call::CreateTrainingJob => {
            let name = fault.message.split('\'').nth(1)?;
            let general = quotas::general_keys().filter_map(quotas::general);
            quotas::of_instances().map(|(_, quota)| quota).chain(general).find(|quota| quota.name == name)
        }
        Call::CreateFileSystem => {
            let is_it = |name: Option<&String>| name.is_some_and(|name| *name == item.name);
            let storage = plan.job.storage.iter().find(|one| is_it(one.name.value()))?;
            let (capacity, systems) = quotas::lustre(&storage.deployment_word()?)?;
            Some(if fault.message.contains("FILE_SYSTEM_COUNT") { systems } else { capacity })
        }
        _ => None,
    }
}

/// The command that asks for more of the quota that a refusal names, in the place of a word about Service Quotas.
pub(super) fn coded(plan: &Plan, fault: &Fault, item: &Item, verdict: Verdict) -> Verdict {
    if fault.class != Class::Quota {
        return verdict;
    }
    let Some((quota, code)) = named(plan, fault, item).and_then(|quota| Some((quota.clone(), quota.code?)))
    else {
        return verdict;
    };
    let used = figure(fault, "current utilization of ");
    let value = used
        .zip(figure(fault, "request delta of "))
        .map_or_else(|| "VALUE".to_owned(), |(used, needs)| text::short(used + needs));
    let region = plan.job.region.value().map_or("REGION", String::as_str);
    let raise = format!(
        "aws service-quotas request-service-quota-increase --service-code {} --quota-code {code} --desired-value {value} --region {region}",
        quota.service
    );
    let diagnostic = verdict.diagnostic.fact("quota", code.as_str());
    let diagnostic = if fault.call == Call::CreateTrainingJob && !never_fits(fault) {
        diagnostic.note(format!("`{raise}` asks for more of it"))
    } else {
        diagnostic.help(raise)
    };
    Verdict { diagnostic, ..verdict }
}

/// What to do about a quota that is used up.
pub(super) fn quota(fault: &Fault, item: &Item, diagnostic: Diagnostic) -> Diagnostic {
    if fault.call == Call::PutRolePolicy {
        return policy_size(item, diagnostic);
    }
    if fault.call == Call::CreateDataRepositoryAssociation {
        return diagnostic
            .help("write fewer `link`s: one of a prefix above them brings all that lies below it")
            .note("a file system has at most 8 associations, and no quota raises that (FSx, quotas)");
    }
    // IAM's and FSx's are used up by what stays: no job's end makes room there.
    if fault.call != Call::CreateTrainingJob {
        return diagnostic.help("ask for more in Service Quotas, or remove what is no longer needed");
    }
    if never_fits(fault) {
        return diagnostic
            .help("ask for more in Service Quotas")
            .note("the job alone needs more than the quota: no other job's end makes room for it");
    }
    diagnostic
        .help("ask for more in Service Quotas, or wait until other jobs end with `--wait-for-capacity 2h`")
        .note("`trainc plan MANIFEST` shows what is in use")
}

/// What to do about inline policies that are too long together: nobody gives more room (IAM quotas, "Inline policies for a
/// role"; white space does not count).
fn policy_size(item: &Item, diagnostic: Diagnostic) -> Diagnostic {
    let role = item.name.split('/').next().unwrap_or_default();
    diagnostic
        .help("name fewer or shorter prefixes: channels, links and outputs below one prefix of a bucket need one line of the policy together")
        .note(format!(
            "IAM takes {} characters of all inline policies of a role together, and no quota raises that",
            text::group(INLINE_POLICY_LIMIT as u64)
        ))
        .note(format!(
            "what somebody else added to the role counts as well: `aws iam list-role-policies --role-name {}`",
            crate::emit::quoted(role)
        ))
        .fact("limit_characters", INLINE_POLICY_LIMIT as u64)
}
