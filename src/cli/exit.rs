//! Exit codes, the same for all commands.

/// Done.
pub const DONE: u8 = 0;
/// A bug in trainc.
pub const BUG: u8 = 1;
/// Wrong usage.
pub const USAGE: u8 = 2;
/// The manifest has errors, or cannot be read.
pub const MANIFEST: u8 = 3;
/// Differences.
pub const DIFFERENT: u8 = 4;
