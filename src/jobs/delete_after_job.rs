//! Deletes the file systems with `delete-after-job` after the job.

use crate::commands::destroy::find_job_resources;
use crate::terminal::progress::Progress;
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::destroy::{Consent, Remover};
use trainc_apply::ledger::{Ledger, Recorder};
use trainc_apply::look::Look;
use trainc_apply::verdict::{self, Verdict};
use trainc_diag::{Invocation, NextCommand, text};
use trainc_ir::Plan;

/// Deletes the file systems with `delete-after-job` unless another job uses them; returns the failures.
pub(crate) async fn delete_file_systems<C: Cloud, K: Clock>(
    plan: &Plan,
    look: Look<'_, C, K>,
    progress: &Progress,
) -> Vec<Verdict> {
    if !plan.job.storage.iter().any(|storage| storage.delete_after_job.get() == Some(true)) {
        return Vec::new();
    }
    let remains = match find_job_resources(plan, &look).await {
        Ok(remains) => remains.only_released(),
        Err(failed) => return vec![failed],
    };
    let ledger = Ledger::default();
    let remover = Remover { look, recorder: Recorder { ledger: &ledger, listener: progress } };
    remover.run(&remains, Consent::default()).await;
    progress.clear();
    ledger.failures().into_iter().map(|(item, cause)| verdict::verdict(plan, &item, &cause)).collect()
}

/// Formats a line for the file systems with `delete-after-job` that still exist, with the command that deletes them.
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
