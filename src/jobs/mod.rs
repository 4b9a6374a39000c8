//! Jobs in an account, for the commands about them.

pub(crate) mod account;
pub(crate) mod account_comparison;
pub(crate) mod change_bill;
pub(crate) mod delete_after_job;
pub(crate) mod job_context;
pub(crate) mod log_start;
pub(crate) mod partial_plan;
pub(crate) mod still_billed;
