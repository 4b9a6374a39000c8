//! How a run ends: the one table of exit codes, and failures that carry one.

use std::fmt;

/// Exit codes of `trainc-worker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// A bug in the worker.
    Bug = 1,
    /// Wrong usage.
    Usage = 2,
    /// The config is wrong, or wrong for this machine.
    Config = 3,
    /// Data or weights cannot be used.
    Data = 10,
    /// A checkpoint cannot be used or written.
    Checkpoint = 11,
    /// The loss is not finite or over its limit.
    Loss = 12,
    /// A peer failed or a deadline passed.
    Peer = 13,
    /// A device or library is missing.
    Device = 14,
    /// Results cannot be written.
    Output = 15,
    /// Stopped by signal or time limit with a checkpoint: start again to go on.
    Saved = 75,
    /// Stopped by signal without a checkpoint.
    Unsaved = 76,
}

/// Every code with its meaning, as `--help` prints it.
pub const TABLE: [(Code, &str); 11] = [
    (Code::Bug, "a bug in the worker"),
    (Code::Usage, "wrong usage"),
    (Code::Config, "the config is wrong, or wrong for this machine"),
    (Code::Data, "data or weights cannot be used"),
    (Code::Checkpoint, "a checkpoint cannot be used or written"),
    (Code::Loss, "the loss is not finite or over its limit"),
    (Code::Peer, "a peer failed or a deadline passed"),
    (Code::Device, "a device or library is missing"),
    (Code::Output, "results cannot be written"),
    (Code::Saved, "stopped by a signal or limit with a checkpoint: start again to go on"),
    (Code::Unsaved, "stopped by a signal without a checkpoint"),
];

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its exit code.
    pub code: Code,
    /// What happened, in one line.
    pub message: String,
}

impl Failure {
    /// A failure.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
