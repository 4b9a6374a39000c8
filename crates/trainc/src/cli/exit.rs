//! Exit codes, the same for all commands.

/// Done.
pub(super) const DONE: u8 = 0;
/// Wrong usage.
pub(super) const USAGE: u8 = 2;
/// The manifest has errors, or cannot be read.
pub(super) const MANIFEST: u8 = 3;
/// The training itself failed or was stopped.
pub(super) const FAILED: u8 = 8;
/// Differences; also between a manifest and an account that has no training job of it, where one is asked for.
pub(super) const DIFFERENT: u8 = 4;
/// Incomplete, safe to run again.
pub(super) const INCOMPLETE: u8 = 5;
/// The training job itself failed or was stopped.
pub(super) const JOB: u8 = 8;
