//! No room for a job: a quota that is used up, and a wait for room that was in vain.

use super::Verdict;
use crate::apply::calls::Call;
use crate::apply::fault::{Class, Fault};
use crate::apply::ledger::Item;
use crate::diag::Diagnostic;
use crate::emit::iam::INLINE_POLICY_LIMIT;
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

/// Whether the job alone needs more than the quota: "… is 0 Instances, with current utilization of 0 Instances and a
/// request delta of 8 Instances" is the service's own sentence, where it says one.
fn never_fits(fault: &Fault) -> bool {
    let number = |after: &str| {
        let rest = fault.message.split_once(after)?.1.trim_start();
        rest.split(|c: char| !(c.is_ascii_digit() || c == '.')).next()?.parse::<f64>().ok()
    };
    number("' is ").zip(number("request delta of ")).is_some_and(|(has, needs)| needs > has)
}

/// What to do about a quota that is used up.
pub(super) fn quota(fault: &Fault, item: &Item, diagnostic: Diagnostic) -> Diagnostic {
    if fault.call == Call::PutRolePolicy {
        return policy_size(item, diagnostic);
    }
    // IAM's and FSx's are used up by what stays: no job's end makes room there.
    if fault.call != Call::CreateTrainingJob {
        return diagnostic.help("ask for more in Service Quotas, or remove what is no longer needed");
    }
    if never_fits(fault) {
        return diagnostic
            .help("`trainc plan MANIFEST` shows the quota's code, and the command that asks for more of it")
            .note("the job alone needs more than the quota: no other job's end makes room for it");
    }
    diagnostic
        .help("ask for more in Service Quotas, or wait until other jobs end with `--wait-for-capacity 2h`")
        .note("`trainc plan MANIFEST` shows the quota's code, its value and what is in use")
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
