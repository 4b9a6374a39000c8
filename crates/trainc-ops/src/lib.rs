//! Operations of the commands: what is read, decided and done. None prints; what happens meanwhile is
//! reported to a listener of the caller.

// The futures of the AWS calls nest deeper than the default of 128.
#![recursion_limit = "256"]

#[expect(
    clippy::disallowed_methods,
    reason = "opens the account, by variables and the file of a simulated one"
)]
pub mod accounts;
#[expect(clippy::disallowed_methods, reason = "tells paths from revisions")]
pub mod against;
pub mod better_machine;
pub mod checked_layouts;
pub mod clock;
pub mod comparison;
pub mod existing_job;
pub mod fixes;
pub mod local_run;
pub mod partial_plan;
pub mod removal;
mod signals;
pub mod still_billed;
pub mod written_layout;

use trainc_diag::Code;

/// Exit code without a problem.
const DONE: u8 = 0;

/// Returns the codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    local_run::CODES.to_vec()
}
