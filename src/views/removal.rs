//! What is printed of resources that a job leaves.

use trainc_diag::{Invocation, NextCommand, text};

/// Formats a line for the file systems with `delete-after-job` that still exist, with the command that
/// deletes them.
pub(crate) fn describe_remaining(names: &[&str], invocation: &Invocation) -> String {
    let (stay, it) = match names {
        [] => return String::new(),
        [_] => ("is still there and billed", "it"),
        _ => ("are still there and billed", "them"),
    };
    let names = text::backtick_list(names, "and");
    let destroy = invocation.command_line(&NextCommand::new("destroy"));
    format!("  next  {destroy}: {names} {stay}, and `delete-after-job` is set for {it}\n")
}
