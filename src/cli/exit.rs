//! Exit codes of all commands.

/// Done.
pub(super) const DONE: u8 = 0;
/// Usage error.
pub(super) const USAGE: u8 = 2;
/// Errors in the manifest, or it cannot be read.
pub(super) const MANIFEST: u8 = 3;
/// The local training run failed or was stopped.
pub(super) const FAILED: u8 = 8;
/// Differences found; also if the account has no training job of the manifest.
pub(super) const DIFFERENT: u8 = 4;
/// Incomplete, safe to repeat.
pub(super) const INCOMPLETE: u8 = 5;
/// The training job failed or was stopped.
pub(super) const JOB: u8 = 8;
