//! Diagnostics for exhausted quotas, and for waits for capacity that timed out.

use super::{T0603, T0670, Verdict};
use crate::calls::Call;
use crate::fault::{Class, Fault};
use crate::ledger::Item;
use trainc_catalog::limits;
use trainc_catalog::quotas::{self, Quota};
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic};
use trainc_diag::{NextCommand, help};
use trainc_emit::iam::INLINE_POLICY_LIMIT;
use trainc_ir::Plan;

/// Adds the note and help after a wait of this many seconds for capacity (`--wait-for-capacity`).
pub(super) fn with_wait_note(fault: &Fault, seconds: u64, verdict: Verdict) -> Verdict {
    let note = format!("waited {} for capacity (`--wait-for-capacity`)", text::duration(seconds));
    let diagnostic = verdict.diagnostic.note(note);
    // If the job alone exceeds the quota, waiting does not help.
    let diagnostic = if fault.class == Class::Quota && never_fits(fault) {
        diagnostic
    } else {
        diagnostic.help(
            "run the same command again, wait longer, or choose another availability zone or instance type",
        )
    };
    Verdict { diagnostic, ..verdict }
}

/// Returns the number after a phrase in the service's message: "The account-level service limit
/// 'ml.p4d.24xlarge for training job usage' is 0 Instances, with current utilization of 0 Instances and a
/// request delta of 8 Instances".
fn number_after(fault: &Fault, after: &str) -> Option<f64> {
    let rest = fault.message.split_once(after)?.1.trim_start();
    rest.split(|c: char| !(c.is_ascii_digit() || c == '.')).next()?.parse().ok()
}

/// Returns true if the job alone exceeds the quota, according to both numbers in the message.
fn never_fits(fault: &Fault) -> bool {
    number_after(fault, "' is ")
        .zip(number_after(fault, "request delta of "))
        .is_some_and(|(has, needs)| needs > has)
}

/// Returns true if FSx refers to the number of file systems, not to their storage (FSx API,
/// ServiceLimitExceeded, `Limit`).
pub(crate) fn is_file_system_count(fault: &Fault) -> bool {
    fault.message.contains("FILE_SYSTEM_COUNT")
}

/// Returns the quota of the catalogue that an error message names.
fn named_quota(plan: &Plan, fault: &Fault, item: &Item) -> Option<Quota> {
    match fault.call {
        Call::CreateTrainingJob => {
            let name = fault.message.split('\'').nth(1)?;
            let general = quotas::general_keys().filter_map(quotas::general);
            quotas::of_instances().map(|(_, quota)| quota).chain(general).find(|quota| quota.name == name)
        }
        Call::CreateFileSystem => {
            let is_it = |name: Option<&String>| name.is_some_and(|name| *name == item.name);
            let storage = plan.job.storage.iter().find(|one| is_it(one.name.value()))?;
            let (capacity, systems) = quotas::lustre(&storage.fsx_deployment_type()?)?;
            Some(if is_file_system_count(fault) { systems } else { capacity })
        }
        _ => None,
    }
}

/// Replaces the general advice by the command that requests an increase of the exhausted quota.
pub(super) fn with_increase_command(plan: &Plan, fault: &Fault, item: &Item, verdict: Verdict) -> Verdict {
    if fault.class != Class::Quota {
        return verdict;
    }
    let Some((quota, code)) =
        named_quota(plan, fault, item).and_then(|quota| Some((quota.clone(), quota.code?)))
    else {
        return verdict;
    };
    let told = number_after(fault, "current utilization of ").zip(number_after(fault, "request delta of "));
    let value = told.map(|(used, needs)| used + needs).or(fault.needs.map(|needs| needs.get() as f64));
    let value = value.map_or_else(|| "VALUE".to_owned(), text::short_number);
    let region = plan.job.region.value().map_or("REGION", String::as_str);
    let raise = format!(
        "aws service-quotas request-service-quota-increase --service-code {} --quota-code {code} \
            --desired-value {value} --region {region}",
        quota.service
    );
    let diagnostic = verdict.diagnostic.fact("quota", code.as_str());
    let diagnostic = if fault.call == Call::CreateTrainingJob && !never_fits(fault) {
        diagnostic.note(format!("`{raise}` requests an increase"))
    } else {
        diagnostic.help(raise)
    };
    Verdict { diagnostic, ..verdict }
}

/// Returns the diagnostic for an exhausted quota or a hard limit: `new` creates the diagnostic of a code,
/// `said` is the service's message.
pub(super) fn quota(
    fault: &Fault,
    item: Option<&Item>,
    new: &dyn Fn(&'static Code, String) -> Diagnostic,
    said: &str,
) -> Diagnostic {
    match (fault.call, item) {
        (Call::PutRolePolicy, Some(item)) => return policy_size(item, new(&T0670, said.to_owned())),
        (Call::CreateDataRepositoryAssociation, _) => {
            let diagnostic = new(&T0670, said.to_owned());
            let Some(limit) = limits::get("fsx.associations") else { return diagnostic };
            return diagnostic.note(format!(
                "at most {} {}; no quota increase raises this limit ({})",
                limit.value, limit.statement, limit.provenance.source
            ));
        }
        _ => {}
    }
    let diagnostic = new(&T0603, said.to_owned());
    // Quotas of IAM and FSx are used by permanent resources, so waiting for other jobs does not help.
    if fault.call != Call::CreateTrainingJob {
        return diagnostic
            .help("request an increase in Service Quotas, or delete resources that are no longer needed");
    }
    if never_fits(fault) {
        return diagnostic
            .help("request an increase in Service Quotas")
            .note("the job alone exceeds the quota: it does not fit even when no other job runs");
    }
    diagnostic.help(help![
        "request an increase in Service Quotas, or wait until other jobs end with \
            `--wait-for-capacity 2h`; `",
        NextCommand::new("plan"),
        "` shows the current usage",
    ])
}

/// Adds the help for a file system with too many links. The manifest's own links fit (T0474), so someone else
/// has created others.
pub(super) fn with_association_help(plan: &Plan, fault: &Fault, verdict: Verdict) -> Verdict {
    if fault.class != Class::Quota || fault.call != Call::CreateDataRepositoryAssociation {
        return verdict;
    }
    let region = plan.job.region.value().map_or("REGION", String::as_str);
    let diagnostic = verdict
        .diagnostic
        .help(format!(
            "`aws fsx describe-data-repository-associations --region {region}` lists the \
                existing ones: delete one that is not needed with `aws fsx \
                delete-data-repository-association --region {region} --association-id ID`, or write fewer \
                `link`s"
        ))
        .note("the manifest's links alone fit: someone else added links to the same file system");
    Verdict { diagnostic, ..verdict }
}

/// Adds the help for inline policies that are too long together, a limit that cannot be increased (IAM
/// quotas, "Inline policies for a role"; white space does not count).
fn policy_size(item: &Item, diagnostic: Diagnostic) -> Diagnostic {
    let role = item.name.split('/').next().unwrap_or_default();
    diagnostic
        .help(
            "use fewer or shorter prefixes: channels, links and outputs below the same prefix of a \
            bucket share one entry of the policy",
        )
        .note(format!(
            "IAM allows {} characters for all inline policies of a role together; no quota \
                increase raises this limit",
            text::group_digits(INLINE_POLICY_LIMIT as u64)
        ))
        .note(format!(
            "policies that someone else added to the role count too: `aws iam list-role-policies \
                --role-name {}`",
            trainc_emit::quote(role)
        ))
        .fact("limit_characters", INLINE_POLICY_LIMIT as u64)
}
