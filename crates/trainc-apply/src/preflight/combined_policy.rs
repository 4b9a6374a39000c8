//! Size of the role's policy while runs of other versions of the job still need their permissions.

use crate::desired::Desired;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_diag::{NextCommand, help};
use trainc_emit::iam::INLINE_POLICY_LIMIT;
use trainc_ir::Plan;

declare_code!(
    T0648,
    "combined-policy-too-long",
    Error,
    "a role policy that is too long for two versions of the job",
    found_in: Account
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0648];

/// Reports a policy that, combined with the permissions of other runs, exceeds IAM's limit.
pub fn combined_policy(plan: &Plan, desired: &Desired, problems: &mut Problems) {
    let Some(role) = desired.role.as_ref().filter(|role| !role.concurrent_runs.is_empty()) else { return };
    // White space does not count (IAM quotas).
    let has = role.policy.chars().filter(|c| !c.is_whitespace()).count();
    if has <= INLINE_POLICY_LIMIT {
        return;
    }
    let runs = text::backtick_list(&role.concurrent_runs, "and");
    let first = role.concurrent_runs.first().map_or("", String::as_str);
    let words = format!(
        "combined with the permissions of {runs}, the role's policy has {} characters, but IAM allows {}",
        text::group_digits(has as u64),
        text::group_digits(INLINE_POLICY_LIMIT as u64)
    );
    let span = plan.job.role.as_ref().map_or(plan.job.span, |role| role.span);
    problems.push(
        Diagnostic::new(&T0648, span, words)
            .help(help![
                "apply again once that run has ended, or stop it with `",
                NextCommand::new("stop").flag(format!("--run {first}")),
                "`",
            ])
            .note("a running job keeps its permissions")
            .fact("characters", has as u64)
            .fact("limit_characters", INLINE_POLICY_LIMIT as u64),
    );
}
