//! No room for a job: a quota that is used up, and a wait for room that was in vain.

use super::Verdict;
use crate::apply::calls::Call;
use crate::apply::fault::{Class, Fault};
use crate::diag::Diagnostic;
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
pub(super) fn quota(fault: &Fault, diagnostic: Diagnostic) -> Diagnostic {
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
