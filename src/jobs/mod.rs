//! Jobs in an account, for the commands about them.

pub(crate) mod job_context;
pub(crate) mod log_start;
