//! Exit codes, and failures that carry one.

use std::fmt;

/// Exit codes of `trainc-worker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Internal error.
    Bug = 1,
    /// Invalid command line.
    Usage = 2,
    /// The config is invalid or does not match this machine.
    Config = 3,
    /// Data or weights are invalid.
    Data = 10,
    /// A checkpoint cannot be read or written.
    Checkpoint = 11,
    /// The loss is not finite or exceeds its limit, or the self-check found wrong results.
    Loss = 12,
    /// A peer failed or a timeout expired.
    Peer = 13,
    /// A device or library is missing.
    Device = 14,
    /// Results cannot be written.
    Output = 15,
    /// Stopped by a signal or time limit after saving a checkpoint: start again to resume.
    Saved = 75,
    /// Stopped by a signal before a checkpoint was saved.
    Unsaved = 76,
}

/// Every code and its meaning, as `--help` prints them.
pub const TABLE: [(Code, &str); 11] = [
    (Code::Bug, "a bug in the worker"),
    (Code::Usage, "invalid command line"),
    (Code::Config, "the config is invalid or does not match this machine"),
    (Code::Data, "data or weights are invalid"),
    (Code::Checkpoint, "a checkpoint cannot be read or written"),
    (Code::Loss, "the loss is not finite or exceeds its limit, or GPUs failed the self-check"),
    (Code::Peer, "a peer failed or a timeout expired"),
    (Code::Device, "a device or library is missing"),
    (Code::Output, "results cannot be written"),
    (Code::Saved, "stopped by a signal or time limit after saving a checkpoint: start again to resume"),
    (Code::Unsaved, "stopped by a signal before a checkpoint was saved"),
];

/// The reason for a run's early end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Exit code.
    pub code: Code,
    /// One-line description.
    pub message: String,
}

impl Failure {
    /// Creates a failure.
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
