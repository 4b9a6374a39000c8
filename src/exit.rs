//! Exit codes of all commands.

/// Done.
pub(crate) const DONE: u8 = 0;
/// Usage error.
pub(crate) const USAGE: u8 = 2;
/// Errors in the manifest, or it cannot be read.
pub(crate) const MANIFEST: u8 = 3;
/// The local training run failed or was stopped.
pub(crate) const FAILED: u8 = 8;
/// Differences found; also if the account has no training job of the manifest.
pub(crate) const DIFFERENT: u8 = 4;
/// Incomplete, safe to repeat.
pub(crate) const INCOMPLETE: u8 = 5;
/// The training job failed or was stopped.
pub(crate) const JOB: u8 = 8;
