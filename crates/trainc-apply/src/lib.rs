//! Apply: makes the account match the plan, with exactly one job, from any interrupted state.
//!
//! In: a plan without errors, and an account behind [`cloud::Observe`] or [`cloud::Cloud`]. Out: the
//! differences (`diff`), the completed changes (`run`) and the remaining resources. It uses no AWS SDK, no
//! files, no terminal, and only the clock that it is given. There is no state file: names and tokens are
//! functions of the plan, and the account is the source of truth.

pub mod account;
pub mod autopsy;
pub mod brake;
pub mod calls;
pub mod change;
pub mod cloud;
pub mod desired;
pub mod destroy;
pub mod diff;
pub mod fake;
pub mod fault;
mod file_systems;
pub mod forecast;
pub mod inventory;
pub mod ledger;
pub mod logs;
pub mod look;
pub mod metrics;
mod observe;
pub mod observed;
pub mod orphaned_jobs;
pub mod ownership;
pub mod patience;
pub mod permissions;
pub mod placeholders;
mod policy;
mod prefetch;
pub mod preflight;
pub mod prospect;
mod removal;
pub mod run;
mod runs;
pub mod saved_plan;
pub mod status;
pub mod verdict;

use trainc_diag::Code;

/// The codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    [verdict::CODES, saved_plan::CODES, autopsy::CODES, &preflight::codes()].concat()
}
