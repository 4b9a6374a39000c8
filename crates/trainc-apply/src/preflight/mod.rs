//! Preflight checks before the first write: everything that the manifest names exists, is reachable and fits the quotas.
//!
//! In: a plan and an account to look at. Out: all findings at once, each a diagnostic at its place in the manifest.
//! A check that the caller lacks permissions for is skipped with a note.

mod combined_policy;
mod data;
mod delete_permission;
mod excess_permissions;
mod facts;
mod limits;
mod network;
mod orphans;
mod queries;
mod quota;
mod quota_wait;
mod requirements;
mod role;
mod role_permissions;
mod skipped_checks;
mod survey;

pub use combined_policy::combined_policy;
pub use excess_permissions::excess_permissions;
pub use facts::{Facts, Limit, Lookup, Running};
pub use orphans::{lost_file_systems, orphaned_file_systems, orphaned_sweep_jobs};
pub use quota::Together;
pub(crate) use requirements::s3_locations;
pub use skipped_checks::{describe_skipped, drop_repeated_notes};

use trainc_diag::{Code, Problems};
use trainc_ir::Plan;

/// The codes of this stage.
pub(super) fn codes() -> Vec<&'static Code> {
    [
        skipped_checks::CODES,
        combined_policy::CODES,
        data::CODES,
        orphans::CODES,
        network::CODES,
        quota::CODES,
        delete_permission::CODES,
        role::CODES,
        excess_permissions::CODES,
    ]
    .concat()
}

/// Judges what was seen.
pub fn judge(plan: &Plan, facts: &Facts) -> Problems {
    let mut problems = Problems::default();
    network::judge(plan, facts, &mut problems);
    quota::judge(plan, facts, &mut problems);
    data::judge(plan, facts, &mut problems);
    role::judge(plan, facts, &mut problems);
    delete_permission::judge(plan, facts, &mut problems);
    problems.sort();
    problems
}

/// The exit code that findings of severity error give: 6 where permissions are missing, 3 where the manifest names
/// what is not so, 5 where the account has no room, or the role's policy none beside a run that goes on.
pub fn exit_code(problems: &Problems) -> u8 {
    let errors = || problems.iter().filter(|one| one.severity == trainc_diag::Severity::Error);
    if errors().any(|one| one.code == &role::T0633) {
        6
    } else if errors().any(|one| one.code != &quota::T0621 && !combined_policy::CODES.contains(&one.code)) {
        3
    } else if errors().next().is_some() {
        5
    } else {
        0
    }
}
