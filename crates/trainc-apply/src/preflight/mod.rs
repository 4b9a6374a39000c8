//! Preflight checks before the first write: everything that the manifest refers to exists, is reachable and
//! fits the quotas.
//!
//! In: a plan and an account. Out: all findings at once, each a diagnostic with its span in the manifest. A
//! check for which the caller lacks permissions is skipped with a note.

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
pub use quota::{Together, quota_room};
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

/// Returns the findings for the facts about an account.
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

/// Returns the exit code for errors among the findings: 6 for missing permissions, 3 if the manifest does not
/// match the account, 5 if a quota or, with concurrent runs, the size of the role's policy is exceeded; 0
/// without errors.
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
