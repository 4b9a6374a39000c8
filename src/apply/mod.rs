//! Apply: make the account match the plan, exactly one job, from any crash.
//!
//! In: a plan without errors, and an account behind [`cloud::Observe`] or [`cloud::Cloud`]. Out: what differs
//! (`diff`), what was done (`run`), and what is left. Knows no AWS SDK, no file, no terminal and no clock but the one
//! that it is given. There is no state file: names and tokens are functions of the plan, and the account is the truth.

pub mod account;
pub mod calls;
pub mod cloud;
pub mod desired;
pub mod destroy;
pub mod diff;
pub mod fake;
pub mod fault;
pub mod ledger;
pub mod observed;
pub mod patience;
pub mod preflight;
pub mod prospect;
pub mod run;
