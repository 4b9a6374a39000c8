//! Skipped checks, and access to the answers of queries.

use super::facts::Lookup;
use crate::fault::{Class, Fault};
use std::collections::BTreeSet;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Detail, Diagnostic, Problems};

declare_code!(
    T0636,
    "check-skipped",
    Note,
    "a check that was skipped because of missing permissions or no answer",
    found_in: Account
);

pub(super) static CODES: &[&Code] = &[&T0636];

/// Returns the answer, if any. Reports a skipped check if the caller lacks permissions or the service did not
/// respond.
#[expect(clippy::ref_option, reason = "`Lookup` is one word: what was asked, and the answer")]
pub(super) fn answer_or_report<'a, T>(
    found: &'a Lookup<T>,
    what: &str,
    span: Span,
    problems: &mut Problems,
) -> Option<&'a T> {
    match found {
        None => None,
        Some(Ok(value)) => Some(value),
        Some(Err(fault)) => {
            if !matches!(fault.class, Class::NotFound | Class::NotSupported) {
                problems.push(skipped_check(fault, what, span));
            }
            None
        }
    }
}

/// Returns the fault if the resource does not exist.
#[expect(clippy::ref_option, reason = "`Lookup` is one word: what was asked, and the answer")]
pub(super) fn not_found_fault<T>(found: &Lookup<T>) -> Option<&Fault> {
    match found {
        Some(Err(fault)) if fault.class == Class::NotFound => Some(fault),
        _ => None,
    }
}

/// Removes the notes for actions that are already reported as denied, except for S3, where permissions differ
/// between buckets.
pub fn drop_repeated_notes(refused: &[Fault], problems: &mut Problems) {
    let lacking: Vec<String> =
        refused.iter().filter(|fault| fault.call.row().service != "s3").map(Fault::action).collect();
    problems.retain(|one| match &one.detail {
        Some(Detail::SkippedCheck { action, .. }) => !lacking.contains(action),
        _ => true,
    });
}

fn skipped_check(fault: &Fault, what: &str, span: Span) -> Diagnostic {
    let action = fault.action();
    let why = if fault.class == Class::Denied {
        format!("skipped check: {what}; the caller is not allowed to perform {action}")
    } else {
        format!("skipped check: {what}; {} returned `{}`", fault.call.describe(), short_reason(fault))
    };
    Diagnostic::new(&T0636, span, why)
        .note("`trainc catalog permissions plan` prints the policy that allows every check of `plan`")
        .detail(Detail::SkippedCheck { action, is_denied: fault.class == Class::Denied })
}

/// Describes the skipped checks for output without notes, one line per reason; empty if there are none. An
/// apply must not start a job unchecked without saying so.
pub fn describe_skipped(problems: &Problems) -> String {
    let mut out = String::new();
    for (denied, why) in [(true, "missing permissions"), (false, "the service did not answer")] {
        let skipped = problems.iter().filter_map(|one| match &one.detail {
            Some(Detail::SkippedCheck { action, is_denied }) if *is_denied == denied => Some(action.as_str()),
            _ => None,
        });
        let skipped: Vec<&str> = skipped.collect();
        let actions: Vec<&str> = skipped.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let checks = match skipped.len() {
            0 => continue,
            1 => "1 check was".to_owned(),
            more => format!("{more} checks were"),
        };
        out.push_str(&format!("note: {checks} skipped, {why}: {}; -v shows each\n", actions.join(", ")));
    }
    out
}

fn short_reason(fault: &Fault) -> &str {
    if fault.code.is_empty() { &fault.message } else { &fault.code }
}
